// Single paths of a baseline: one block is read and verified for each.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import { entryOf, few, hasFault, header, plain, secretKey, temporaryDirectory } from './baseline.fixture.ts';
import { openBaseline } from './read-baseline.ts';
import { writeBaseline } from './write-baseline.ts';

/** Some 20 blocks. */
const many = Array.from({ length: 30_000 }, (_, at) =>
  entryOf({
    path: `/d${String(at % 100).padStart(2, '0')}/${String(at).padStart(6, '0')}`,
    attributes: setOf('sha256'),
    sha256: Buffer.alloc(32, at),
  }),
).sort((a, b) => (a.path < b.path ? -1 : 1));

async function baselineOf(path: string, entries: readonly Entry[]): Promise<void> {
  await writeBaseline({ path, key: secretKey, header, entries: [entries] });
}

test('each of 30,000 paths is found, and none that is between, before or after them', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await baselineOf(path, many);
  await using baseline = await openBaseline(path, secretKey);
  const asked = many.flatMap((entry) => [entry.path, `${entry.path}!`]);
  const found = await baseline.find(['/', ...asked, '/e']);
  assert.equal(found.size, many.length);
  for (const entry of many) assert.deepEqual(plain(found.get(entry.path) as Entry), plain(entry));
});

test('the order of the paths makes no difference to what is found', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await baselineOf(path, many);
  await using baseline = await openBaseline(path, secretKey);
  const asked = ['/d99/029999', '/d00/000000', '/nothing', '/d50/000050', '/d00/000100'];
  const found = await baseline.find(asked);
  assert.deepEqual([...found.keys()].sort(), asked.filter((one) => one !== '/nothing').sort());
});

test('below a directory is what lies in it at any depth, and nothing beside it', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  const beside = ['/', '/d07', '/d07!', '/d07.x', '/d07/000007/in', '/d070', '/e'].map((one) =>
    entryOf({ path: one, attributes: setOf('p') }),
  );
  const all = [...many, ...beside].sort((a, b) => (a.path < b.path ? -1 : 1));
  await baselineOf(path, all);
  await using baseline = await openBaseline(path, secretKey);
  const below = async (one: string): Promise<string[]> => {
    const found: string[] = [];
    for await (const batch of baseline.below(one)) found.push(...batch.map((entry) => entry.path));
    return found;
  };
  const paths = all.map((entry) => entry.path);
  for (const one of ['/d07', '/d00', '/d99', '/d07/000007', '/nothing', '/e', '/zz', '/!'])
    assert.deepEqual(
      await below(one),
      paths.filter((other) => other.startsWith(`${one}/`)),
      one,
    );
  assert.deepEqual(await below('/'), paths.slice(1));
});

test('an empty baseline has nothing', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await baselineOf(path, []);
  await using baseline = await openBaseline(path, secretKey);
  assert.equal((await baseline.find(['/', '/etc'])).size, 0);
  for await (const batch of baseline.below('/')) assert.fail(`${batch.length} entries`);
});

test('a block that was written to since is an error', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await baselineOf(path, few);
  await using baseline = await openBaseline(path, secretKey);
  const bytes = readFileSync(path);
  const at = bytes.indexOf('passwd');
  bytes[at] = 0x50;
  // The same file, not another one in its place.
  writeFileSync(path, bytes, { flag: 'r+' });
  await assert.rejects(
    baseline.find(['/etc/passwd']),
    hasFault('damaged', /changed while it was being read/),
  );
});
