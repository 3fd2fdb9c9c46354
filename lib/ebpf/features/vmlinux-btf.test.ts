import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';

import { VmlinuxBtf } from './vmlinux-btf.ts';

test('the kernel BTF knows functions, structures and their members', (t) => {
  if (!existsSync('/sys/kernel/btf/vmlinux')) return t.skip('this kernel has no BTF');
  const btf = new VmlinuxBtf();
  assert.ok((btf.findFunction('inode_permission') ?? 0) > 0);
  assert.equal(btf.findFunction('no_such_function_in_any_kernel'), undefined);
  const inode = btf.findStruct('inode');
  assert.ok(inode !== undefined);
  assert.equal(btf.findMember(inode, 'i_mode'), 0);
  assert.ok((btf.findMember(inode, 'i_ino') ?? 0) > 0);
  assert.equal(btf.findMember(inode, 'no_such_member'), undefined);
  btf[Symbol.dispose]();
  assert.throws(() => btf.findFunction('inode_permission'), { code: 'RAMPART_DISPOSED' });
  return undefined;
});
