/** Against the real AIDE, for trees, configurations and changes made at random: the same entries, the same differences. */
import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { assertReached } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { aideDialect, withoutAide } from '../aide.fixture.ts';
import { parseAideReport } from '../aide-provider/aide-output.ts';
import { checksums, describeAttributes, setOf } from '../model/attributes.ts';
import { Comparison } from '../compare/compare.ts';
import { readAideDatabase } from '../database/aide-database.ts';
import { kept, plain } from '../database/baseline.fixture.ts';
import { sortEntries } from '../database/sort-entries.ts';
import type { Entry } from '../model/entry.ts';
import { collect, runAide } from '../real-aide.fixture.ts';
import { collectReport } from '../report/collect.ts';
import { type Step, step, TreeMaker } from './random-tree.fixture.ts';
import { isEntry } from './scan.fixture.ts';
import { noEnvironment } from '../aide-conf/conf.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';
import { Scanner } from './scanner.ts';
import { defaultReportOptions } from '../model/report.ts';

const attribute = fc.constantFrom(
  ...[
    'ftype',
    'p',
    'u',
    'g',
    's',
    'b',
    'm',
    'c',
    'i',
    'n',
    'l',
    'acl',
    'selinux',
    'xattrs',
    'e2fsattrs',
    'caps',
  ],
  ...[
    'sha256',
    'sha512',
    'sha256',
    'L',
    aideDialect === '0.18' ? 'R-md5' : 'R-sha3_256',
    'X',
    aideDialect === '0.18'
      ? 'H-md5-sha1-rmd160-tiger-crc32-haval-gost-crc32b-whirlpool'
      : 'H-stribog256-stribog512-sha512_256-sha3_256-sha3_512',
    'E',
  ],
);
const comparison = fc.constantFrom(
  '',
  '',
  '',
  '+S',
  '+growing',
  '+ANF',
  '+ARF',
  '+ANF+ARF',
  '+growing+I',
  '+I',
);
const attributes = fc
  .tuple(fc.array(attribute, { minLength: 1, maxLength: 8 }), comparison)
  .map(([list, how]) => list.join('+') + how);
const pattern = fc.constantFrom(
  ...['/', '/', '/', '/a', '/a$', '/b', '/a/', '/.*/b', '/a/[^/]*$', '/a\\.b', '/x+', '/b/a', '/.', '/[^a]'],
);
const restriction = fc.constantFrom('', '', '', ' f', ' d', ' d,f', ' l,p', ' s,c,b');
const line = fc
  .tuple(fc.constantFrom('', '', '', '=', '!'), pattern, restriction, attributes)
  .map(([sigil, of, types, set]) => `${sigil}${of}${types}${sigil === '!' ? '' : ` ${set}`}`);
const conf = fc
  .tuple(attributes, fc.array(line, { maxLength: 4 }), fc.integer({ min: 0, max: 5 }))
  .map(([set, lines, all]) => [...lines, ...(all > 0 ? [`/ ${set}`] : [`/a ${set}`])].join('\n'));

/** The parts that AIDE has as well: for a file that only grows and has no checksum, it has no size. */
function comparable(entry: Entry): unknown {
  const sizeless = (entry.attributes & (checksums | setOf('s', 'S'))) === 0;
  const reported = plain(kept(sizeless ? { ...entry, sizeBytes: 0 } : entry)) as Record<string, unknown>;
  // 0.19 has capabilities of regular files only.
  const isBare = aideDialect === '0.19' && entry.type !== 'f';
  return {
    ...reported,
    ...(isBare && { capabilities: '' }),
    attributes: describeAttributes(entry.attributes & (isBare ? ~setOf('caps') : -1)),
  };
}

test('a scan sees the tree, and differences after changes', { skip: withoutAide }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'scan-differential-'));
  const maker = await TreeMaker.make(directory);
  const root = { directory: maker.root, prefix: '' };
  // Files that are looked at before and after they are read, and files that have rested.
  const scanners = [new Scanner({ root }), new Scanner({ root, restMs: 0 })] as const;
  const { signal } = new AbortController();
  let [runs, entries, differences] = [0, 0, 0];
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40, size: 'max' }),
        conf,
        fc.array(step, { maxLength: 12, size: 'max' }),
        async (build, text, change) => {
          runs++;
          const ours = readAideConf('aide.conf', text, { ...noEnvironment, dialect: aideDialect });
          const scanner = scanners[build.length % 2 === 0 ? 0 : 1];
          // Where two names have one inode, what AIDE takes for moved depends on the order in which it comes to them.
          const follows = /\+I\b/.test(text);
          // So it does where a name that was moved away is another file's by now, without a difference.
          const isMadeAgain = (one: Step, moved: Step): boolean =>
            moved.do === 'move' &&
            [one.path, ...('to' in one ? [one.to] : [])].some((path) =>
              `${path}/`.startsWith(`${moved.path}/`),
            );
          // AIDE reports the capabilities of a link's target, which are not the link's.
          const hasCapabilities = /caps|[LX]|R-/.test(text);
          const usable = (steps: readonly Step[]): readonly Step[] =>
            steps
              // 0.19 does not look at names that are no UTF-8.
              .filter((one) => aideDialect === '0.18' || !/[ÿþ]/.test(JSON.stringify(one)))
              .filter((one) => !follows || (one.do !== 'hardlink' && one.do !== 'special'))
              .filter(
                (one, at, all) => !follows || !all.slice(0, at).some((moved) => isMadeAgain(one, moved)),
              )
              .map((one) => (hasCapabilities && one.do === 'symlink' ? { ...one, to: `no/${one.to}` } : one));
          const config = `root_prefix=${maker.root}\n${text}`;
          maker.build(usable(build));
          // Ours first: it leaves the access times of directories alone.
          const [stream = []] = scanner.scan([ours], { signal });
          const seen = await collect(stream);
          runAide(directory, '--init', config);
          renameSync(join(directory, 'out'), join(directory, 'in'));
          const read = await collect(sortEntries(readAideDatabase(join(directory, 'in'))));
          assert.deepEqual(seen.filter(isEntry).map(comparable), read.map(comparable));
          assert.equal(seen.length, read.length, 'there is no problem');
          entries += seen.length;

          maker.change(usable(change));
          const [now = []] = scanner.scan([ours], { signal });
          const compared = new Comparison({
            old: [read],
            now,
            oldAttributes: -1,
            digestStart: (entry, bytes) => scanner.digestStart(entry, bytes, signal),
          });
          const report = await collectReport({
            differences: compared,
            totals: compared.totals,
            options: defaultReportOptions,
          });
          const { stdout } = runAide(
            directory,
            '--check',
            `report_format=json\nreport_url=stdout\n${config}`,
          );
          const theirs = parseAideReport(stdout);
          assert.deepEqual(
            report.changes.map((one) => `${one.kind} ${one.path}`),
            theirs.changes.map((one) => `${one.kind} ${one.path}`),
          );
          differences += report.changes.length;
        },
      ),
      { numRuns: 120, verbose: 1 },
    );
  } finally {
    for (const scanner of scanners) await scanner[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  }
  t.diagnostic(`${runs} cases, ${entries} entries, ${differences} differences`);
  assertReached(entries > runs * 2 && differences > runs / 2, 'too few of the cases say something');
});
