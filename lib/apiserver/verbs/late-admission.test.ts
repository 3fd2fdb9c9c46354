import assert from 'node:assert/strict';
import { test } from 'node:test';

import { apiErrors } from '../resources/api-error.ts';
import type { Admission } from './admission.ts';
import { LateAdmission } from './late-admission.ts';
import { Bench, meta, widget } from './verbs.fixture.ts';

const refusing: Admission = {
  validate: ({ resource, name }) => {
    if (name === 'bad') throw apiErrors.forbidden(resource, name, 'it is bad');
  },
};

test('writes wait for an admission that is awaited, and are asked of it', async () => {
  const late = new LateAdmission({ passes: ({ name }) => name.startsWith('own') });
  await using bench = await Bench.open({ admission: [late] });
  late.expect('policies');
  await bench.ask('create', { body: widget('own') });
  const [good, bad] = [
    bench.ask('create', { body: widget('good') }),
    bench.refusal('create', { body: widget('bad') }),
  ];
  const { version } = bench.store;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(bench.store.version, version);
  const asked = late.use('policies', refusing);
  assert.equal((await bad).code, 403);
  await good;
  // Once it has gone writes wait again, and are refused in the end.
  asked[Symbol.dispose]();
  const waiting = bench.ask('create', { body: widget('late') });
  late.giveUp('policies');
  await waiting;
});

test('a write is refused where the awaited one does not come', async () => {
  const late = new LateAdmission({ passes: () => false, waitMs: 10 });
  await using bench = await Bench.open({ admission: [late] });
  late.expect('policies');
  const { code, message } = await bench.refusal('create', { body: widget('a') });
  assert.equal(code, 503);
  assert.match(message, /policies has not started yet/);
});

test('the object returned by an admission is validated, and stored with the metadata of the server', async () => {
  const labelling: Admission = {
    admit: async (_request, object) => {
      await Promise.resolve();
      if (object === undefined) return undefined;
      const { uid: _own, ...rest } = meta(object);
      return { ...structuredClone(object), metadata: { ...rest, name: 'other', labels: { made: 'so' } } };
    },
  };
  const seen: unknown[] = [];
  const looking: Admission = { validate: (_request, object) => void seen.push(meta(object ?? {})['labels']) };
  await using bench = await Bench.open({ admission: [labelling, looking] });
  seen.length = 0;
  await bench.ask('create', { body: widget('a') });
  const answer = await bench.ask('get', { name: 'a' });
  assert.equal(answer.kind, 'item');
  if (answer.kind !== 'item') return;
  const { name, labels, uid } = meta(answer.item.object);
  assert.deepEqual([name, labels], ['a', { made: 'so' }]);
  assert.match(String(uid), /^[0-9a-f-]{36}$/);
  assert.deepEqual(seen, [{ made: 'so' }]);
});
