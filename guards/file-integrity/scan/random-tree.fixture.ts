/** Trees made at random: all types of files, awkward names, attributes of all kinds; and what becomes of them. */
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { fileCalls, libc } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';

/** One character a byte. */
const names = [
  ...['a', 'b', 'a.b', 'a-b', 'a b', 'a\n', '\xff\xfe', '\xc3\xa9', '%41,', '"\'', '-'],
  ...['x'.repeat(200), '#', '@@', '\\'],
];
// Mostly the same few, so that later steps find what earlier ones made.
const name = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'a.b') },
  { weight: 1, arbitrary: fc.constantFrom(...names) },
);
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
const directory = fc.array(name, { minLength: 0, maxLength: 3 }).map((parts) => parts.join('/'));

export type Step =
  | {
      readonly do: 'write';
      readonly path: string;
      readonly bytes: number;
      readonly fill: number;
      readonly hole: number;
    }
  | { readonly do: 'append' | 'remove' | 'directory' | 'replace'; readonly path: string }
  | { readonly do: 'symlink' | 'hardlink' | 'move'; readonly path: string; readonly to: string }
  | { readonly do: 'special'; readonly path: string; readonly kind: 'fifo' | 'socket' | 'char' | 'block' }
  | { readonly do: 'mode'; readonly path: string; readonly mode: number }
  | { readonly do: 'owner'; readonly path: string; readonly id: number }
  | { readonly do: 'time'; readonly path: string; readonly timeS: number }
  | { readonly do: 'flags'; readonly path: string; readonly flags: number }
  | { readonly do: 'xattr'; readonly path: string; readonly name: string; readonly value: Buffer };

function acl(...entries: readonly (readonly [tag: number, permissions: number, id?: number])[]): Buffer {
  const value = Buffer.alloc(4 + 8 * entries.length);
  value.writeUInt32LE(2);
  for (const [at, [tag, permissions, id = 0xffffffff]] of entries.entries()) {
    value.writeUInt16LE(tag, 4 + at * 8);
    value.writeUInt16LE(permissions, 6 + at * 8);
    value.writeUInt32LE(id, 8 + at * 8);
  }
  return value;
}

function capabilities(
  permitted: readonly number[],
  inheritable: readonly number[],
  isEffective: boolean,
): Buffer {
  const value = Buffer.alloc(20);
  value.writeUInt32LE(0x02000000 | (isEffective ? 1 : 0));
  for (const [at, word] of [permitted[0], inheritable[0], permitted[1], inheritable[1]].entries()) {
    value.writeUInt32LE((word ?? 0) >>> 0, 4 + at * 4);
  }
  return value;
}

const permissions = fc.integer({ min: 0, max: 7 });
const someAcl = fc
  .record({
    ...{ owner: permissions, user: permissions, group: permissions, named: permissions },
    ...{ mask: permissions, other: permissions },
    id: fc.constantFrom(0, 1, 1000, 99_999),
  })
  .map((of) =>
    acl(
      [1, of.owner],
      [2, of.user, of.id],
      [4, of.group],
      [8, of.named, of.id],
      [16, of.mask],
      [32, of.other],
    ),
  );
const word = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 0xffffffff }),
  fc.constant(0xffffffff),
  fc.constant(1 << 13),
);
const high = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 0x1ff }),
  fc.constant(0x1ff),
  fc.constant(0xffffffff),
);
const someCapabilities = fc
  .tuple(word, high, word, high, fc.boolean())
  .map(([low, top, inherited, inheritedTop, isEffective]) =>
    capabilities([low, top], [inherited, inheritedTop], isEffective),
  );
const bytes = fc.uint8Array({ maxLength: 40 }).map((value) => Buffer.from(value));
const xattr = fc.oneof(
  fc.tuple(fc.constantFrom('user.a', 'user.b,c', 'trusted.t', 'security.other', 'user.\xe9 '), bytes),
  fc.tuple(
    fc.constant('security.selinux'),
    fc.constantFrom('system_u:object_r:etc_t:s0\0', 'a:b:c', '').map((text) => Buffer.from(text)),
  ),
  fc.tuple(fc.constantFrom('system.posix_acl_access', 'system.posix_acl_default'), someAcl),
  fc.tuple(fc.constant('security.capability'), someCapabilities),
);

export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      path,
      bytes: fc.constantFrom(0, 1, 100, 4096, 70_000, 600_000),
      fill: fc.integer({ min: 0, max: 3 }),
      hole: fc.constantFrom(0, 0, 0, 1_000_000),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('directory' as const), path: directory }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('append' as const, 'remove' as const, 'replace' as const),
      path,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('symlink' as const, 'hardlink' as const, 'move' as const),
      path,
      to: fc.oneof(path, fc.constantFrom('.', '..', '/')),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('special' as const),
      path,
      kind: fc.constantFrom('fifo' as const, 'socket' as const, 'char' as const, 'block' as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('mode' as const),
      path,
      mode: fc.constantFrom(0, 0o644, 0o4755, 0o2640, 0o1777),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('owner' as const),
      path,
      id: fc.constantFrom(0, 1, 4_000_000_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('time' as const),
      path,
      timeS: fc.constantFrom(-5, 0, 1_000_000, 5_000_000_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('flags' as const),
      path,
      flags: fc.constantFrom(0x40, 0x80, 0x8, 0xc8),
    }),
  },
  {
    weight: 5,
    arbitrary: fc
      .tuple(path, xattr)
      .map(([of, [attribute, value]]) => ({ do: 'xattr' as const, path: of, name: attribute, value })),
  },
);

/** The steps that make something. */
const making: ReadonlySet<Step['do']> = new Set(['write', 'symlink', 'hardlink', 'special']);

const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = fs.constants;
const FS_IOC_SETFLAGS = 0x40086602;
const FS_EXTENT_FL = 0x80000;

/** Makes files of all types once; trees get them by hard links, which costs no process. */
export class TreeMaker {
  readonly root: string;
  readonly #special: string;
  readonly #path = new FixedBuffer(8192);
  readonly #name = new FixedBuffer(300);
  readonly #value = new FixedBuffer(4096);

  private constructor(directoryPath: string) {
    this.root = join(directoryPath, 'tree');
    this.#special = join(directoryPath, 'special');
  }

  /** In an empty directory. */
  static async make(directoryPath: string): Promise<TreeMaker> {
    const maker = new TreeMaker(directoryPath);
    fs.mkdirSync(maker.#special);
    const of = (kind: string): string => join(maker.#special, kind);
    execFileSync('mkfifo', [of('fifo')]);
    // Where devices cannot be made, trees have none.
    spawnSync('mknod', [of('char'), 'c', '1', '3']);
    spawnSync('mknod', [of('block'), 'b', '7', '200']);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(of('bound'), resolve));
    fs.linkSync(of('bound'), of('socket'));
    await new Promise((resolve) => server.close(resolve));
    return maker;
  }

  /** Builds the tree again. Impossible steps are skipped: many steps of a random tree are. */
  build(steps: readonly Step[]): void {
    fs.rmSync(this.root, { recursive: true, force: true });
    fs.mkdirSync(this.root);
    for (const top of ['a', 'b']) fs.mkdirSync(join(this.root, top));
    this.change(steps);
  }

  change(steps: readonly Step[]): void {
    for (const one of steps) {
      try {
        this.#take(one);
      } catch {
        // Missing, or something else.
      }
    }
  }

  #take(one: Step): void {
    const text = `${this.root}/${one.path}`;
    const at = Buffer.from(text, 'latin1');
    // In a directory of its own, where that can be.
    const slash = text.lastIndexOf('/');
    if (making.has(one.do)) fs.mkdirSync(Buffer.from(text.slice(0, slash), 'latin1'), { recursive: true });
    const other = 'to' in one ? Buffer.from(`${this.root}/${one.to}`, 'latin1') : at;
    switch (one.do) {
      case 'write': {
        const fd = fs.openSync(at, 'wx');
        fs.writeSync(fd, Buffer.alloc(one.bytes, one.fill), 0, one.bytes, one.hole);
        fs.closeSync(fd);
        return;
      }
      case 'append': {
        // The name may be a FIFO without a reader: without O_NONBLOCK the open would block forever.
        const fd = fs.openSync(at, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK);
        fs.writeSync(fd, 'more');
        fs.closeSync(fd);
        return;
      }
      case 'replace':
        if (fs.lstatSync(at).isFile()) fs.writeFileSync(at, 'other');
        return;
      case 'remove':
        return fs.rmSync(text.startsWith(this.root) ? at : '', { recursive: true });
      case 'directory':
        return void fs.mkdirSync(at, { recursive: true });
      case 'symlink':
        return fs.symlinkSync(Buffer.from(one.to.slice(0, 200), 'latin1'), at);
      case 'hardlink':
        return fs.linkSync(other, at);
      case 'move':
        return fs.renameSync(at, other);
      case 'special':
        return fs.linkSync(join(this.#special, one.kind), at);
      case 'mode':
        return fs.lstatSync(at).isSymbolicLink() ? undefined : fs.chmodSync(at, one.mode);
      case 'owner':
        return fs.lchownSync(at, one.id, one.id);
      case 'time':
        return fs.lutimesSync(at, one.timeS, one.timeS);
      case 'flags': {
        if (!fs.lstatSync(at).isFile()) return;
        const fd = fs.openSync(at, 'r');
        this.#value.bytes.writeUInt32LE(one.flags | FS_EXTENT_FL);
        libc.ioctl(fd, FS_IOC_SETFLAGS, this.#value.address);
        fs.closeSync(fd);
        return;
      }
      case 'xattr':
        this.#path.writeText(text);
        this.#name.writeText(one.name);
        one.value.copy(this.#value.bytes);
        fileCalls.lsetxattr(this.#path.address, this.#name.address, this.#value.address, one.value.length, 0);
    }
  }
}
