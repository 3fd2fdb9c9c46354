/**
 * A model of the kernel's ring buffer, filled with records as the sensor makes them, to be read over and over.
 */
import { ModelProducer } from '../../lib/ebpf/ring-model.fixture.ts';
import { RingReader } from '../../lib/ebpf/ring.ts';
import { record as at } from '../../lib/sensor/layout.ts';
import type { AccessRecord } from '../../lib/sensor/record.ts';

const RING_BYTES = 8 * 1024 * 1024;
/** Different processes in the ring; each has its own executable, arguments, ids. */
const PROCESSES = 200;

const programs = [
  'usr/bin/cat',
  'usr/bin/python3.11',
  'usr/sbin/sshd',
  'usr/lib/systemd/systemd-logind',
  'opt/app/bin/server',
];
const directories = ['', 'root', 'var/lib/postgresql/15/main', 'home/someone/projects/service'];

/** CPU time that this process has used, of all threads, in seconds. */
export function cpuSeconds(): number {
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

/** The file is `index % targets`. Bytes of a record like those of real processes; about 100 bytes of text. */
function makeRecord(index: number, targets: number): Uint8Array {
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
    [at.targetId, 1 + (index % targets)],
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

export function filledRing(targets = 7): { readonly ring: ModelProducer; readonly records: number } {
  const ring = new ModelProducer(RING_BYTES, 0n);
  for (let records = 0; ; records++) {
    const reservation = ring.reserve(makeRecord(records, targets));
    if (reservation === undefined) return { ring, records };
    ring.settle(reservation, 'committed');
  }
}

/** Reads the ring once from its start. */
export function readAll(ring: ModelProducer, record: AccessRecord, each: () => void): void {
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
