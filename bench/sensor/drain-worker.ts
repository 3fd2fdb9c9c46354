/**
 * The measured side of drain.ts, a process of its own so that it can be tied to one core. Prints a
 * {@link DrainResult} as JSON.
 *
 * @module
 */
import { closeSync, openSync } from 'node:fs';

import { RingReader } from '../../shared/ebpf/ring.ts';
import { ModelProducer } from '../../shared/ebpf/ring-model.ts';
import { LineWriter } from '../../shared/observe/lines.ts';
import { WallClock } from '../../shared/sensor/clock.ts';
import { record as at } from '../../shared/sensor/layout.ts';
import { AccessRecord } from '../../shared/sensor/record.ts';
import { AlertEncoder } from '../../systems/file-access/alert.ts';

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

const RING_BYTES = 8 * 1024 * 1024;
/** Different processes in the ring; each has its own executable, arguments, ids. */
const PROCESSES = 200;
const WARM_UP_SHARE = 0.1;

const programs = [
  'usr/bin/cat',
  'usr/bin/python3.11',
  'usr/sbin/sshd',
  'usr/lib/systemd/systemd-logind',
  'opt/app/bin/server',
];
const directories = ['', 'root', 'var/lib/postgresql/15/main', 'home/someone/projects/service'];

/** CPU time that this process has used, in seconds. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** A path as the kernel's record has it: components leaf first, each ended by NUL. */
function components(path: string): string {
  return path
    .split('/')
    .filter((name) => name !== '')
    .toReversed()
    .map((name) => `${name}\0`)
    .join('');
}

/** Bytes of a record like those of real processes; about 100 bytes of text. */
function makeRecord(index: number): Uint8Array {
  const process = index % PROCESSES;
  const program = programs[process % programs.length] ?? '';
  const executable = components(program);
  const cwd = components(directories[process % directories.length] ?? '');
  const argv = `${program}\0--config\0/etc/service-${process}.conf\0${'x'.repeat(process % 40)}\0`;
  const text = Buffer.from(executable + cwd + argv, 'latin1');
  const bytes = new Uint8Array(at.sizeBytes + text.length);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(at.timeNs, 3_600_000_000_000n + BigInt(index) * 3000n, true);
  view.setBigUint64(at.inode, 131_072n + BigInt(process % 7), true);
  view.setBigUint64(at.cgroupId, 4000n + BigInt(process % 11), true);
  for (const [field, value] of [
    [at.device, 0xfd00001],
    [at.mask, process % 3 === 0 ? 34 : 36],
    [at.targetId, 1 + (process % 7)],
    [at.tid, 10_000 + process],
    [at.pid, 10_000 + process],
    [at.ppid, 900 + process],
    [at.uid, process % 5],
    [at.gid, process % 5],
    [at.pidNamespace, 0xeffffffc],
    [at.mountNamespace, 0xf0000000 + (process % 20)],
  ] as const) {
    view.setUint32(field, value, true);
  }
  view.setUint8(at.verdict, 1);
  view.setUint16(at.executableBytes, executable.length, true);
  view.setUint16(at.cwdBytes, cwd.length, true);
  view.setUint16(at.argumentBytes, argv.length, true);
  bytes.set(Buffer.from(program.split('/').at(-1)?.slice(0, 15) ?? '', 'latin1'), at.comm);
  bytes.set(text, at.sizeBytes);
  return bytes;
}

function filledRing(): { readonly ring: ModelProducer; readonly records: number } {
  const ring = new ModelProducer(RING_BYTES, 0n);
  for (let records = 0; ; records++) {
    const reservation = ring.reserve(makeRecord(records));
    if (reservation === undefined) return { ring, records };
    ring.settle(reservation, 'committed');
  }
}

/** Reads the ring once from its start. */
function readAll(ring: ModelProducer, record: AccessRecord, each: () => void): void {
  ring.consumerPosition = 0n;
  const reader = new RingReader(ring);
  let more = true;
  while (more) {
    ({ more } = reader.read((batch) => {
      record.setMemory(batch.bytes);
      for (let i = 0; i < batch.count; i++) {
        record.moveTo(batch.offsets[i] ?? 0, batch.lengths[i] ?? 0);
        each();
      }
    }));
  }
}

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
