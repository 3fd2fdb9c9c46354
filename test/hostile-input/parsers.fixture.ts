/**
 * Every parser of untrusted input from containers, images and files of nodes, with hostile inputs. Each has
 * to end with a result or an error of its own, and with little memory.
 */
import { closeSync, ftruncateSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { readAideConf } from '../../guards/file-integrity/aide-conf/evaluate.ts';
import { convertAideConf } from '../../guards/file-integrity/aide-conf/convert.ts';
import { nodeEnvironment } from '../../guards/file-integrity/aide-conf/conf-environment.ts';
import { readAideDatabase } from '../../guards/file-integrity/database/aide-database.ts';
import { Btf } from '../../guards/bpf-programs/kernel/btf/btf.ts';
import { functionOffset } from '../../guards/bpf-programs/kernel/probe/elf-symbols.ts';
import { librariesOf } from '../../guards/bpf-programs/kernel/probe/uprobe-target.ts';
import { demandsOf } from '../../guards/bpf-programs/kernel/tenant/demands.ts';
import { ObjectFile } from '../../guards/bpf-programs/kernel/tenant/object-file.ts';
import { readArchive } from '../../guards/bpf-programs/node/archive.ts';
import { readObjectFile } from '../../guards/bpf-programs/node/bytecode-file.ts';
import { inspectPolicy } from '../../guards/policy-audit/engine/wasm/metadata.ts';
import { LogDecoder } from '../../lib/cri/log-decoder.ts';
import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { gzipSync } from 'node:zlib';

const KIB = 1024;
const MIB = 1024 * KIB;

export interface HostileParser {
  readonly name: string;
  /** The most expensive known inputs, and similar ones. Created at their turn. */
  readonly worst: readonly (() => Buffer)[];
  /** Bytes that the format has at its start, so that random ones get past it. */
  readonly start: Buffer;
  readonly parse: (bytes: Buffer, directory: string) => unknown;
}

/** A header of an ELF file with `count` sections from byte 64 on, each a symbol table of `sizeBytes` that is its own string table. */
function elf(count: number, sizeBytes: number): Buffer {
  const file = Buffer.alloc(64 + count * 64);
  file.write('\x7fELF', 0, 'latin1');
  file.set([2, 1, 1], 4);
  file.writeBigUInt64LE(64n, 40);
  file.writeUInt16LE(count, 60);
  for (let at = 64; at < file.length; at += 64) {
    file.writeUInt32LE(2, at + 4);
    file.writeBigUInt64LE(BigInt(sizeBytes), at + 32);
  }
  return file;
}

/** Sections with instructions, each of its own bytes, all of one long name. */
function objectFile(count: number, sizeBytes: number): Buffer {
  const names = 64 + count * 64;
  const file = Buffer.alloc(names + 4096 + count * sizeBytes, 'n');
  file.set(elf(count, sizeBytes).subarray(0, names));
  file.writeUInt16LE(64, 58);
  file.writeUInt16LE(0, 62);
  for (let index = 0; index < count; index++) {
    const at = 64 + index * 64;
    file.writeUInt32LE(1, at + 4);
    file.writeBigUInt64LE(4n, at + 8);
    file.writeBigUInt64LE(BigInt(names + 4096 + index * sizeBytes), at + 24);
  }
  file.fill(0x85, names + 4096);
  // The first one also has the names: all are empty.
  file[names + 4096] = 0;
  return file;
}

/** Entries that all name the same bytes, which end only at the end of the file. */
function libraryCache(sizeBytes: number, path = '/'): Buffer {
  const entries = Math.floor(sizeBytes / 48);
  const file = Buffer.alloc(48 + entries * 24 + sizeBytes / 2, path);
  file.fill(0, 0, 48 + entries * 24);
  file.write('glibc-ld.so.cache1.1', 0);
  file.writeUInt32LE(0xffff_ffff, 20);
  for (let index = 0; index < entries; index++) {
    const begin = 48 + entries * 24 + index;
    file.writeUInt32LE(begin, 48 + index * 24 + 4);
    file.writeUInt32LE(begin, 48 + index * 24 + 8);
  }
  file[file.length - 1] = 0;
  return file;
}

/** A structure with as many members as there may be, each with a name that ends at the end of the strings. */
function btf(structures: number, stringBytes: number): Buffer {
  const memberCount = 65_535;
  const typeBytes = structures * (12 + memberCount * 12);
  const file = Buffer.alloc(24 + typeBytes + stringBytes, 'n');
  file.fill(0, 0, 24 + typeBytes);
  file.writeUInt16LE(0xeb9f, 0);
  file.writeUInt8(1, 2);
  file.writeUInt32LE(24, 4);
  file.writeUInt32LE(typeBytes, 12);
  file.writeUInt32LE(typeBytes, 16);
  file.writeUInt32LE(stringBytes, 20);
  for (let structure = 0; structure < structures; structure++) {
    const at = 24 + structure * (12 + memberCount * 12);
    file.writeUInt32LE((4 << 24) | memberCount, at + 4);
    for (let member = 0; member < memberCount; member++)
      file.writeUInt32LE(member % stringBytes, at + 12 + member * 12);
  }
  file[file.length - 1] = 0;
  return file;
}

/** As the files that a configuration includes, and as the configuration itself. */
function conf(bytes: Buffer, directory: string): void {
  const root = { directory, prefix: '/hostroot' };
  writeFileSync(join(directory, 'etc/aide.d/included'), bytes);
  const include = '@@include /hostroot/etc/aide.d ^included$ /hostroot\n';
  const errors: unknown[] = [];
  for (const attempt of [
    () => readAideConf('c', include, nodeEnvironment(root)),
    () =>
      readAideConf(
        'c',
        convertAideConf('c', bytes.subarray(0, MIB).toString('latin1')).source,
        nodeEnvironment(root),
      ),
  ]) {
    try {
      attempt();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

function withFile<T>(bytes: Buffer, directory: string, use: (fd: number, path: string) => T): T {
  const path = join(directory, 'input');
  writeFileSync(path, bytes);
  // Holes up to a gibibyte, which cost nothing to whoever makes them.
  const fd = openSync(path, 'r+');
  try {
    ftruncateSync(fd, 1024 * MIB);
    return use(fd, path);
  } finally {
    closeSync(fd);
  }
}

const bracket = '[^a-b]';

export const hostileParsers: readonly HostileParser[] = [
  {
    name: 'ld.so.cache',
    worst: [() => libraryCache(MIB), () => libraryCache(4 * MIB, '\0/')],
    start: libraryCache(256).subarray(0, 48),
    parse: librariesOf,
  },
  {
    name: 'symbols of an ELF file',
    worst: [() => elf(63, 400 * MIB), () => elf(1, 512 * MIB), () => elf(65_535, 16)],
    start: elf(1, 16).subarray(0, 16),
    parse: (bytes, directory) => withFile(bytes, directory, (fd) => functionOffset(fd, 'malloc')),
  },
  {
    name: 'BTF',
    worst: [() => btf(1, MIB), () => btf(5, 16), () => btf(20, 16)],
    start: btf(0, 8),
    parse: (bytes) => new Btf(bytes).variables(),
  },
  {
    name: 'layer of an image',
    worst: [() => gzipSync(Buffer.alloc(64 * MIB)), () => Buffer.alloc(8 * MIB, 1)],
    start: Buffer.from('1f8b0800', 'hex'),
    parse: (bytes) => readArchive(bytes, 'the layer'),
  },
  {
    name: 'object file of a node',
    worst: [() => Buffer.alloc(16)],
    start: Buffer.from('\x7fELF', 'latin1'),
    parse: (bytes, directory) => withFile(bytes, directory, () => readObjectFile(directory, '/input').digest),
  },
  {
    name: 'object file of a namespaced program',
    worst: [() => objectFile(65_000, 240), () => objectFile(1, 15 * MIB)],
    start: elf(1, 16).subarray(0, 16),
    parse: (bytes) => {
      const file = new ObjectFile(bytes);
      return [demandsOf(file.allCode), file.externs('tc'), file.types];
    },
  },
  {
    name: 'aide.conf and its includes',
    worst: [
      () => Buffer.from('/a p\n'.repeat(800_000)),
      () => Buffer.alloc(4 * MIB, '\n'),
      () => Buffer.from(`/${bracket.repeat(10_000)} p\n`.repeat(60)),
      () =>
        Buffer.from(
          Array.from({ length: 40 }, (_, at) => `@@define X${at + 1} @@{X${at}}@@{X${at}}\n`)
            .join('')
            .replace(/^/, '@@define X0 aaaaaaaa\n') + '/@@{X40} p\n',
        ),
    ],
    start: Buffer.from('@@define A /x\n'),
    parse: conf,
  },
  {
    name: 'database of AIDE',
    worst: [
      () =>
        Buffer.from(`@@begin_db\n@@db_spec ${Array.from({ length: 150_000 }, (_, at) => at).join(' ')}\n`),
      () => gzipSync(Buffer.alloc(64 * MIB, 'x')),
    ],
    start: Buffer.from('@@begin_db\n@@db_spec name\n'),
    parse: async (bytes, directory) => {
      const path = join(directory, 'aide.db');
      writeFileSync(path, bytes);
      let entries = 0;
      for await (const batch of readAideDatabase(path)) entries += batch.length;
      return entries;
    },
  },
  {
    name: 'WebAssembly module',
    worst: [() => Buffer.concat([Buffer.from('0061736d01000000', 'hex'), Buffer.alloc(4 * MIB)])],
    start: Buffer.from('0061736d01000000', 'hex'),
    parse: (bytes) => inspectPolicy(bytes),
  },
  {
    name: 'log of a container',
    worst: [
      () => Buffer.alloc(8 * MIB, ' '),
      () => Buffer.from('2016-10-06T00:17:09Z stdout P \n'.repeat(100_000)),
    ],
    start: Buffer.from('2016-10-06T00:17:09Z stdout P '),
    parse: (bytes) => {
      const decoder = new LogDecoder({ timestamps: true });
      let sizeBytes = 0;
      for (let at = 0; at < bytes.length; at += 64 * KIB) {
        decoder.push(bytes.subarray(at, at + 64 * KIB));
        sizeBytes += decoder.take().length;
      }
      decoder.endFile();
      return sizeBytes + decoder.take().length;
    },
  },
];

/** Random bytes with the start of the format, and numbers that are large in either byte order between them. */
export function hostileBytes(start: Buffer): fc.Arbitrary<Buffer> {
  const number = fc.constantFrom('00000000', '00000080', 'ffffffff', '00000010', '0000ffff', '18000000');
  const piece = fc.oneof(
    number.map((hex) => Buffer.from(hex, 'hex')),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(' ', '\n', '/', '@@', 'a', '\0').map((text) => Buffer.from(text)),
  );
  return fc
    .tuple(fc.boolean(), fc.array(piece, { maxLength: 200 }))
    .map(([whole, pieces]) =>
      Buffer.concat([whole ? start : start.subarray(0, start.length / 2), ...pieces]),
    );
}
