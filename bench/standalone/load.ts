/** Something to find for each guard, again and again, on a throw-away node with the pods that `examples/` is about. */

/** Waits until all that the examples ask for is guarded. */
export const untilGuarded = `
export KUBECONFIG=/var/lib/rampart/kubeconfig
for try in $(seq 120); do
  kubectl get -f examples/ > /dev/null 2>&1 && rampart status > /dev/null && break
  sleep 1
done
rampart status > /dev/null
`;

interface Pace {
  /** Without it, steps go on until the shell ends. */
  readonly steps?: number;
  /** Seconds between two steps, with a fraction. */
  readonly everyS: number;
}

/**
 * A script that goes on: at each step an access by a pod and one by the host, a refused connection, a changed file, a file that comes and
 * goes, an object that breaks a policy and goes, and one that is refused. Few processes are started for it: their memory is that of the machine.
 *
 * @param fill - First, as many steps as fill what keeps findings. Then it prints {@link filled}.
 * @param everyS - Seconds between two steps after that, with a fraction.
 */
export function loadScript(fill: Required<Pace>, everyS: number): string {
  return `
db="$(kubectl get pod db -o jsonpath='{.status.podIP}')"
objects=https://127.0.0.1:7443/api/v1/namespaces/shop/configmaps
call() {
  curl -s -o /dev/null --cacert /var/lib/rampart/ca.crt -H "Authorization: Bearer $(cat /var/lib/rampart/token)" -H 'Content-Type: application/json' "$@"
}
create() { call -d '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"'"$1"'"},"data":{"'"$2"'":"x"}}' "$objects"; }
file=0
${stepsOf(fill)}
wait
echo ${filled}
${stepsOf({ everyS })}
`;
}

export const filled = 'the stores are filled';

function stepsOf({ steps, everyS }: Pace): string {
  const loop = `step=0; while ${steps === undefined ? '' : `[ $step -lt ${steps} ] && `}sleep ${everyS}; do step=$((step + 1))`;
  return `
(in-pod db sh -c '${loop}; head -n 1 /etc/shadow > /dev/null; done') &
(in-pod frontend sh -c "${loop.replaceAll('$', '\\$')}; nc -w 1 $db 5432; done") > /dev/null 2>&1 &
${loop}
  file=$((file + 1))
  tail -n 1 /etc/shadow > /dev/null
  echo "user$file:x:0:0::/root:/bin/sh" >> /etc/passwd
  echo "$file" > "/etc/new-$file"
  rm -f "/etc/new-$((file - 1))"
  create "plain-$file" plain
  call -X DELETE "$objects/plain-$((file - 1))"
  create refused db-password
done`;
}
