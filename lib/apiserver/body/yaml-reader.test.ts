import assert from 'node:assert/strict';
import { test } from 'node:test';

import { saidByNextThread } from '../../testing/next-thread.fixture.ts';
import { decodeYaml, maxYamlBytes } from './yaml-body.ts';
import { YamlReader } from './yaml-reader.ts';

const never = new AbortController().signal;

test('a long text means what a short one does', async () => {
  using reader = new YamlReader();
  const text = Buffer.from(
    `__proto__: {a: 9007199254740993}\nb: 1\nb: &x [yes, 010, ~]\nc: *x\nd: ${'long '.repeat(2000)}`,
  );
  assert.deepEqual(await reader.read(text, never), decodeYaml(text));
  const wrong = Buffer.from(`${'a: 1\n'.repeat(2000)}b: [`);
  assert.throws(() => decodeYaml(wrong), { message: /^yaml: line 2001: / });
  await assert.rejects(reader.read(wrong, never), { name: 'BodyMistake', message: /^yaml: line 2001: / });
  await assert.rejects(reader.read(Buffer.alloc(maxYamlBytes + 1, 'a'), never), /longer than/);
});

test('a text that takes too long is refused, and the next one is decoded', async () => {
  const slow = Buffer.from(']'.repeat(200_000));
  using hasty = new YamlReader({ deadlineMs: 1 });
  const refused = { name: 'BodyMistake', message: 'yaml: takes longer than 1 ms to parse' };
  await Promise.all([
    assert.rejects(hasty.read(slow, never), refused),
    assert.rejects(hasty.read(slow, never), refused),
  ]);
  assert.deepEqual((await hasty.read(Buffer.from('a: 1'), never)).value, { a: 1 });
});

test('a text whose request was aborted is not decoded', async () => {
  using reader = new YamlReader();
  const gone = AbortSignal.abort(new Error('gone'));
  await assert.rejects(reader.read(Buffer.from('a: 1\n'.repeat(2000)), gone), /^Error: gone$/);
});

test('a thread that is ended at once loads its code first: V8 may crash otherwise', async () => {
  const said = saidByNextThread();
  const hasty = new YamlReader({ deadlineMs: 1 });
  await assert.rejects(hasty.read(Buffer.from(']'.repeat(200_000)), never), /takes longer than 1 ms/);
  hasty[Symbol.dispose]();
  assert.deepEqual(await said, [{ loaded: true }]);
});
