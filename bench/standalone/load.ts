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

/**
 * A script that goes on: at each step an access by a pod and one by the host, a refused connection, a changed file, a file that comes and
 * goes, an object that breaks a policy and goes, and one that is refused. Few processes are started for it: their memory is that of the machine.
 *
 * @param everyS - Seconds between two steps, with a fraction.
 */
export function loadScript(everyS: number): string {
  return `
db="$(kubectl get pod db -o jsonpath='{.status.podIP}')"
(in-pod db sh -c 'while sleep ${everyS}; do head -n 1 /etc/shadow > /dev/null; done') &
(in-pod frontend sh -c "while sleep ${everyS}; do nc -w 1 $db 5432; done") > /dev/null 2>&1 &
objects=https://127.0.0.1:7443/api/v1/namespaces/shop/configmaps
call() {
  curl -s -o /dev/null --cacert /var/lib/rampart/ca.crt -H "Authorization: Bearer $(cat /var/lib/rampart/token)" -H 'Content-Type: application/json' "$@"
}
create() { call -d '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"'"$1"'"},"data":{"'"$2"'":"x"}}' "$objects"; }
echo the load has begun
step=0
while sleep ${everyS}; do
  step=$((step + 1))
  tail -n 1 /etc/shadow > /dev/null
  echo "user$step:x:0:0::/root:/bin/sh" >> /etc/passwd
  echo "$step" > "/etc/new-$step"
  rm -f "/etc/new-$((step - 1))"
  create "plain-$step" plain
  call -X DELETE "$objects/plain-$((step - 1))"
  create refused db-password
done
`;
}
