/** The toy guard's part on a node. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { MetricsRegistry, NodePart } from '../../../guard/guard.ts';
import { findingLine } from '../../../guard/stream/finding.ts';
import { done, runController } from '../../../lib/kube/controller/controller.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type DoorWatchOptions, doorType } from '../guard.fixture.ts';

export function registerDoorMetrics(metrics: MetricsRegistry, greeted: () => number = () => 0): void {
  metrics.counter({ name: 'rampart_door_watch_greeted_total', help: 'Doors that were greeted.' }, greeted);
}

export const doorWatchNode: NodePart<DoorWatchOptions> = async (context, { greeter }) => {
  const { signal, logger, nodeName, directory, sink, metrics } = context;
  if (greeter === 'broken') {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'nobody greets here',
      why: 'the greeter is broken',
    });
  }
  mkdirSync(directory, { recursive: true });
  let greeted = 0;
  if (metrics !== undefined) registerDoorMetrics(metrics.metrics, () => greeted);
  const doors = context.cache({ type: doorType }, 'doors');
  using queue = keyQueue();
  using _listening = doors.subscribe(({ type, key }) => void (type === 'added' && queue.add(key)));
  await whenSynced([doors], signal, async () => {
    await runController({
      name: 'door-watch-greet',
      ...{ queue, signal, logger },
      reconcile: async (key) => {
        const door = doors.get(key);
        if (door === undefined) return done;
        const { namespace = '', name = '' } = door.metadata;
        sink(
          findingLine({
            ...{ guard: context.guard, kind: 'Greeting', severity: 'info', verdict: 'greeted', object: null },
            time: new Date().toISOString(),
            node: { name: nodeName },
            policy: { kind: 'Door', namespace, name },
            message: `${door.spec.greeting}, says ${greeter}`,
          }),
        );
        writeFileSync(join(directory, `${namespace}.${name}`), '');
        greeted++;
        return done;
      },
    });
  });
};
