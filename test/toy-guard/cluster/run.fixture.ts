/** The toy guard's part in the operator. */
import type { ClusterPart } from '../../../guard/guard.ts';
import { done, runController } from '../../../lib/kube/controller/controller.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { doorType } from '../guard.fixture.ts';

export const doorWatchCluster: ClusterPart = async (context) => {
  await context.lead(async (term) => {
    const { client, signal, logger } = term;
    const doors = term.cache({ type: doorType }, 'doors');
    using queue = keyQueue();
    using _listening = doors.subscribe(({ key }) => queue.add(key));
    await whenSynced([doors], signal, async () => {
      for (const key of doors.keys()) queue.add(key);
      await runController({
        name: 'door-watch-count',
        ...{ queue, signal, logger },
        reconcile: async (key) => {
          const door = doors.get(key);
          if (door === undefined || door.status?.seen === doors.size) return done;
          const { namespace = '', name = '' } = door.metadata;
          const body = { status: { seen: doors.size } };
          await client.patch(doorType, { namespace, name, subresource: 'status' }, { type: 'merge', body });
          return done;
        },
      });
    });
  });
};
