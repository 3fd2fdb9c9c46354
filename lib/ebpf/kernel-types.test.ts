import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { joinTypes, typesWithModule } from './kernel-types.ts';

/** BTF_KIND_INT and BTF_KIND_STRUCT of include/uapi/linux/btf.h. */
const [INT, STRUCT] = [1, 4];

/** Types as a kernel or a module has them; `headerBytes` more than the usual 24 as a later kernel may have. */
function btf(types: readonly number[], strings: string, headerBytes = 24): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt16LE(0xeb9f, 0);
  header.writeUInt8(1, 2);
  for (const [at, value] of Object.entries({
    4: headerBytes,
    8: 0,
    12: types.length * 4,
    16: types.length * 4,
    20: strings.length,
  })) {
    header.writeUInt32LE(value, Number(at));
  }
  return Buffer.concat([header, Buffer.from(Uint32Array.from(types).buffer), Buffer.from(strings, 'latin1')]);
}

// Type 1: int, of 4 bytes with 32 bits, signed.
const kernel = btf([1, INT << 24, 4, (1 << 24) | 32], '\0int\0');
// Type 2, its name behind the 5 bytes of the kernel's strings: a struct with one member of type 1.
const module = btf([5, (STRUCT << 24) | 1, 4, 15, 1, 0], 'ovl_inode\0flags\0', 32);

function inDirectory(action: (directory: string) => void): void {
  const directory = mkdtempSync(join(tmpdir(), 'kernel-types-'));
  try {
    action(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

suite('types of the kernel and its modules', () => {
  test('one behind the other, they are what bpftool reads', () => {
    inDirectory((directory) => {
      const file = join(directory, 'joined');
      writeFileSync(file, joinTypes(kernel, module));
      const dump = execFileSync('bpftool', ['btf', 'dump', 'file', file], { encoding: 'utf8' });
      assert.match(dump, /^\[1\] INT 'int' size=4/m);
      assert.match(dump, /^\[2\] STRUCT 'ovl_inode' size=4 vlen=1\n\t'flags' type_id=1/m);
    });
  });

  test('are in a file that is gone when it was read', () => {
    inDirectory((directory) => {
      assert.equal(typesWithModule(directory), undefined, 'a kernel without types');
      writeFileSync(join(directory, 'vmlinux'), kernel);
      assert.equal(typesWithModule(directory), undefined, 'built in, or not there');
      writeFileSync(join(directory, 'overlay'), module);
      let path = '';
      {
        using types = typesWithModule(directory);
        path = types?.path ?? '';
        assert.deepEqual(readFileSync(path), joinTypes(kernel, module));
      }
      assert.throws(() => readFileSync(path), { code: 'ENOENT' });
    });
  });
});
