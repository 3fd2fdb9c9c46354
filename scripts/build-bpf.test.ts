import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';

const skip = spawnSync('clang-14', ['--version']).status === 0 ? false : 'clang-14 is not installed';

const header = 'static int answer(int x) { return x + 41; }\n';
const source = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "answer.h"
SEC("socket") int prog(struct __sk_buff *skb) { return answer(skb->len); }
char LICENSE[] SEC("license") = "GPL";
`;

/** A checkout with one program, in a directory of its own. */
function checkout(t: TestContext, name: string) {
  const parent = mkdtempSync(join(tmpdir(), 'rampart-bpf-'));
  t.after(() => rmSync(parent, { recursive: true }));
  const top = join(parent, name);
  const room = join(top, 'lib/room/bpf');
  mkdirSync(room, { recursive: true });
  for (const script of ['build-bpf', 'check-bpf']) {
    cpSync(join(import.meta.dirname, script), join(top, 'scripts', script));
  }
  writeFileSync(join(room, 'answer.h'), header);
  writeFileSync(join(room, 'one.bpf.c'), source);
  return {
    room,
    object: join(room, 'one.bpf.o'),
    run: (script: string) => spawnSync(join(top, 'scripts', script), { encoding: 'utf8' }),
  };
}

suite('scripts/build-bpf and scripts/check-bpf', { skip }, () => {
  test('the bytes do not depend on where the checkout lies', (t) => {
    const [a, b] = [checkout(t, 'a'), checkout(t, 'another-place')];
    for (const { run } of [a, b]) assert.equal(run('build-bpf').status, 0);
    const bytes = readFileSync(a.object);
    assert.deepEqual(bytes, readFileSync(b.object));
    assert.ok(bytes.includes('.BTF.ext'), 'BTF is kept');
    assert.ok(!bytes.includes('.debug_info'), 'DWARF is removed');
  });

  test('a fresh build passes the check; a changed source, object or header does not', (t) => {
    const { room, object, run } = checkout(t, 'a');
    assert.match(run('check-bpf').stdout, /^lib\/room\/bpf\/one\.bpf\.o: missing$/m);
    run('build-bpf');
    assert.deepEqual([run('check-bpf').status, run('check-bpf').stdout], [0, '']);

    for (const [file, text] of [
      [object, 'x'],
      [join(room, 'one.bpf.c'), 'int more;\n'],
      [join(room, 'answer.h'), 'int even_more;\n'],
    ] as const) {
      run('build-bpf');
      appendFileSync(file, text);
      const { status, stdout } = run('check-bpf');
      assert.equal(status, 1, file);
      assert.match(stdout, /^lib\/room\/bpf\/one\.bpf\.o: differs/m);
    }
  });

  test('an object without a source is found', (t) => {
    const { room, run } = checkout(t, 'a');
    run('build-bpf');
    writeFileSync(join(room, 'old.bpf.o'), '');
    const { status, stdout } = run('check-bpf');
    assert.equal(status, 1);
    assert.match(stdout, /^lib\/room\/bpf\/old\.bpf\.o: has no source$/m);
  });

  test('a warning of the compiler is an error, and the object before it stays', (t) => {
    const { room, object, run } = checkout(t, 'a');
    run('build-bpf');
    const before = readFileSync(object);
    appendFileSync(join(room, 'one.bpf.c'), 'static int unused;\n');
    assert.notEqual(run('build-bpf').status, 0);
    assert.deepEqual(readFileSync(object), before);
  });
});
