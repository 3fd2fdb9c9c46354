/**
 * The measured side of drain.ts, a process of its own so that it can be tied to one core. Prints a
 * {@link DrainResult} as JSON.
 */
import { closeSync, openSync } from 'node:fs';

import { LineWriter } from '../../lib/output/lines.ts';
import { WallClock } from '../../lib/sensor/clock.ts';
import { AccessRecord } from '../../lib/sensor/record.ts';
import { AlertEncoder } from '../../guards/file-access/alert/alert.ts';
import { cpuSeconds, filledRing, readAll } from './filled-ring.ts';

/**
 * Records per second of each pass, and what a pass was. A second is one of CPU time, of all threads
 * together: on its one core the worker may have to share with other processes, which is not its cost.
 */
export interface DrainResult {
  readonly records: number;
  readonly bytesPerLine: number;
  readonly decode: readonly number[];
  readonly lines: readonly number[];
}

const WARM_UP_SHARE = 0.1;

/** All that a record has besides its texts. Summed up, so that no read can be left out. */
function fixedFields(access: AccessRecord): number {
  return (
    Number(access.timeNs & 0xffffn) +
    Number(access.inode & 0xffffn) +
    Number(access.cgroupId & 0xffffn) +
    access.device +
    access.mask +
    access.verdict.length +
    access.targetId +
    access.foldedTotal +
    access.tid +
    access.pid +
    access.ppid +
    access.uid +
    access.gid +
    access.pidNamespace +
    access.mountNamespace +
    Number(access.executableTruncated) +
    Number(access.cwdTruncated) +
    Number(access.argumentsTruncated)
  );
}

async function main(passes: number): Promise<DrainResult> {
  const { ring, records } = filledRing();
  const record = new AccessRecord(new WallClock());
  const warmUp = Math.ceil(passes * WARM_UP_SHARE);
  const decode: number[] = [];
  let sum = 0;
  for (let pass = 0; pass < passes; pass++) {
    const start = cpuSeconds();
    readAll(ring, record, () => {
      sum += fixedFields(record);
    });
    decode.push(records / (cpuSeconds() - start));
  }
  if (!(sum > 0)) throw new Error('nothing was read');

  const encoder = new AlertEncoder({
    policyName: '',
    kernelId: '5f0c1b9e-8a51-4f0e-9a7e-2f0de4f7b1a3',
    path: '/etc/shadow',
    callback: '',
    customMetadata: {},
    pod: { name: '', namespace: '', ip: '', container: { id: '', name: '' } },
    nodeName: 'node-1',
  });
  const fd = openSync('/dev/null', 'w');
  const lines: number[] = [];
  let characters = 0;
  {
    await using out = new LineWriter(fd);
    for (let pass = 0; pass < passes; pass++) {
      const start = cpuSeconds();
      readAll(ring, record, () => {
        const line = encoder.encode(record);
        characters += line.length + 1;
        out.write(line);
      });
      await out.flush();
      lines.push(records / (cpuSeconds() - start));
    }
    if (out.written !== passes * records)
      throw new Error(`${out.written} of ${passes * records} lines written`);
  }
  closeSync(fd);
  const bytesPerLine = Math.round(characters / (passes * records));
  return { records, bytesPerLine, decode: decode.slice(warmUp), lines: lines.slice(warmUp) };
}

console.log(JSON.stringify(await main(Number(process.argv[2]))));
