/** The cases of the File Integrity Operator (config_test.go, as facts), what it misses, and properties. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { describeAttributes } from '../model/attributes.ts';
import { noEnvironment } from './conf.ts';
import { convertAideConf } from './convert.ts';
import { tryAideConf } from './evaluate.ts';
import { ProblemList } from './source.ts';

const convert = (text: string): string => convertAideConf('c', text).text;

suite('as the File Integrity Operator', () => {
  const cases: readonly (readonly [before: string, after: string])[] = [
    ['# /etc', '# /etc'],
    ['/etc/a p', '/hostroot/etc/a p'],
    ['!/usr/a', '!/hostroot/usr/a'],
    ['/hostroot/etc p', '/hostroot/etc p'],
    [String.raw`!/hostroot/root/\.kube`, String.raw`!/hostroot/root/\.kube`],
    ['@@define DBDIR /x', '@@define DBDIR /hostroot/etc/kubernetes'],
    ['@@define LOGDIR /x', '@@define LOGDIR /hostroot/etc/kubernetes'],
    ['@@define OTHER /x', '@@define OTHER /x'],
    [
      '@@define DBDIR /x\ndatabase=file:@@{DBDIR}/a',
      '@@define DBDIR /hostroot/etc/kubernetes\ndatabase_in=file:@@{DBDIR}/aide.db.gz',
    ],
    [
      '@@define DBDIR /x\ndatabase_out=file:/a',
      '@@define DBDIR /hostroot/etc/kubernetes\ndatabase_out=file:@@{DBDIR}/aide.db.gz.new',
    ],
    [
      '@@define LOGDIR /x\nreport_url=file:/a',
      '@@define LOGDIR /hostroot/etc/kubernetes\nreport_url=file:@@{LOGDIR}/aide.log.new',
    ],
    ['report_url=stdout', 'report_url=stdout'],
    ['CONTENT_EX = p\n/a CONTENT_EX\nX=CONTENT_EX+u', 'CONTENTEX = p\n/hostroot/a CONTENTEX\nX=CONTENTEX+u'],
    ['grouped=yes\nsummarize_changes=no', 'report_grouped=yes\nreport_summarize_changes=no'],
    ['report_attributes=p', 'report_force_attrs=p'],
    ...(
      [
        [0, 'error', 'summary'],
        [1, 'warning', 'summary'],
        [4, 'warning', 'list_entries'],
        [5, 'warning', 'changed_attributes'],
        [6, 'notice', 'added_removed_attributes'],
        [10, 'notice', 'added_removed_entries'],
        [20, 'info', 'added_removed_entries'],
        [200, 'config', 'added_removed_entries'],
        [220, 'debug', 'added_removed_entries'],
        [255, 'trace', 'added_removed_entries'],
      ] as const
    ).map(
      ([verbose, log, report]) => [`verbose=${verbose}`, `log_level=${log}\nreport_level=${report}`] as const,
    ),
    ['@@ifdef X\n/a p\n@@endif', '@@if defined X\n/hostroot/a p\n@@endif'],
    ['@@ifnhost x\n/a p\n@@endif', '@@if not hostname x\n/hostroot/a p\n@@endif'],
  ];
  for (const [before, after] of cases)
    test(JSON.stringify(before), () => assert.equal(convert(before), after));
});

suite('what it misses', () => {
  const cases: readonly (readonly [before: string, after: string])[] = [
    ['=/a/ p', '=/hostroot/a/ p'],
    ['-/a', '-/hostroot/a'],
    ['  /a  f,d   p', '  /hostroot/a  f,d   p'],
    ['\t/a\tp', '\t/hostroot/a\tp'],
    ['/$ p\n/ p', '/hostroot$ p\n/hostroot/ p'],
    ['/hostrootx p\n/hostroot$ p\n/hostroot p', '/hostroot/hostrootx p\n/hostroot$ p\n/hostroot p'],
    ['database_in = file:/x', 'database_in = file:/hostroot/etc/kubernetes/aide.db.gz'],
    ['database_new=file:/x', 'database_new=file:/hostroot/x'],
    ['root_prefix=/x/\n/a p', 'root_prefix=/hostroot/x\n/a p'],
    ['@@define DBDIR', '@@define DBDIR /hostroot/etc/kubernetes'],
    ['@@if not exists /etc/x\n/a p\n@@endif', '@@if not exists /hostroot/etc/x\n/hostroot/a p\n@@endif'],
    ['@@include /etc/aide.d/a.conf', String.raw`@@include /hostroot/etc/aide.d ^a\\.conf$ /hostroot`],
    [String.raw`@@include /etc/aide.d \.conf$`, String.raw`@@include /hostroot/etc/aide.d \.conf$ /hostroot`],
    ['@@include /etc/aide.d . /pre', '@@include /hostroot/etc/aide.d . /hostroot/pre'],
    ['root_prefix=/\n@@include /etc/a', 'root_prefix=/hostroot\n@@include /hostroot/etc/a'],
    ['A_B=p\nAB=u\n/a A_B', 'AB2=p\nAB=u\n/hostroot/a AB2'],
    ['/a md5+p', '/hostroot/a sha256+p'],
    ['/a sha512+md5', '/hostroot/a sha512'],
    ['/a R', '/hostroot/a L+s+m+c+sha256'],
    ['/a sha256+md5-md5', '/hostroot/a sha256+sha256'],
    ['/a H-md5', '/hostroot/a sha256+sha512'],
    ['/a md5-md5', '/hostroot/a E'],
    ['G=md5\n/a G\n/b G-md5+sha512', 'G=sha256\n/hostroot/a G\n/hostroot/b sha512'],
    ['report_ignore_changed_attrs=md5', 'report_ignore_changed_attrs=md5'],
    ['database_attrs=md5', 'database_attrs=sha256'],
    [
      '@@if hostname a\nG=p+u\n@@else\nG=p\n@@endif\n/a R+sha512+G\n/b md5+G+sha512',
      '@@if hostname a\nG=p+u\n@@else\nG=p\n@@endif\n/hostroot/a L+s+m+c+sha512+G\n/hostroot/b G+sha512',
    ],
    ['foo = p\n-/a\n/b foo+R', 'foo = p\n-/hostroot/a\n/hostroot/b foo+L+s+m+c+sha256'],
    ['/é p\r\n\r\n', '/hostroot/é p\r\n\r\n'],
  ];
  for (const [before, after] of cases) {
    test(JSON.stringify(before), () => assert.equal(convert(before), after));
  }
  test('errors have the line and what to do', () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['\nverbose=x', /c:2:9: 'x' is not a number from 0 to 255.*log_level/],
      ['ignore_list=p', /c:1:1: .*report_ignore_added_attrs/],
      ['/a p\nother', /c:2:1: unknown option 'other'/],
      ['@@x_include /a', /c:1:1: .*runs programs as root/],
      ['@@include a', /c:1:11: .*an absolute path/],
      ['@@include /a/@@{X}', /c:1:11: .*DIRECTORY REGEX/],
    ];
    for (const [text, message] of wrong)
      assert.throws(() => convert(text), { code: 'RAMPART_INPUT', message });
  });
  test('reports parts that cannot be converted', () => {
    assert.match(
      convertAideConf('c', '/a|/b p')
        .warnings.map(({ what }) => what.text)
        .join(),
      /alternatives/,
    );
    assert.match(
      convertAideConf('c', '/a md5')
        .warnings.map(({ next }) => next)
        .join(),
      /'sha256'/,
    );
  });
  test('a path of which only the node knows where it is', () => {
    const warnings = (text: string): string =>
      convertAideConf('c', `${text}\n/a p\n@@endif`)
        .warnings.map(({ at, what }) => `${at.line}:${at.column} ${what.text}`)
        .join();
    assert.match(
      warnings('@@define ETC /etc\n@@if not exists @@{ETC}/x'),
      /^2:17 .*'@@\{ETC\}\/x' on the host/,
    );
    assert.match(warnings('@@if exists etc/x'), /'etc\/x' on the host/);
    assert.equal(warnings('@@define DBDIR /x\n@@if exists @@{DBDIR}/x'), '');
    assert.equal(warnings('@@define ROOT /hostroot\n@@if exists @@{ROOT}/etc/x'), '');
  });
  test('another root', () => {
    const { text } = convertAideConf('c', '/a p\n/mnt.x/b p', { hostRoot: '/mnt.x/' });
    assert.equal(text, String.raw`/mnt\\.x/a p` + '\n/mnt.x/b p');
  });
});

const attribute = fc.constantFrom(
  'p',
  'u',
  'sha256',
  'sha512',
  'md5',
  'sha1',
  'R',
  'L',
  'H',
  'G',
  'A_B',
  'E',
  'whirlpool',
);
const expression = fc
  .tuple(attribute, fc.array(fc.tuple(fc.constantFrom('+', '-', ' + '), attribute), { maxLength: 4 }))
  .map(([first, rest]) => first + rest.map((each) => each.join('')).join(''));
const line = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('', '  ', '\t'),
      fc.constantFrom('', '=', '!', '-'),
      fc.constantFrom(
        '/',
        '/$',
        '/etc',
        '/hostroot',
        '/hostroot/a',
        '/hostrootx',
        '/a(b|c)$',
        String.raw`/a\ b`,
      ),
      expression,
    )
    .map(
      ([blank, sigil, path, set]) =>
        `${blank}${sigil}${path}${sigil === '!' || sigil === '-' ? '' : ` ${set}`}`,
    ),
  fc.tuple(fc.constantFrom('G', 'A_B', 'MORE'), expression).map(([group, set]) => `${group} = ${set}`),
  fc.constantFrom(
    '# comment',
    '',
    '   ',
    'database=file:/x',
    'database_in = file:/x',
    'verbose=7',
    'report_url=file:/x',
    'report_url=stdout',
  ),
  fc.constantFrom(
    '@@define DBDIR /x',
    '@@define LOGDIR',
    '@@undef X',
    '@@include /a/b.c',
    '@@include /a/b x /p',
    'grouped=yes',
    'root_prefix=/q',
  ),
);
const conf = fc.array(line, { maxLength: 12 }).map((lines) => `G = p\nA_B = u+md5\n${lines.join('\n')}\n`);

test('converting twice changes nothing, and comments stay', () => {
  fc.assert(
    fc.property(conf, (text) => {
      const once = convert(text);
      assert.equal(convert(once), once);
      const comments = (of: string): string[] =>
        of.split('\n').filter((each) => each.startsWith('#') || each.trim() === '');
      assert.deepEqual(comments(once), comments(text));
    }),
    { numRuns: 2_000 },
  );
});

test('the same attributes before and after, without a checksum that is not approved', () => {
  fc.assert(
    fc.property(conf, (text) => {
      const environment = {
        ...noEnvironment,
        readFile: () => '',
        readDirectory: () => [],
        dialect: '0.18' as const,
      };
      const of = (content: string): readonly string[] => {
        const problems = new ProblemList();
        const { rules } = tryAideConf('c', content, environment, problems);
        const foreign = problems.problems.filter(({ what }) => what.text.includes('FIPS'));
        if (content !== text) assert.deepEqual(foreign, []);
        return rules.map(({ attributes }) => describeAttributes(attributes));
      };
      assert.deepEqual(of(convert(text)), of(text));
    }),
    { numRuns: 1_000 },
  );
});
