/**
 * `npm run lab`: a shell on a throw-away node with three pods, to try Rampart on a machine without a kubelet. All of it ends with the
 * shell.
 *
 * Exit codes: that of the shell; 2 if pods cannot run here.
 */
import { once } from 'node:events';

import { labObstacle } from '../test/lab/obstacle.ts';
import { startThrowawayNode } from '../test/lab/throwaway-node.ts';

const obstacle = labObstacle();
if (obstacle !== undefined) {
  process.stderr.write(`lab: pods cannot run here: ${obstacle}\n`);
  process.exit(2);
}
const interrupted = new AbortController();
// A Ctrl-C is for what runs in the shell; before there is one, and by the other signals, all of it ends.
let isOpen = false;
process.on('SIGINT', () => isOpen || interrupted.abort(new Error('stopped by SIGINT')));
for (const name of ['SIGTERM', 'SIGHUP'] as const)
  process.on(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
try {
  await using node = await startThrowawayNode({ signal: interrupted.signal });
  const pods = node.pods.map(({ name, ip }) => `  ${name.padEnd(10)}${ip}  app=${name}\n`).join('');
  process.stderr.write(
    `A node with these pods, in the namespace default. Each answers at port 5432.\n${pods}` +
      '  in-pod POD [COMMAND...]  runs a command, or a shell, in one of them\n' +
      '  exit                     ends all of it\n' +
      `Another terminal on this node: ${node.enterPath}\n` +
      'Its containers, network, /etc, /run and /var/lib are its own; other files are those of this machine.\n',
  );
  const shell = node.spawn([process.env['SHELL'] ?? '/bin/bash'], { stdio: 'inherit' });
  isOpen = true;
  const [code] = (await once(shell, 'exit', { signal: interrupted.signal })) as [number | null];
  process.exitCode = code ?? 1;
} catch (error) {
  process.stderr.write(`lab: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
