/**
 * An agent as a process of its own, to be killed. Arguments: a JSON object; alerts and states go to stdout, a JSON line
 * each.
 */
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import type { SourceContainer } from '../../../lib/cri/container-source.ts';
import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { runGivenNode } from '../../../guard/part.fixture.ts';
import { fileAccess } from '../guard.ts';
import { runFileAccessNode } from './file-access-node.ts';

const { kubeconfig, nodeName, containers } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly containers: readonly SourceContainer[];
};
const source = new GivenContainers();
for (const container of containers) source.set(container);
await runGivenNode(
  fileAccess,
  (context) =>
    runFileAccessNode(context, {
      onState: (state) => process.stdout.write(`${JSON.stringify({ state })}\n`),
    }),
  {
    client: new KubeClient(findClusterAccess({ path: kubeconfig })),
    nodeName,
    containers: source,
    sink: (line) => void process.stdout.write(`${line}\n`),
    signal: new AbortController().signal,
    logger: createLogger({ level: 'silent' }),
  },
);
