// The small files beside a baseline: they are signed, and what a kill or a person does to them is seen.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { setOf } from '../model/attributes.ts';
import { entryOf, hasFault, pairKey, secretKey, temporaryDirectory } from '../database/baseline.fixture.ts';
import type { Entry } from '../model/entry.ts';
import { readLastBaseline, writeLastBaseline } from '../signed-notes/last-baseline.ts';
import { withAccepted } from './accepted-entries.ts';
import { nextBackupName } from './baseline-store.ts';
import { readJobNotes, writeJobNotes } from './job-record.ts';
import { ed25519DataKey, hmacDataKey, readSigningKey } from './key-follower.ts';

test('notes that were changed, or are of another key, are an error', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'notes');
  assert.deepEqual(await readJobNotes(path, secretKey), { sequence: 0, doneRequests: [] });
  const notes = { sequence: 7, doneRequests: ['a'], madeBy: 'native' as const };
  await writeJobNotes(path, notes, secretKey);
  assert.deepEqual(await readJobNotes(path, secretKey), notes);
  await assert.rejects(readJobNotes(path, pairKey), hasFault('wrong signature'));
  writeFileSync(path, readFileSync(path, 'utf8').replace('native', 'aide'));
  await assert.rejects(readJobNotes(path, secretKey), hasFault('wrong signature'));
  // One note does not stand for another.
  const last = join(directory.path, 'last');
  await writeLastBaseline(last, { digest: 'ab' }, secretKey);
  assert.deepEqual(await readLastBaseline(last, secretKey), { digest: 'ab' });
  writeFileSync(path, readFileSync(last));
  await assert.rejects(readJobNotes(path, secretKey), hasFault('wrong signature'));
  writeFileSync(last, '');
  await assert.rejects(readLastBaseline(last, secretKey), hasFault('wrong signature'));
});

test('names of backups are sorted by time, also when the clock is put back', () => {
  const name = nextBackupName(undefined, Date.UTC(2026, 10, 21, 18, 17, 5, 123));
  assert.equal(name, 'baseline.backup-20261121T181705.123Z');
  assert.equal(nextBackupName(name, Date.UTC(2020, 0, 1)), 'baseline.backup-20261121T181705.124Z');
  assert.ok(nextBackupName(name, Date.UTC(2027, 0, 1)) > name);
  assert.equal(nextBackupName('baseline.backup-zzz', 0), 'baseline.backup-19700101T000000.000Z');
});

test('accepted paths have their present state, others the earlier one: random trees', async () => {
  const entries = fc
    .uniqueArray(fc.stringMatching(/^[a-e/!]{1,4}$/), { maxLength: 12 })
    .map((names) => names.map((name) => `/${name}`).sort((a, b) => (a < b ? -1 : 1)));
  const entry = (path: string, linkCount: number): Entry =>
    entryOf({ path, linkCount, attributes: setOf('n') });
  await fc.assert(
    fc.asyncProperty(
      entries,
      entries,
      entries,
      fc.integer({ min: 1, max: 4 }),
      async (old, now, accepted, size) => {
        const batches: Entry[][] = [[]];
        for (let at = 0; at < old.length; at += size)
          batches.push(old.slice(at, at + size).map((path) => entry(path, 1)));
        const seen = new Map(
          now.filter((path) => accepted.includes(path)).map((path) => [path, entry(path, 2)]),
        );
        const merged: string[] = [];
        for await (const batch of withAccepted(batches, accepted, seen))
          for (const { path, linkCount } of batch) merged.push(`${path} ${linkCount}`);
        const expected = new Map(old.filter((path) => !accepted.includes(path)).map((path) => [path, 1]));
        for (const path of seen.keys()) expected.set(path, 2);
        const paths = [...expected.keys()].sort((a, b) => (a < b ? -1 : 1));
        assert.deepEqual(
          merged,
          paths.map((path) => `${path} ${expected.get(path)}`),
        );
      },
    ),
    { numRuns: 2000 },
  );
});

test('keys in Secrets', async () => {
  const { signal } = new AbortController();
  const read = (data: Record<string, string | Uint8Array>): ReturnType<typeof readSigningKey> => {
    const encoded = Object.fromEntries(
      Object.entries(data).map(([name, value]) => [name, Buffer.from(value as string).toString('base64')]),
    );
    return readSigningKey({ get: async () => ({ metadata: {}, data: encoded }) as never }, 'ns', signal);
  };
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  });
  const secret = Buffer.alloc(32, 1);
  const schemeOf = async (data: Record<string, string | Uint8Array>): Promise<string> => {
    const key = await read(data);
    return typeof key === 'string' ? key : key.scheme;
  };
  assert.equal(await schemeOf({ [hmacDataKey]: secret }), 'hmac-sha256');
  assert.equal(await schemeOf({ [hmacDataKey]: secret, [ed25519DataKey]: pem }), 'ed25519');
  assert.match(await schemeOf({ [ed25519DataKey]: rsa.toString() }), /no Ed25519 private key/);
  assert.match(await schemeOf({ [ed25519DataKey]: 'nonsense' }), /no Ed25519 private key/);
  assert.match(await schemeOf({ [hmacDataKey]: 'short' }), /has 5 bytes/);
  assert.match(await schemeOf({}), /has 0 bytes/);
});
