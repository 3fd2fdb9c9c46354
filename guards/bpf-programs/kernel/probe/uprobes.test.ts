import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';

import { until } from '../../../../lib/testing/until.fixture.ts';
import type { DesiredProgram, Outcome, ProgramHost } from '../desired.ts';
import { failed, Lab, loaded, obstacle, ownNetwork } from '../lab.fixture.ts';
import { Caller, place, probe, uprobe } from './caller.fixture.ts';
import { librariesOf } from './uprobe-target.ts';

const libc = (): string =>
  librariesOf(readFileSync('/etc/ld.so.cache')).find(({ name }) => name === 'libc.so.6')?.path ?? '';

/**
 * A directory with a libc of its own. Not in the lab's: the kernel releases a file only some time after its
 * probe is gone.
 */
function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'rampart-upgraded-'));
  t.after(() => rmSync(path, { recursive: true }));
  mkdirSync(join(path, 'lib'));
  copyFileSync(libc(), join(path, 'lib/libc.so.6'));
  return path;
}

/** As a package manager does. */
function upgrade(path: string): void {
  copyFileSync(libc(), `${path}.dpkg-new`);
  renameSync(`${path}.dpkg-new`, path);
}

/** Pins of links to earlier files. */
function earlier(lab: Lab, id: string): readonly string[] {
  const pins = lab.programPins(id);
  return readdirSync(pins).flatMap((generation) =>
    readdirSync(join(pins, generation)).filter((name) => name.startsWith('before-')),
  );
}

const notesOf = (outcomes: ReadonlyMap<string, Outcome>, id: string): string => {
  const outcome = outcomes.get(id);
  return outcome?.state === 'loaded' ? outcome.notes.join() : '';
};

/** Until nothing is left of earlier files. */
async function untilGone(host: ProgramHost, lab: Lab, wanted: readonly DesiredProgram[]): Promise<void> {
  await until('no process to use the earlier file', async () => {
    await host.apply(wanted);
    return wanted.every(({ id }) => earlier(lab, id).length === 0);
  });
}

suite('uprobes follow their files', { skip: obstacle() ?? false }, () => {
  before(ownNetwork);

  test('an upgraded library: processes of both versions are seen, and no earlier one is held for nothing', async (t) => {
    const path = join(directory(t), 'lib/libc.so.6');
    const libraries = join(path, '..');
    const old = new Caller(t, { libraries });
    await old.pid();
    await using lab = new Lab();
    let host = await lab.host();
    const wanted = [
      probe('p', uprobe({ target: path }), 'on_uprobe'),
      probe('return', uprobe({ type: 'uretprobe', target: path }), 'on_uprobe'),
    ];
    const first = loaded(await host.apply(wanted), 'p');
    await old.call(10);
    assert.equal(lab.counted('p'), 10);
    upgrade(path);
    const outcomes = await host.apply(wanted);
    assert.equal(loaded(outcomes, 'p'), first);
    assert.match(notesOf(outcomes, 'p'), /also stays in the file that was \S+libc\.so\.6 before/);
    const young = new Caller(t, { libraries });
    await young.call(5);
    await old.call(3);
    for (const id of ['p', 'return']) assert.equal(lab.counted(id), 18);
    // Also across a restart of the agent.
    host = await lab.restarted();
    assert.match(notesOf(await host.apply(wanted), 'p'), /also stays/);
    await old.call(2);
    assert.equal(lab.counted('p'), 20);
    assert.deepEqual(await host.verify(), []);
    await old.end();
    await untilGone(host, lab, wanted);
    assert.equal(notesOf(await host.apply(wanted), 'p'), '');
    await young.call(1);
    assert.equal(lab.counted('p'), 21);
    await host.apply([]);
    assert.ok(!existsSync(lab.programPins('p')));
  });

  test('a new version goes into the file that is there; in an earlier one, the version before stays', async (t) => {
    const path = join(directory(t), 'lib/libc.so.6');
    const libraries = join(path, '..');
    const old = new Caller(t, { libraries });
    await old.pid();
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = probe('p', uprobe({ target: path }), 'on_uprobe');
    const next = { ...wanted, digest: 'sha256:next' };
    const last = { ...wanted, digest: 'sha256:last' };
    const first = loaded(await host.apply([wanted]), 'p');
    upgrade(path);
    // At once with the upgrade, and after it.
    const outcomes = await host.apply([next]);
    assert.notEqual(loaded(outcomes, 'p'), first);
    assert.match(notesOf(outcomes, 'p'), /also stays in the file that was/);
    await old.call(3);
    assert.equal(lab.counted('p'), 3);
    assert.match(notesOf(await host.apply([last]), 'p'), /also stays in the file that was/);
    await old.call(2);
    assert.equal(lab.counted('p'), 5);
    await old.end();
    await untilGone(host, lab, [last]);
    await new Caller(t, { libraries }).call(1);
    assert.ok(lab.counted('p') > 5);
  });

  test('a deleted file is not a success; processes that have it open are still seen', async (t) => {
    const path = join(directory(t), 'lib/libc.so.6');
    const libraries = join(path, '..');
    const old = new Caller(t, { libraries });
    await old.pid();
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = [probe('p', uprobe({ target: path }), 'on_uprobe')];
    loaded(await host.apply(wanted), 'p');
    unlinkSync(path);
    assert.match(
      failed(await host.apply(wanted), 'p', 'target'),
      /^There is no \S+ to probe: ENOENT\. It stays in the file that was \S+ before and that processes still use\.$/,
    );
    await old.call(4);
    assert.equal(lab.counted('p'), 4);
    // It is not drift that it has no file.
    assert.deepEqual(await host.verify(), []);
    copyFileSync(libc(), path);
    loaded(await host.apply(wanted), 'p');
    const young = new Caller(t, { libraries });
    await young.call(2);
    assert.equal(lab.counted('p'), 6);
    // Another version, without the function.
    copyFileSync('/bin/true', `${path}.new`);
    renameSync(`${path}.new`, path);
    const changed = failed(await host.apply(wanted), 'p', 'target');
    assert.match(changed, /has no function getppid\. .* It stays in 2 files that were/);
    await young.call(1);
    assert.equal(lab.counted('p'), 7);
    await Promise.all([old.end(), young.end()]);
  });

  test('a link that points to another version', async (t) => {
    const root = directory(t);
    const [current, one, two] = ['current', 'lib', 'next'].map((name) => join(root, name)) as [
      string,
      string,
      string,
    ];
    mkdirSync(two);
    copyFileSync(libc(), join(two, 'libc.so.6'));
    symlinkSync(one, current);
    await using lab = new Lab();
    const changes = Promise.withResolvers<void>();
    await using host = await lab.another('/', undefined, () => changes.resolve());
    const wanted = [probe('p', uprobe({ target: join(current, 'libc.so.6') }), 'on_uprobe')];
    loaded(await host.apply(wanted), 'p');
    symlinkSync(two, `${current}.new`);
    renameSync(`${current}.new`, current);
    await changes.promise;
    loaded(await host.apply(wanted), 'p');
    const caller = new Caller(t, { libraries: two });
    await caller.call(6);
    assert.equal(lab.counted('p'), 6);
    await host.apply([]);
  });

  test('a file of a container', async (t) => {
    const root = directory(t);
    // A mount of its own: the path leads elsewhere outside of it.
    const script = `mount -t tmpfs tmpfs ${root}/lib && cp ${libc()} ${root}/lib/libc.so.6 && exec "$@"`;
    const inside = new Caller(t, {
      libraries: join(root, 'lib'),
      wrapper: ['unshare', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script, 'sh'],
    });
    const pid = await inside.pid();
    await using lab = new Lab();
    const changes = Promise.withResolvers<void>();
    await using host = await lab.another('/', undefined, () => changes.resolve());
    const target = join(root, 'lib/libc.so.6');
    const wanted = [probe('p', uprobe({ target, container: place(pid) }), 'on_uprobe')];
    loaded(await host.apply(wanted), 'p');
    await inside.call(3);
    assert.equal(lab.counted('p'), 3);
    upgrade(`/proc/${pid}/root${target}`);
    await changes.promise;
    assert.match(notesOf(await host.apply(wanted), 'p'), /also stays/);
    await inside.call(3);
    assert.equal(lab.counted('p'), 6);
    unlinkSync(`/proc/${pid}/root${target}`);
    assert.match(failed(await host.apply(wanted), 'p', 'target'), /ENOENT\. It stays in 2 files that were/);
    await inside.call(3);
    assert.equal(lab.counted('p'), 9);
    await host.apply([]);
  });
});
