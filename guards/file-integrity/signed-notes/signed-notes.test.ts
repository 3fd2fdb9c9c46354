import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pairKey, secretKey, temporaryDirectory } from '../database/baseline.fixture.ts';
import { readAcceptances } from './acceptance-log.fixture.ts';
import { appendAcceptance } from './acceptance-log.ts';
import { seal, unseal } from './note-file.ts';

test('opens a sealed note for its purpose and key only, and not after a change', () => {
  for (const key of [secretKey, pairKey]) {
    const sealed = seal('one', 'text', key);
    assert.equal(unseal('one', sealed, key), 'text');
    assert.equal(unseal('two', sealed, key), undefined);
    assert.equal(unseal('one', sealed.replace('text', 'next'), key), undefined);
    assert.equal(unseal('one', sealed, key === secretKey ? pairKey : secretKey), undefined);
  }
  for (const text of ['', '{}', 'null', '[]', '{"body":1,"signature":"00"}'])
    assert.equal(unseal('one', text, secretKey), undefined);
});

test('the log of acceptances is complete and signed; a truncated line is not a record', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'accepted.log');
  const beganMs = Date.now();
  const record = (reason: string) => ({
    ...{ author: 'ann', reason, baseline: 'ab', count: 1, paths: ['/hostroot/etc/a'] },
  });
  const append = ({ author, reason, baseline, paths }: ReturnType<typeof record>): Promise<void> =>
    appendAcceptance(
      { directory: directory.path, signingKey: secretKey },
      { author, reason },
      paths,
      baseline,
    );
  assert.deepEqual(await readAcceptances(directory.path, secretKey), { records: [], faults: [] });
  for (const reason of ['one', 'two']) await append(record(reason));
  appendFileSync(path, '{"body":"cut');
  await append(record('thrée'));
  const { records, faults } = await readAcceptances(directory.path, secretKey);
  assert.deepEqual(
    records.map(({ atMs: _atMs, ...rest }) => rest),
    ['one', 'two', 'thrée'].map(record),
  );
  assert.ok(records.every(({ atMs }) => atMs >= beganMs && atMs <= Date.now()));
  assert.deepEqual(faults, []);
  const lines = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, [lines[0], lines[2], ''].join('\n'));
  assert.deepEqual((await readAcceptances(directory.path, secretKey)).faults, [
    'before line 2 something is missing',
  ]);
  writeFileSync(path, `${lines[0]?.replace('ann', 'bob')}\n`);
  assert.deepEqual((await readAcceptances(directory.path, secretKey)).faults, ['line 1 is not signed']);
});
