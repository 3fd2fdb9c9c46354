/** A throw-away node with all guards, one finding of each kind, and `rampart ui` on it: for pictures and deep tests. */
import { once } from 'node:events';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { Browser } from 'playwright-core';

import { Shell } from '../test/docs/shell.fixture.ts';
import { startThrowawayNode } from '../test/lab/throwaway-node.ts';
import { openBrowser } from './ui-process.fixture.ts';

/** Waits until the examples are applied, and all that they ask for is guarded. */
const untilGuarded = `
for try in $(seq 60); do
  kubectl get -f examples/ > /dev/null 2>&1 && rampart status > /dev/null && break
  sleep 1
done`;

/** A second program on the interface of the example, so that they form a chain. */
const secondProgram = `
sed -e 's/^  name: count/  name: sample/' -e 's/priority: 50/priority: 60/' examples/bpf-programs.yaml | kubectl apply -f -
`;

/** One finding of each kind, and a policy that cannot be in effect. */
const events = `
db="$(kubectl get pod db -o jsonpath='{.status.podIP}')"
for try in 1 2 3; do in-pod frontend nc -w 1 "$db" 5432 || true; done
in-pod db cat /etc/shadow > /dev/null
in-pod db sh -c 'head -n 1 /etc/shadow' > /dev/null
tail -n 1 /etc/shadow > /dev/null
echo 'eve:x:0:0::/root:/bin/sh' >> /etc/passwd
mkdir -p /etc/cron.d; echo '* * * * * root /tmp/x' > '/etc/cron.d/<img src=x onerror=alert(1)>'
sed -i 's/^#*PermitRootLogin.*/PermitRootLogin yes/; $a # root' /etc/ssh/ssh_config 2> /dev/null || true
kubectl create configmap plain -n shop || true
kubectl create configmap new -n shop --from-literal db-password=secret || true
sed -e 's/name: passwords/name: tokens/' -e 's,/etc/shadow,/run/token,' -e '/host: true/d' examples/file-access.yaml | kubectl apply -f -
sleep 15
`;

export interface Scene extends AsyncDisposable {
  /** In the network of the node, too. */
  readonly browser: Browser;
  /** The address of the page with its token, which works once. */
  readonly link: string;
  /** The lines that the events printed. */
  readonly printed: string;
}

/** The caller disposes it. @throws as {@link startThrowawayNode}; {Error} if `rampart ui` has no output. */
export async function startScene(): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await startThrowawayNode());
  const server = stack.use(new Shell(node));
  await server.start(
    'mkdir -p /var/lib/rampart; cp examples/count.bpf.o /var/lib/rampart; rampart standalone --data /var/lib/rampart -f examples/',
    'serving https',
  );
  const shell = stack.use(new Shell(node));
  await shell.run('export KUBECONFIG=/var/lib/rampart/kubeconfig');
  await shell.run(untilGuarded);
  await shell.run(secondProgram);
  const { text: printed } = await shell.run(events);
  const ui = node.spawn(['rampart', 'ui', '--data', '/var/lib/rampart'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (ui.stdout === null) throw new Error('rampart ui has no output');
  const [link] = (await once(createInterface(ui.stdout), 'line')) as [string];
  const directory = stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-pictures-')));
  const chromium = join(directory.path, 'chromium');
  writeFileSync(chromium, `#!/bin/sh\nexec '${node.enterPath}' /usr/bin/chromium "$@"\n`, { mode: 0o755 });
  const browser = stack.adopt(await openBrowser(chromium), (one) => one.close());
  const all = stack.move();
  return { browser, link, printed, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
