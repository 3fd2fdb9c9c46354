/** An agent of this guard as a process of its own; says when something is begun. */
import { appendFileSync } from 'node:fs';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { runGivenNode } from '../../../guard/part.fixture.ts';
import { fileIntegrity } from '../guard.ts';
import { runFileIntegrityNode } from './run.ts';

const { kubeconfig, hostRoot, directory, lines } = JSON.parse(process.argv[2] ?? '{}') as Record<
  string,
  string
>;

await runGivenNode(
  fileIntegrity,
  (context) =>
    runFileIntegrityNode(context, {
      onState: ({ step }) => {
        if (step !== undefined) process.stdout.write('.');
      },
    }),
  {
    client: new KubeClient(findClusterAccess({ path: kubeconfig ?? '' }), { perSecond: 1000, burst: 1000 }),
    nodeName: 'n1',
    hostRoot: hostRoot ?? '',
    directory: directory ?? '',
    containers: {
      synced: Promise.resolve(),
      list: () => [],
      get: () => undefined,
      reported: () => undefined,
      subscribe: () => new DisposableStack(),
    },
    sink: (line) => {
      if (lines !== undefined) appendFileSync(lines, `${line}\n`);
    },
    signal: new AbortController().signal,
    logger: createLogger({ level: 'silent' }),
  },
);
