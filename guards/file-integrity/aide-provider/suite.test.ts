/** The suite of all providers, and random trees: both providers say the same of them, word by word. */
import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertReached } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { aideDialect, withoutAide } from '../aide.fixture.ts';
import { NativeProvider } from '../node/native-provider.ts';
import type { CheckResult, IntegrityJob } from '../provider/provider.ts';
import { providerSuite } from '../provider/provider.suite.fixture.ts';
import { plainReport } from '../report/plain.ts';
import { jsonReport } from '../report/json.ts';
import { patience, TestHost } from './job.fixture.ts';
import { AideProvider } from './provider.ts';

providerSuite(() => new AideProvider(), {
  skip: withoutAide,
  baseline: ({ directory }) => join(directory, 'aide.baseline'),
  backups: ({ directory }) =>
    fs
      .readdirSync(directory)
      .filter((name) => name.startsWith('aide.baseline.'))
      .toSorted()
      .map((name) => join(directory, name)),
});

const files = [
  'a',
  'a!',
  'a b',
  'é',
  'x\n',
  'q\'"\\',
  '%41',
  'conf',
  'd/a',
  'd/a-b',
  'd/e/f',
  'd.x/a',
  'log/one',
];
type Step = readonly [
  'write' | 'append' | 'remove' | 'mode' | 'link' | 'hardlink' | 'move' | 'fifo',
  string,
  string,
];
const step: fc.Arbitrary<Step> = fc.tuple(
  fc.constantFrom('write', 'write', 'write', 'append', 'remove', 'mode', 'link', 'hardlink', 'move'),
  fc.constantFrom(...files),
  fc.constantFrom(...files),
);

/** Impossible steps are skipped. */
function take(host: TestHost, [action, name, other]: Step): void {
  const [path, to] = [host.at(`etc/${name}`), host.at(`etc/${other}`)];
  try {
    fs.mkdirSync(join(path, '..'), { recursive: true });
    if (action === 'write') fs.writeFileSync(path, `content of ${other}`);
    else if (action === 'append') fs.appendFileSync(path, other);
    else if (action === 'remove') fs.rmSync(path, { recursive: true });
    else if (action === 'mode') fs.chmodSync(path, 0o600 + other.length);
    else if (action === 'link') fs.symlinkSync(other, path);
    else if (action === 'hardlink') fs.linkSync(path, to);
    else if (action === 'move') fs.renameSync(path, to);
  } catch {
    // Missing, or something else.
  }
}

const attributes = fc.constantFrom(
  ...[
    'ftype+p+u+g+n+s+l+sha256',
    // But for its own checksum, which we do not have.
    aideDialect === '0.18' ? 'R-md5-c-i-m+sha512' : 'R-sha3_256-c-i-m+sha512',
    'p+sha256+ANF',
    's+l+ARF',
    'ftype+p+s+sha256+growing',
    'S+sha256',
  ],
);
const rules: fc.Arbitrary<string> = fc
  .tuple(
    fc.array(
      fc.constantFrom(
        '!/etc/d/e',
        '!/etc/.*\\\\.x$',
        '!/etc/a$ f',
        '=/etc/d$',
        '/etc/d.*/a$',
        '/etc/(conf|log)',
        '/etc f',
        '=/etc/d/',
      ),
      { maxLength: 4 },
    ),
    fc.array(attributes, { minLength: 5, maxLength: 5 }),
    fc.constantFrom(
      '',
      'report_level=added_removed_entries\n',
      'report_ignore_changed_attrs=p\n',
      'report_grouped=no\n',
    ),
  )
  .map(([some, sets, option]) => {
    const lines = [...some, '/etc'].map((line, at) => {
      const [path = '', type = ''] = line.split(' ');
      return `${line.startsWith('!') ? line : `${path} ${type} ${sets[at] ?? 'p'}`}\n`;
    });
    return option + lines.join('').replaceAll(/^([!=]?)\//gm, '$1/hostroot/');
  });

/** 0.19 has the type of the file system at the end of its summaries, which is not compared here. */
function withoutFileSystem(result: CheckResult): CheckResult {
  const width = 'YlZbpugamcinHAXSEC'.length;
  const changes = result.report.changes.map((change) => ({
    ...change,
    summary: change.summary.slice(0, width),
  }));
  return { ...result, report: { ...result.report, changes } };
}

function words(text: string): string {
  return text
    .replaceAll(/(timestamp: |_time": ")[^"(]*/g, '$1')
    .replaceAll(/run time: \d+m \d+s|"run_time_seconds": \d+/g, '')
    .replaceAll(/\{\s+\}/g, '{}');
}

test(
  'random trees: both providers report the same, also after an accept',
  { skip: withoutAide },
  async () => {
    let [runs, different] = [0, 0];
    const native = new NativeProvider({ version: '0.0.0', workers: 1 });
    const aide = new AideProvider();
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 25, size: 'max' }),
        fc.array(step, { minLength: 1, maxLength: 12, size: 'max' }),
        rules,
        fc.nat(),
        async (before, after, conf, seed) => {
          runs++;
          using host = new TestHost();
          host.write('etc/conf', 'x');
          for (const one of before) take(host, one);
          const jobs = ['native', 'aide'].map((name): IntegrityJob => {
            const directory = join(host.directory, name);
            fs.mkdirSync(directory, { mode: 0o700 });
            return host.job(conf, { directory });
          });
          const [ours, theirs] = jobs as [IntegrityJob, IntegrityJob];
          assert.deepEqual(await native.init(ours, patience()), await aide.init(theirs, patience()));
          for (const one of after) take(host, one);
          const check = async (): Promise<readonly string[]> => {
            const one = await native.check(ours, patience());
            const other = withoutFileSystem(await aide.check(theirs, patience()));
            assert.deepEqual(one.options, other.options);
            assert.deepEqual(one.report, other.report);
            const facts = { ...one.facts, program: 'the same' };
            for (const notify of [
              (r: typeof one) => [...plainReport(r.report, r.options, facts)].join(''),
              (r: typeof one) => jsonReport(r.report, r.options, facts),
            ])
              assert.equal(words(notify(one)), words(notify(other)));
            return one.report.changes.map(({ path }) => path);
          };
          const paths = await check();
          different += paths.length;
          const accepted = paths.filter((_, at) => ((seed >>> (at % 30)) & 1) === 1).toSorted();
          const about = { author: 'a', reason: 'r' };
          assert.deepEqual(
            await native.accept(ours, accepted, about, patience()),
            await aide.accept(theirs, accepted, about, patience()),
          );
          const rest = await check();
          assert.deepEqual(
            rest,
            paths.filter((path) => !accepted.includes(path)),
          );
        },
      ),
      { numRuns: 8, min: 4 },
    );
    assertReached(different > runs / 2, `${different} differences in all`);
  },
);
