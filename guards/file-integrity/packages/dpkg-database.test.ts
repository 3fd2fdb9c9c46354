// Changes that a database of the real dpkg explains, and those that it does not after another process has
// written to it.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { before, after, suite, test } from 'node:test';

import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { DpkgDatabase, dpkgPaths } from './dpkg-database.ts';
import { buildPackage, dpkg, dpkgSkip, setUpDpkg } from './dpkg-node.fixture.ts';
import { NodeFiles } from './node-files.ts';

suite('the database of dpkg', { skip: dpkgSkip, timeout: 60_000 }, () => {
  const directory = new TemporaryDirectory();
  const root = directory.at('root');
  const files = new NodeFiles(root);
  const at = (path: string): string => `${root}${path}`;
  const tool = '/usr/bin/tool';

  before(async () => {
    setUpDpkg(root);
    for (const name of ['tool', 'other']) {
      const paths = { [`usr/bin/${name}`]: name, [`etc/${name}.conf`]: 'c' };
      const conffiles = [`/etc/${name}.conf`];
      await dpkg(
        root,
        '-i',
        await buildPackage(directory.path, name, { version: '1', files: paths, conffiles }),
      );
    }
  });
  after(() => directory[Symbol.dispose]());

  const read = async (): Promise<DpkgDatabase> => (await DpkgDatabase.read(files)) as DpkgDatabase;

  async function explains(database: DpkgDatabase, path = tool): Promise<string | undefined> {
    const md5 = (await files.sums(path))?.md5;
    return database.explain(path, { kind: 'changed', type: 'f', md5 })?.package;
  }

  test('files and conffiles by their content, links and directories by their names', async () => {
    const database = await read();
    assert.equal(await explains(database), 'tool');
    assert.equal(await explains(database, '/etc/tool.conf'), 'tool');
    const explain = (path: string, type: string, md5?: string) =>
      database.explain(path, { kind: 'added', type, md5 });
    assert.deepEqual(explain('/etc', 'd'), { package: 'other', from: '1', to: '1' });
    assert.equal(explain(tool, 'f', '0'.repeat(32)), undefined);
    assert.equal(explain(tool, 'f'), undefined);
    assert.equal(explain('/usr/bin/none', 'l'), undefined);
    // It is in the list of a package.
    assert.equal(database.explain(tool, { kind: 'removed', type: undefined, md5: undefined }), undefined);
  });

  test('a diverted file is explained only at its diverted path', async () => {
    const text = `${tool}\n${tool}.distrib\nother\n`;
    writeFileSync(at(dpkgPaths.diversions), text);
    const database = await read();
    const md5 = (await files.sums(tool))?.md5;
    assert.equal(await explains(database), undefined);
    const there = database.explain(`${tool}.distrib`, { kind: 'added', type: 'f', md5 });
    assert.equal(there?.package, 'tool');
    writeFileSync(at(dpkgPaths.diversions), '');
  });

  test('files removed by an update, after a part of it was accepted', async () => {
    const two = (version: string, file: string): Promise<string> =>
      buildPackage(directory.path, 'parts', { version, files: { 'usr/bin/parts': version, [file]: 'x' } });
    await dpkg(root, '-i', await two('1', 'usr/bin/old'));
    const database = await read();
    await dpkg(root, '-i', await two('2', 'usr/bin/new'));
    database.changed(`${dpkgPaths.info}/parts.list`, 'packages', false);
    database.changed(dpkgPaths.status, 'packages', false);
    await database.refresh();
    database.accept(['parts']);
    const removed = { kind: 'removed', type: undefined, md5: undefined } as const;
    assert.deepEqual(database.explain('/usr/bin/old', removed), { package: 'parts', from: '1', to: '2' });
    await dpkg(root, '-r', 'parts');
  });

  for (const name of ['program', 'status', 'diversions'] as const) {
    test(`${name} in other hands: nothing is explained, not after a restart either`, async () => {
      const database = await read();
      const path = dpkgPaths[name];
      database.changed(path, 'others', false);
      // Too late.
      database.changed(path, 'packages', false);
      await database.refresh();
      assert.equal(await explains(database), undefined);
      assert.equal(database.broken, `${path} was changed by another process than dpkg`);
      const again = await DpkgDatabase.resume(files, database.snapshot);
      assert.equal(again?.broken, database.broken);
    });
  }

  test('dpkg-divert writes diversions, and nothing else', async () => {
    const database = await read();
    database.changed(dpkgPaths.diversions, 'others', true);
    await database.refresh();
    assert.equal(await explains(database), 'tool');
    database.changed(dpkgPaths.status, 'others', true);
    assert.notEqual(database.broken, undefined);
  });

  test('lists of a package in other hands concern that one, until dpkg writes them', async () => {
    const sums = `${dpkgPaths.info}/tool.md5sums`;
    const was = readFileSync(at(sums), 'utf8');
    const database = await read();
    // No event has reported it yet.
    writeFileSync(at(sums), was.replaceAll(/^\w+/gm, '0'.repeat(32)));
    assert.equal(await explains(database), undefined);
    database.changed(sums, 'others', false);
    await database.refresh();
    writeFileSync(at(sums), was);
    assert.deepEqual(
      [await explains(database), await explains(database, '/usr/bin/other')],
      [undefined, 'other'],
    );
    database.changed(sums, 'packages', false);
    await database.refresh();
    assert.equal(await explains(database), 'tool');
  });

  test('unseen changes concern the packages that differ from the known ones', async () => {
    const status = at(dpkgPaths.status);
    const was = readFileSync(status, 'utf8');
    const changed = was.replace(/(Package: tool\n(?:.+\n)*?Version: )1/, '$12');
    assert.notEqual(changed, was);
    const database = await read();
    const { snapshot } = database;
    writeFileSync(status, changed);
    database.changed(dpkgPaths.status, 'unseen', false);
    await database.refresh();
    const resumed = (await DpkgDatabase.resume(files, snapshot)) as DpkgDatabase;
    const missed = await DpkgDatabase.resume(files, snapshot);
    await missed?.verify();
    for (const one of [database, resumed, missed as DpkgDatabase])
      assert.deepEqual([await explains(one), await explains(one, '/usr/bin/other')], [undefined, 'other']);
    writeFileSync(status, was);
    appendFileSync(at(dpkgPaths.program), ' ');
    const replaced = await DpkgDatabase.resume(files, snapshot);
    assert.match(replaced?.broken ?? '', /nobody saw by whom/);
  });

  test('while dpkg is at work, nothing is explained', async () => {
    const database = await read();
    const entry = `${dpkgPaths.updates}/0001`;
    writeFileSync(at(entry), '');
    database.changed(entry, 'packages', false);
    assert.equal(await explains(database), undefined);
    await database.refresh();
    assert.equal(await explains(database), undefined);
    database.changed(entry, 'others', false);
    assert.match(database.broken ?? '', /updates\/0001/);
  });

  test('a node without dpkg has none', async () => {
    assert.equal(await DpkgDatabase.read(new NodeFiles(directory.path)), undefined);
  });
});
