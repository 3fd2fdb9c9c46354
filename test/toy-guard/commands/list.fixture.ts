/** Runs `rampart door list`. */
import { clusterAccess } from '../../../lib/cli/cluster.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { doorType } from '../guard.fixture.ts';
import type { DoorListOptions } from './command.fixture.ts';

export async function runDoorList(options: DoorListOptions): Promise<void> {
  using client = new KubeClient(clusterAccess(options));
  for (const { metadata, spec } of (await client.list(doorType)).items) {
    process.stdout.write(`${metadata.namespace}/${metadata.name}: ${spec.greeting}\n`);
  }
}
