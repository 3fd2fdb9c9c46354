/**
 * The measured side of alerts.ts, a process of its own so that it can be tied to one core. Prints an {@link AlertsResult}.
 */
import { closeSync, openSync } from 'node:fs';

import { LineWriter } from '../../lib/output/lines.ts';
import { WallClock } from '../../lib/sensor/clock.ts';
import type { SensorOptions } from '../../lib/sensor/options.ts';
import { AccessRecord } from '../../lib/sensor/record.ts';
import { Sensor } from '../../lib/sensor/sensor.ts';
import type { Watcher } from '../../lib/sensor/targets.ts';
import { ContainerIndex } from '../../lib/cri/container-index.ts';
import { accessorJson, accessorOf } from '../../guards/file-access/node/accessor.ts';
import type { PlannedAlert } from '../../guards/file-access/node/loader-plan.ts';
import { LocalSensor } from '../../guards/file-access/node/local-sensor.ts';
import { NodeCounts } from '../../guards/file-access/node/node-metrics.ts';
import { cpuSeconds, filledRing, readAll } from '../sensor/filled-ring.ts';

/** Per CPU second of the process, all threads, one value for each pass over the ring. */
export interface AlertsResult {
  readonly records: number;
  readonly bytesPerLine: number;
  /** The sensor's part: records found in the ring and their watchers looked up. */
  readonly drain: readonly number[];
  readonly alerts: readonly number[];
}

const CONTAINERS = 200;
const TRAPS = 1000;
const WARM_UP_SHARE = 0.1;

/** LocalSensor's call to the sensor; the records come from the ring of this file. */
interface Captured {
  onAccess: (access: AccessRecord, watcher: Watcher) => void;
  readonly watchers: Watcher[];
}

/** A LocalSensor with no kernel below it. */
function localSensor(options: ConstructorParameters<typeof LocalSensor>[0]): [LocalSensor, Captured] {
  const watchers: Watcher[] = [];
  const captured: Captured = { onAccess: () => undefined, watchers };
  Sensor.open = ((given: SensorOptions<Watcher>) => {
    captured.onAccess = given.onAccess;
    const addAll = (wanted: readonly { readonly watcher: Watcher }[]): undefined[] => {
      watchers.push(...wanted.map(({ watcher }) => watcher));
      return wanted.map(() => undefined);
    };
    return { targets: { addAll } };
  }) as never;
  return [new LocalSensor(options), captured];
}

function plannedAlert(number: number): PlannedAlert {
  const container = number % CONTAINERS;
  const pod = `checkout-7c5ddbdf54-${container}`;
  return {
    name: `kive-data-${pod}-shop-${number}`,
    callbackSecret: '',
    identity: { inode: BigInt(131_072 + number), device: 0xfd00001, generation: 1 },
    context: {
      policyName: `policy-${number % 10}`,
      kernelId: '5f0c1b9e-8a51-4f0e-9a7e-2f0de4f7b1a3',
      path: `/etc/secrets/trap-${number}`,
      callback: '',
      customMetadata: { team: 'payments', severity: 'high' },
      pod: { name: pod, namespace: 'shop', ip: '10.1.2.3', container: { id: idOf(container), name: 'main' } },
      nodeName: 'node-1',
    },
  };
}

const idOf = (container: number): string => `containerd://${String(container).padStart(64, 'a')}`;

async function main(passes: number): Promise<AlertsResult> {
  const { ring, records } = filledRing(TRAPS);
  const record = new AccessRecord(new WallClock());
  const accessors = new ContainerIndex(1, accessorOf);
  for (let container = 0; container < CONTAINERS; container++) {
    const names = { name: 'main', podName: `checkout-7c5ddbdf54-${container}`, podNamespace: 'shop' };
    accessors.set({ id: idOf(container), ...names }, { mountNamespace: 0xf0000000 + container });
  }
  const fd = openSync('/dev/null', 'w');
  const counts = new NodeCounts();
  let characters = 0;
  const [drain, alerts]: [number[], number[]] = [[], []];
  const warmUp = Math.ceil(passes * WARM_UP_SHARE);
  {
    await using out = new LineWriter(fd);
    const [sensor, captured] = localSensor({
      accessorOf: (access, ownerId) => accessorJson(accessors.find(access), ownerId),
      // As node.ts does.
      onAlert: (line, _callback, _id, access) => {
        out.write(line);
        characters += line.length + 1;
        counts.alerts++;
        counts.latencies.add(Date.now() / 1000 - Number(access.timeNs) / 1e9);
      },
      onProblem: (error) => {
        throw error;
      },
    });
    sensor.applyChanges({
      add: Array.from({ length: TRAPS }, (_, number) => plannedAlert(number)),
      remove: [],
      replace: [],
      move: [],
    });
    let found = 0;
    for (let pass = 0; pass < passes; pass++) {
      const start = cpuSeconds();
      readAll(ring, record, () => {
        if (captured.watchers[record.targetId - 1] !== undefined) found += record.mask;
      });
      drain.push(records / (cpuSeconds() - start));
    }
    if (!(found > 0)) throw new Error('nothing was read');
    for (let pass = 0; pass < passes; pass++) {
      const start = cpuSeconds();
      readAll(ring, record, () => {
        const watcher = captured.watchers[record.targetId - 1];
        if (watcher !== undefined) captured.onAccess(record, watcher);
      });
      await out.flush();
      alerts.push(records / (cpuSeconds() - start));
    }
    if (out.written !== passes * records || counts.alerts !== passes * records)
      throw new Error(`${out.written} of ${passes * records} lines written`);
  }
  closeSync(fd);
  return {
    records,
    bytesPerLine: Math.round(characters / (passes * records)),
    drain: drain.slice(warmUp),
    alerts: alerts.slice(warmUp),
  };
}

console.log(JSON.stringify(await main(Number(process.argv[2]))));
