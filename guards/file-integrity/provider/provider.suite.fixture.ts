/** The requirements for every provider, with real files: run by the tests of each. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { RampartError } from '../../../lib/errors/errors.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { NewestBaseline } from '../database/newest-baseline.ts';
import { BaselineError } from '../database/baseline-error.ts';
import type { CheckResult, IntegrityJob, IntegrityProvider } from './provider.ts';
import { plainReport } from '../report/plain.ts';

/** A host of its own, and the job of a FileIntegrity there. Disposing it removes all. */
export class JobBench implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-provider-'));
  readonly host = join(this.directory, 'host');
  job: IntegrityJob;

  constructor(conf = '/hostroot/etc p+u+g+n+s+sha256\n!/hostroot/etc/skip\n') {
    mkdirSync(this.host);
    const directory = join(this.directory, 'data');
    mkdirSync(directory, { mode: 0o700 });
    this.job = {
      key: 'ns/fi',
      conf: { name: 'ConfigMap ns/fi, aide.conf', text: conf },
      root: { directory: this.host, prefix: '/hostroot' },
      directory,
      signingKey: { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 5) },
      maxBackups: 2,
    };
    for (const name of ['hosts', 'passwd', 'shadow', 'deep/er/file', 'skip/this']) this.write(name, name);
    symlinkSync('hosts', join(this.host, 'etc/link'));
  }

  /** A path in /etc of the host. */
  at(name: string): string {
    return join(this.host, 'etc', name);
  }

  write(name: string, content: string): void {
    mkdirSync(dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), content);
  }

  setConf(text: string): void {
    this.job = { ...this.job, conf: { ...this.job.conf, text } };
  }

  /** The files of the job, which are the provider's own matter. */
  files(): string[] {
    return readdirSync(this.job.directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const quiet = { signal: new AbortController().signal };

/** `changed /hostroot/etc/hosts`, sorted. */
export function reported({ report }: CheckResult): string[] {
  return report.changes.map(({ kind, path }) => `${kind} ${path}`).sort();
}

function rejectsWith(promise: Promise<unknown>, ...faults: readonly BaselineError['fault'][]): Promise<void> {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof BaselineError, String(error));
    assert.ok(faults.includes(error.fault), `${error.fault}: ${error.message}`);
    assert.ok((error.next ?? '').length > 20, 'it says what to do');
    return true;
  });
}

export interface SuiteOptions {
  readonly skip?: string | false;
  /** The file that counts as the baseline. */
  readonly baseline: (job: IntegrityJob) => string;
  /** The backups, the oldest first. */
  readonly backups: (job: IntegrityJob) => string[];
}

export function providerSuite(make: () => IntegrityProvider, options: SuiteOptions): void {
  const provider = make();
  const baselineOf = ({ job }: JobBench): string => options.baseline(job);

  suite(`provider ${provider.name}`, { skip: options.skip ?? false }, () => {
    test('a check without a baseline says so', async () => {
      using bench = new JobBench();
      assert.equal(await provider.state(bench.job), 'none');
      await rejectsWith(provider.check(bench.job, quiet), 'missing');
    });

    test('nothing has changed after init', async () => {
      using bench = new JobBench();
      const { entries, unread } = await provider.init(bench.job, quiet);
      // etc, deep, er, and five in them.
      assert.equal(entries, 8);
      assert.equal(unread, 0);
      assert.equal(await provider.state(bench.job), 'ready');
      const result = await provider.check(bench.job, quiet);
      assert.deepEqual(result.report.counts, { total: 8, added: 0, removed: 0, changed: 0, problems: 0 });
    });

    test('changed, added and removed files are reported with their differences, and named in the log', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.write('passwd', 'other');
      chmodSync(bench.at('hosts'), 0o600);
      bench.write('deep/er/new', 'new');
      unlinkSync(bench.at('shadow'));
      bench.write('skip/more', 'not looked at');
      const result = await provider.check(bench.job, quiet);
      assert.deepEqual(reported(result), [
        'added /hostroot/etc/deep/er/new',
        'changed /hostroot/etc/hosts',
        'changed /hostroot/etc/passwd',
        'removed /hostroot/etc/shadow',
      ]);
      const { total: _, ...counts } = result.report.counts;
      assert.deepEqual(counts, { added: 1, removed: 1, changed: 2, problems: 0 });
      const detailsOf = (path: string): string[] =>
        result.report.changes.find((change) => change.path === path)?.details.map(({ name }) => name) ?? [];
      assert.deepEqual(detailsOf('/hostroot/etc/hosts'), ['perm']);
      assert.deepEqual(detailsOf('/hostroot/etc/passwd').sort(), ['sha256', 'size']);
      const log = [...plainReport(result.report, result.options, result.facts)].join('');
      assert.match(log, /found differences/);
      assert.match(log, /\/hostroot\/etc\/deep\/er\/new/);
    });

    test('init records the present state; earlier baselines are kept as a limited number of backups', async () => {
      using bench = new JobBench();
      const old: string[] = [];
      for (const round of [1, 2, 3, 4]) {
        if (existsSync(baselineOf(bench))) old.push(readFileSync(baselineOf(bench), 'latin1'));
        bench.write('passwd', `round ${round}`);
        await provider.init(bench.job, quiet);
        assert.equal(options.backups(bench.job).length, Math.min(round - 1, 2));
      }
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), []);
      const kept = options.backups(bench.job).map((path) => readFileSync(path, 'latin1'));
      assert.ok(
        kept.every((content, at) => content === old[at + 1]),
        'the last two, in their order',
      );
    });

    test('no backups are kept where none are wanted', async () => {
      using bench = new JobBench();
      bench.job = { ...bench.job, maxBackups: 0 };
      await provider.init(bench.job, quiet);
      await provider.init(bench.job, quiet);
      assert.deepEqual(options.backups(bench.job), []);
    });

    test('another configuration is reported, and init makes it the present one', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.setConf('/hostroot/etc/passwd p+sha256\n');
      assert.equal(await provider.state(bench.job), 'other-configuration');
      const { entries } = await provider.init(bench.job, quiet);
      assert.equal(entries, 1);
      assert.equal(await provider.state(bench.job), 'ready');
    });

    test('a configuration that cannot be used is an error with its line', async () => {
      using bench = new JobBench('/hostroot/etc p+nonsense\n');
      await assert.rejects(provider.init(bench.job, quiet), (error) => {
        assert.ok(error instanceof RampartError, String(error));
        assert.match(error.message, /aide\.conf.*1|line 1/s);
        return true;
      });
      assert.equal(await provider.state(bench.job), 'none');
    });

    test('a configuration that selects nothing is an error, and leaves what was there', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      const empty = { ...bench.job, conf: { ...bench.job.conf, text: '/hostroot/nowhere p\n' } };
      await assert.rejects(
        provider.init(empty, quiet),
        /no baseline was created: the configuration selects no file/,
      );
      assert.equal(await provider.state(bench.job), 'ready');
    });

    test('accept takes what is named and nothing else', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.write('passwd', 'other');
      bench.write('hosts', 'other');
      bench.write('aaa', 'new');
      bench.write('zzz', 'new');
      unlinkSync(bench.at('shadow'));
      unlinkSync(bench.at('link'));
      const accepted = ['aaa', 'passwd', 'shadow'].map((name) => `/hostroot/etc/${name}`);
      const about = { author: 'someone', reason: 'an update', request: 'ab12' };
      assert.deepEqual(await provider.accept(bench.job, accepted, about, quiet), { unread: [] });
      const rest = ['added /hostroot/etc/zzz', 'changed /hostroot/etc/hosts', 'removed /hostroot/etc/link'];
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), rest);
      assert.equal(await provider.state(bench.job), 'ready');
      bench.write('passwd', 'and other still');
      assert.deepEqual(
        reported(await provider.check(bench.job, quiet)),
        [...rest, 'changed /hostroot/etc/passwd'].sort(),
      );
    });

    test('a request is done once', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, { ...quiet, request: 'aa' });
      bench.write('passwd', 'other');
      const about = { author: 'someone', reason: 'an update', request: 'bb' };
      await provider.init(bench.job, { ...quiet, request: 'aa' });
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), ['changed /hostroot/etc/passwd']);
      await provider.accept(bench.job, ['/hostroot/etc/passwd'], about, quiet);
      bench.write('passwd', 'later');
      await provider.accept(bench.job, ['/hostroot/etc/passwd'], about, quiet);
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), ['changed /hostroot/etc/passwd']);
      await provider.init(bench.job, { ...quiet, request: 'cc' });
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), []);
      bench.write('passwd', 'later still');
      await provider.init(bench.job, { ...quiet, request: 'aa' });
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), ['changed /hostroot/etc/passwd']);
    });

    const damages: [string, (path: string) => void, readonly BaselineError['fault'][]][] = [
      ['empty', (path) => truncateSync(path), ['truncated', 'foreign', 'damaged']],
      [
        'cut off',
        (path) => truncateSync(path, Math.floor(readFileSync(path).length / 2)),
        ['truncated', 'damaged'],
      ],
      ['longer', (path) => appendFileSync(path, 'x'), ['damaged', 'truncated']],
      ['something else', (path) => writeFileSync(path, 'all is well\n'), ['foreign', 'damaged', 'truncated']],
      ['gone', (path) => unlinkSync(path), ['missing']],
      [
        'changed in one bit',
        (path) => {
          const bytes = readFileSync(path);
          const at = Math.floor(bytes.length / 2);
          bytes[at] = (bytes[at] ?? 0) ^ 4;
          writeFileSync(path, bytes);
        },
        ['damaged', 'wrong signature', 'truncated'],
      ],
    ];
    test('a baseline that is damaged is an error to state, check and accept; init mends it', async (t) => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      const whole = readFileSync(baselineOf(bench));
      for (const [how, damage, faults] of damages) {
        await t.test(how, async () => {
          writeFileSync(baselineOf(bench), whole, { mode: 0o600 });
          damage(baselineOf(bench));
          await rejectsWith(provider.check(bench.job, quiet), ...faults);
          await rejectsWith(provider.state(bench.job), ...faults);
          const about = { author: '', reason: '' };
          await rejectsWith(provider.accept(bench.job, ['/hostroot/etc/hosts'], about, quiet), ...faults);
        });
      }
      await provider.init(bench.job, quiet);
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), []);
    });

    for (const [how, damage] of damages) {
      deepTest(`init mends a baseline that is ${how}`, async () => {
        using bench = new JobBench();
        await provider.init(bench.job, quiet);
        damage(baselineOf(bench));
        await provider.init(bench.job, quiet);
        assert.deepEqual(reported(await provider.check(bench.job, quiet)), []);
      });
    }

    test('an older baseline in its place is an error, though it is signed', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.write('passwd', 'other');
      await provider.init(bench.job, quiet);
      const [backup = ''] = options.backups(bench.job);
      renameSync(backup, baselineOf(bench));
      await rejectsWith(provider.check(bench.job, quiet), 'outdated');
    });

    test('an older baseline put back with all that lies beside it is an error where a newer one is known', async () => {
      using bench = new JobBench();
      const newest = new NewestBaseline();
      bench.job = { ...bench.job, newest };
      await provider.init(bench.job, quiet);
      const before = join(bench.directory, 'before');
      cpSync(bench.job.directory, before, { recursive: true });
      bench.write('passwd', 'other');
      await provider.init(bench.job, quiet);
      const known = newest.newest;
      assert.ok(known !== undefined);
      assert.equal(newest.current?.digest, known.digest);
      const after = join(bench.directory, 'after');
      renameSync(bench.job.directory, after);
      renameSync(before, bench.job.directory);
      await rejectsWith(provider.check(bench.job, quiet), 'outdated');
      // Another process, which has it from the API.
      const again = new NewestBaseline();
      again.learn(known);
      bench.job = { ...bench.job, newest: again };
      await rejectsWith(provider.state(bench.job), 'outdated');
      await rejectsWith(provider.check(bench.job, quiet), 'outdated');
      await rejectsWith(
        provider.accept(bench.job, ['/hostroot/etc/passwd'], { author: '', reason: '' }, quiet),
        'outdated',
      );
      // Nothing of this is known to who has only the node.
      const { newest: _, ...alone } = bench.job;
      assert.equal(await provider.state(alone), 'ready');
      await provider.init(bench.job, quiet);
      assert.equal(await provider.state(bench.job), 'ready');
      assert.ok((again.current?.madeAtMs ?? 0) > known.madeAtMs);
    });

    test('each baseline is later than the one before, whatever the clock says', async () => {
      using bench = new JobBench();
      const newest = new NewestBaseline();
      const madeAtMs = Date.now() + 3_600_000;
      newest.learn({ provider: provider.name, digest: '0'.repeat(64), madeAtMs });
      bench.job = { ...bench.job, newest };
      await provider.init(bench.job, quiet);
      assert.equal(newest.current?.madeAtMs, madeAtMs + 1);
      await provider.accept(bench.job, ['/hostroot/etc/passwd'], { author: '', reason: '' }, quiet);
      assert.equal(newest.current?.madeAtMs, madeAtMs + 2);
    });

    test('another key is an error', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.job = { ...bench.job, signingKey: { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 6) } };
      await rejectsWith(provider.check(bench.job, quiet), 'wrong signature');
    });

    test('init that is aborted leaves what was there', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      bench.write('passwd', 'other');
      const stop = new AbortController();
      stop.abort(new Error('enough'));
      await assert.rejects(provider.init(bench.job, { signal: stop.signal }), /enough/);
      await assert.rejects(provider.check(bench.job, { signal: stop.signal }), /enough/);
      assert.deepEqual(reported(await provider.check(bench.job, quiet)), ['changed /hostroot/etc/passwd']);
    });

    test('several jobs over the same files', async () => {
      using bench = new JobBench();
      const second = { ...bench.job, key: 'ns/two', directory: join(bench.directory, 'two') };
      mkdirSync(second.directory);
      const broken = { ...bench.job, key: 'ns/three', directory: join(bench.directory, 'three') };
      mkdirSync(broken.directory);
      const other = { ...second, conf: { ...second.conf, text: '/hostroot/etc/deep p+sha256\n' } };
      await provider.init(bench.job, quiet);
      await provider.init(other, quiet);
      bench.write('deep/er/file', 'other');
      bench.write('hosts', 'other');
      const jobs = [bench.job, broken, other];
      const together = (await provider.checkTogether?.(jobs, quiet)) ?? [];
      if (provider.checkTogether === undefined) return;
      const results = together.map((one) =>
        one.status === 'fulfilled' ? reported(one.value) : (one.reason as BaselineError).fault,
      );
      assert.deepEqual(results, [
        ['changed /hostroot/etc/deep/er/file', 'changed /hostroot/etc/hosts'],
        'missing',
        ['changed /hostroot/etc/deep/er/file'],
      ]);
    });

    test('only the owner can read its files', async () => {
      using bench = new JobBench();
      await provider.init(bench.job, quiet);
      await provider.init(bench.job, quiet);
      for (const path of bench.files()) {
        const { mode } = await import('node:fs').then(({ statSync }) => statSync(path));
        assert.equal(mode & 0o077, 0, path);
      }
    });
  });
}
