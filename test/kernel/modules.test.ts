import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { RampartError } from '../../lib/errors/errors.ts';
import { bzImagePayload, unpackKernel } from './image.ts';
import { loadOrder } from './modules.ts';
import { unpackXz } from './xz.ts';

const dependencies = `kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/fs/netfs/netfs.ko.xz:
kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet-virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
`;

describe('load order', () => {
  test('dependencies of a module come before it, once', () => {
    assert.deepEqual(loadOrder(dependencies, '', ['9pnet_virtio', '9p']), [
      'kernel/fs/netfs/netfs.ko.xz',
      'kernel/net/9p/9pnet.ko.xz',
      'kernel/net/9p/9pnet-virtio.ko.xz',
      'kernel/fs/9p/9p.ko.xz',
    ]);
  });
  test('a module that is part of the kernel is not loaded', () => {
    assert.deepEqual(loadOrder(dependencies, 'kernel/fs/overlayfs/overlay.ko\n', ['overlay']), []);
  });
  test('an unknown module is an error', () => {
    assert.throws(() => loadOrder(dependencies, '', ['xfs']), {
      code: 'RAMPART_UNSUPPORTED',
      message: /xfs/,
    });
  });
});

describe('kernel image', () => {
  /** A bzImage with one setup sector and this payload. */
  function image(payload: Uint8Array): Buffer {
    const bytes = Buffer.alloc(1024 + 16);
    bytes.writeUInt8(1, 0x1f1);
    bytes.write('HdrS', 0x202, 'latin1');
    bytes.writeUInt16LE(0x20f, 0x206);
    bytes.writeUInt32LE(16, 0x248);
    bytes.writeUInt32LE(payload.byteLength, 0x24c);
    return Buffer.concat([bytes, payload, Buffer.from('what follows')]);
  }
  const elf = Buffer.concat([Buffer.from('7f454c46', 'hex'), Buffer.alloc(5000, 'kernel')]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(elf.byteLength);

  for (const program of ['xz', 'zstd']) {
    test(`unpacks a kernel packed with ${program}`, async () => {
      const packed = execFileSync(program, ['-c', ...(program === 'xz' ? ['--check=crc32'] : [])], {
        input: elf,
      });
      assert.deepEqual(Buffer.from(await unpackKernel(image(Buffer.concat([packed, size])))), elf);
    });
  }
  test('a file that is not a bzImage is refused', () => {
    const cut = image(elf).subarray(0, 2000);
    for (const bytes of [new Uint8Array(), new Uint8Array(4096), elf, cut]) {
      assert.throws(() => bzImagePayload(bytes), { code: 'RAMPART_DECODE' });
    }
  });
  test('a payload that is not packed or not a kernel is refused', async () => {
    await assert.rejects(unpackKernel(image(elf)), { code: 'RAMPART_DECODE' });
    const text = execFileSync('xz', ['-c'], { input: 'no ELF file' });
    await assert.rejects(unpackKernel(image(Buffer.concat([text, size]))), { code: 'RAMPART_DECODE' });
  });
  test("xz's complaint is in the error", async () => {
    await assert.rejects(
      unpackXz(Buffer.from('not xz')),
      (error) =>
        error instanceof RampartError && error.code === 'RAMPART_DECODE' && /format/.test(error.message),
    );
  });
});
