// Updates by the real dpkg on a node with a database of its own, seen by the sensor of this machine.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { Followed, type Line, run } from '../live/live.fixture.ts';
import { liveOf } from '../live/start-live.ts';
import type { NodeResult } from '../results/node-result.ts';
import { buildPackage, dpkg, dpkgSkip, setUpDpkg } from './dpkg-node.fixture.ts';

const conf = '/hostroot/(etc|usr) p+u+g+n+s+ftype+l+sha512\n';
const update = 'tool 1.0-1 -> 1.0-2';

/** Two versions of a package. */
class Versions extends TemporaryDirectory {
  first = '';
  second = '';

  static async build(): Promise<Versions> {
    const made = new Versions();
    const conffiles = ['/etc/tool.conf'];
    made.first = await buildPackage(made.path, 'tool', {
      ...{ version: '1.0-1', conffiles, links: { 'usr/lib/tool/link': 'old' } },
      files: {
        'usr/bin/tool': 'one',
        'etc/tool.conf': 'a',
        'usr/lib/tool/old': 'old',
        'usr/lib/tool/same': 's',
      },
    });
    made.second = await buildPackage(made.path, 'tool', {
      ...{ version: '1.0-2', conffiles, links: { 'usr/lib/tool/link': 'deep' } },
      files: {
        ...{ 'usr/bin/tool': 'two!', 'etc/tool.conf': 'b', 'usr/lib/tool/same': 's' },
        // Where /lib is a link, the database has a name that the file does not have.
        ...{ 'usr/lib/tool/deep/er/new': 'new', 'lib/merged': 'x' },
      },
    });
    return made;
  }

  /** A node that has the first one. */
  follow(
    options: Parameters<typeof Followed.start>[0] = {},
    config: NonNullable<Parameters<typeof Followed.start>[1]>['config'] = {},
  ): Promise<Followed> {
    return Followed.start(options, { conf, config: { gracePeriod: 900, ...config } }, async (host) => {
      setUpDpkg(host);
      await dpkg(host, '-i', this.first);
    });
  }
}

const ofUpgrade = [
  ...['/etc/tool.conf', '/usr/bin/tool', '/usr/lib/merged', '/usr/lib/tool', '/usr/lib/tool/deep'],
  ...['/usr/lib/tool/deep/er', '/usr/lib/tool/deep/er/new', '/usr/lib/tool/link', '/usr/lib/tool/old'],
];

/** The last report for each path. */
function latest(followed: Followed): Map<string, Line> {
  return new Map(followed.lines().map((line) => [line.path, line]));
}

/** All changes of an upgrade are reported as explained by it. */
function untilExplained(followed: Followed): Promise<Map<string, Line>> {
  return until('the upgrade is explained', () => {
    const lines = latest(followed);
    const missing = ofUpgrade.filter((path) => lines.get(path)?.explained !== update);
    if (missing.length > 0)
      throw new Error(
        `${missing.join()} of ${[...lines.values()].map((line) => JSON.stringify(line)).join('\n')}`,
      );
    return lines;
  });
}

suite('updates of packages', { skip: dpkgSkip, timeout: 300_000 }, () => {
  test('an upgrade is explained, file by file; what others do before or after is not', async (t) => {
    using versions = await Versions.build();
    await using followed = await versions.follow({}, { gracePeriod: 10 });
    const { cluster } = followed;
    const { host } = cluster;

    await t.test('an upgrade, folded in results', async () => {
      followed.mark();
      await dpkg(host, '-i', versions.second);
      const lines = await untilExplained(followed);
      assert.deepEqual([...lines.keys()].filter((path) => !path.includes('dpkg-')).toSorted(), ofUpgrade);
      const line = lines.get('/usr/bin/tool') as Line & { severity: string; message: string };
      assert.deepEqual(
        [line.change, line.author?.binary, line.severity],
        ['changed', '/usr/bin/dpkg', 'info'],
      );
      assert.match(line.message, /by \/usr\/bin\/dpkg .*: tool 1\.0-1 -> 1\.0-2\.$/);
      const { updates, outcome } = await cluster.resultWhen(
        'fi',
        (one) => one.updates?.[0]?.files === ofUpgrade.length,
      );
      assert.deepEqual(
        updates?.map((one) => [one.update, one.accepted]),
        [[update, false]],
      );
      // It differs from the baseline all the same.
      assert.equal(outcome.kind, 'failed');
    });

    await t.test('a later write by another author is not explained by the update', async () => {
      followed.mark();
      await followed.shell('echo evil >> "$1"', '../usr/bin/tool');
      const line = await followed.line(
        'found',
        '/usr/bin/tool',
        ({ author }) => author?.binary === '/usr/bin/dash',
      );
      assert.equal(line.explained, undefined);
      // dpkg's content is right again, and another process changed the file all the same.
      followed.mark();
      await dpkg(host, '-i', versions.second);
      await followed.shell('chmod 600 "$1"', '../usr/bin/tool');
      const again = await followed.line('found', '/usr/bin/tool', ({ attributes }) =>
        attributes.includes('perm'),
      );
      assert.equal(again.explained, undefined);
    });

    await t.test('a removal', async () => {
      followed.mark();
      await dpkg(host, '-r', 'tool');
      // It is first reported without its author, or unexplained, if the directory was gone before its own
      // event was read.
      const isExplained = ({ change, explained, author }: Line): boolean =>
        change === 'removed' && explained === 'tool 1.0-1 removed' && author?.binary === '/usr/bin/dpkg';
      await followed.line('found', '/usr/lib/tool/same', isExplained);
      // For a file whose removal was not seen, the next state is the one that the upgrade explains.
      const removed = ofUpgrade.filter((path) => path.startsWith('/usr/'));
      await until('all is removed', () => {
        const lines = latest(followed);
        const isGone = (of?: Line): boolean => of?.state === 'gone' || of?.change === 'removed';
        const left = removed.filter((path) => path !== '/usr/lib/tool/old' && !isGone(lines.get(path)));
        if (left.length > 0) throw new Error(left.join());
        return true;
      });
    });

    await t.test('an upgrade while no agent runs', async () => {
      await followed.stop();
      await dpkg(host, '-i', versions.second);
      const upgradedMs = Date.now();
      const agent = await cluster.startAgent('n1', { live: liveOf() });
      // The agent first sends what the stopped one could not, which may be from before the removal.
      const { findings } = await cluster.resultWhen(
        'fi',
        ({ atMs, findings: of }) =>
          atMs > upgradedMs && of.some(({ path }) => path === '/usr/lib/tool/deep/er/new'),
      );
      const ofNew = findings.filter(({ path, change }) => path.startsWith('/usr/') && change !== 'removed');
      assert.ok(ofNew.some(({ path }) => path === '/usr/bin/tool'));
      assert.deepEqual(
        ofNew.filter(({ explained }) => explained !== undefined),
        [],
      );
      await agent.stop();
    });
  });

  test("files without a package are reported once dpkg is idle; a container's dpkg is another", async () => {
    using versions = await Versions.build();
    await using followed = await versions.follow({ packagesIdleMs: 1 });
    const { host } = followed.cluster;
    followed.mark();
    await followed.shell('echo mine > "$1"', 'tool.conf');
    // Keeps the configuration, and leaves the new one beside it.
    await dpkg(host, '--force-confold', '-i', versions.second);
    const line = await followed.line('found', '/etc/tool.conf.dpkg-dist');
    assert.deepEqual(
      [line.change, line.author?.binary, line.explained],
      ['added', '/usr/bin/dpkg', undefined],
    );

    followed.mark();
    const args = [`--root=${host}`, '--log=/dev/null', '--purge', 'tool'];
    await run('unshare', ['--mount', '/usr/bin/dpkg', ...args], { isQuiet: true });
    const removed = await followed.line(
      'found',
      '/usr/lib/tool/same',
      ({ author }) => author?.mounts === 'own',
    );
    assert.equal(removed.author?.binary, '/usr/bin/dpkg');
    assert.equal(removed.explained, undefined);
    // As it changed the database too.
    const { detection } = await followed.cluster.resultWhen(
      'fi',
      (one) => one.detection.packagesReason !== undefined,
    );
    assert.match(
      detection.packagesReason ?? '',
      /^\/var\/lib\/dpkg\/\S+ was changed by another process than dpkg; only a new baseline \(re-init\) trusts it again$/,
    );
  });

  test('acceptPackageUpdates: an upgrade becomes part of the baseline, and nothing else does', async (t) => {
    using versions = await Versions.build();
    // As the agent does it: dpkg goes on while the first of its files are accepted.
    const end = new AbortController();
    t.after(() => end.abort());
    const live = liveOf({ signal: end.signal });
    await using followed = await versions.follow({ live }, { acceptPackageUpdates: true });
    const { cluster } = followed;
    followed.mark();
    await dpkg(cluster.host, '-i', versions.second);
    await until('all is accepted', () => {
      const accepted = followed.lines().filter(({ state }) => state === 'accepted');
      const paths = new Set(accepted.map(({ path }) => path));
      const missing = ofUpgrade.filter((path) => !paths.has(path));
      if (missing.length > 0) throw new Error(`${missing.join()} of ${JSON.stringify(followed.lines())}`);
      return true;
    });
    // Files that dpkg was about to rename, and its backups, may have been reported, in their state at that time.
    const reported = followed.lines().filter(({ path }) => !/\.dpkg-(?:new|tmp)$/.test(path));
    assert.deepEqual(
      reported.filter(({ state, explained }) => state !== 'accepted' || explained !== update),
      [],
    );
    const countOf = (result: NodeResult): number =>
      result.updates?.reduce((sum, one) => sum + one.files, 0) ?? 0;
    // A result may still count one of those.
    const { updates } = await cluster.resultWhen(
      'fi',
      (one) => countOf(one) === ofUpgrade.length && one.outcome.kind === 'succeeded',
    );
    assert.ok(updates?.every((one) => one.accepted && one.update === update));
    assert.match(readFileSync(`${cluster.jobDirectory('fi')}/accepted.log`, 'utf8'), /tool 1\.0-1 -> 1\.0-2/);
    // The baseline has it: a change by another process is a finding, which dpkg ends when it restores the
    // file.
    followed.mark();
    await followed.shell('echo evil >> "$1"', '../usr/bin/tool');
    const line = await followed.line('found', '/usr/bin/tool');
    assert.equal(line.explained, undefined);
    await dpkg(cluster.host, '-i', versions.second);
    await followed.line('gone', '/usr/bin/tool');
  });
});
