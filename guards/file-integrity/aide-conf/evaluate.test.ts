import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { RampartError } from '../../../lib/errors/errors.ts';
import { describeAttributes } from '../model/attributes.ts';
import { noEnvironment, type AideConf, type ConfEnvironment } from './conf.ts';
import { readAideConf, tryAideConf } from './evaluate.ts';
import { describeProblem, ProblemList } from './source.ts';

const files = (content: Readonly<Record<string, string | Uint8Array>>): ConfEnvironment => ({
  hostname: 'node-1',
  reportsIncluded: true,
  exists: (path) => path in content,
  readFile: (path) => {
    const found = content[path];
    if (found === undefined) throw new Error('no such file');
    return found;
  },
  readDirectory: (path) => {
    const inside = Object.keys(content).filter((file) => file.startsWith(`${path}/`));
    if (inside.length === 0) throw new Error('no such directory');
    return inside.map((file) => file.slice(path.length + 1)).filter((name) => !name.includes('/'));
  },
});

/** `kind pattern types attributes @file:line` of each rule. */
function rulesOf(conf: AideConf): string[] {
  return conf.rules.map(({ kind, pattern, types, attributes, at }) =>
    [
      kind,
      pattern,
      [...(types ?? [])].join(','),
      describeAttributes(attributes),
      `@${at.source.file}:${at.line}`,
    ]
      .filter((part) => part !== '')
      .join(' '),
  );
}

const read = (text: string, environment: ConfEnvironment = files({})): AideConf =>
  readAideConf('c', text, environment);

function problemsOf(text: string | Uint8Array, environment = files({})): string[] {
  const problems = new ProblemList();
  tryAideConf('c', text, environment, problems);
  return problems.problems.map((problem) => `${problem.severity}: ${describeProblem(problem)}`);
}

suite('what is read', () => {
  const cases: readonly (readonly [text: string, rules: readonly string[]])[] = [
    ['/a p', ['regular /a p @c:1']],
    ['\n# c\n  =/a/ f, d\tp+u', ['equals /a/ f,d p+u @c:3']],
    ['!/a\n!/b d', ['negative /a @c:1', 'negative /b d @c:2']],
    ['/a 0 p', ['regular /a p @c:1']],
    ['/a p+u+g-u+s', ['regular /a p+g+s @c:1']],
    ['/a p-u+u', ['regular /a p+u @c:1']],
    ['G=p\nG=G+u\n/a G\nG=s\n/b G', ['regular /a p+u @c:3', 'regular /b s @c:5']],
    ['/a E', ['regular /a @c:1']],
    ['/a md5', ['regular /a sha256 @c:1']],
    ['/a md5+sha512', ['regular /a sha512 @c:1']],
    ['/a sha256+md5-md5', ['regular /a sha256 @c:1']],
    ['/a R-md5-L', ['regular /a s+m+c @c:1']],
    ['/a H', ['regular /a sha256+sha512 @c:1']],
    ['@@define A b\\ c\n/@@{A}/@@{B}@@{HOSTNAME} p', ['regular /b c/node-1 p @c:2']],
    ['@@define A b\n@@undef A\n/x@@{A} p', ['regular /x p @c:3']],
    [String.raw`/a\\.b\@\ \.c p`, [String.raw`regular /a\.b@ \.c p @c:1`]],
    ['/é p', ['regular /\u00c3\u00a9 p @c:1']],
    ['@@if defined A\n/a p\n@@else\n/b p\n@@endif', ['regular /b p @c:4']],
    ['@@ifndef A\n@@if not hostname node-2\n/a p\n@@endif\n@@endif', ['regular /a p @c:3']],
    ['@@if exists /f\n/a p\n@@endif\n@@if exists /g\n/b p\n@@endif', ['regular /a p @c:2']],
    ['-/a\n!/b\n/ p', ['prune /a @c:1', 'negative /b @c:2', 'regular / p @c:3']],
    ['@@if 0.18 version_ge 0.19\n/a p\n@@else\n/b p\n@@endif', ['regular /b p @c:4']],
    ['@@if @@{AIDE_VERSION} version_ge 0.18.3\n/a p\n@@endif', ['regular /a p @c:2']],
    ['@@include /d', ['regular /in p @/d:1']],
    [
      '@@include /inc \\.conf$ /pre',
      ['negative /pre/two @/inc/a.conf:1', 'regular /pre/one p @/inc/b.conf:1'],
    ],
    ['@@include /nested . /p/', ['regular /p/q/deep p @/nested2/x:1']],
  ];
  const environment = files({
    '/f': '',
    '/d': '/in p',
    '/inc/b.conf': '/one p\n',
    '/inc/a.conf': '!/two\n',
    '/inc/other': '/three p\n',
    '/nested/x': '@@include /nested2 x /q\n',
    '/nested2/x': '/deep p\n',
  });
  for (const [text, rules] of cases) {
    test(JSON.stringify(text), () => assert.deepEqual(rulesOf(read(text, environment)), rules));
  }
});

test('options: the one that counts, attributes, the root prefix, URLs of reports', () => {
  const conf = read(
    'root_prefix=/host/\nroot_prefix=/other\ngzip_dbout=no\ngzip_dbout=yes\nreport_url=stdout\nreport_url=file:/r\n' +
      'report_ignore_changed_attrs=b+md5\ndatabase_attrs=md5\ndatabase=file:/x',
  );
  assert.equal(conf.rootPrefix, '/host');
  assert.equal(conf.options.get('gzip_dbout')?.value, 'yes');
  assert.equal(conf.options.get('database_in')?.value, 'file:/x');
  assert.deepEqual(
    conf.reportUrls.map(({ value }) => value),
    ['stdout', 'file:/r'],
  );
  // To ignore md5 must not become to ignore sha256.
  assert.equal(describeAttributes(conf.attributeOptions.get('report_ignore_changed_attrs') ?? 0), 'b');
  assert.equal(describeAttributes(conf.attributeOptions.get('database_attrs') ?? 0), 'sha256');
});

test('bytes that are not UTF-8 are unchanged', () => {
  assert.deepEqual(rulesOf(readAideConf('c', Buffer.from('/a\xff p\n', 'latin1'), noEnvironment)), [
    'regular /a\xff p @c:1',
  ]);
  assert.deepEqual(rulesOf(readAideConf('c', Buffer.from('/é p\n'), noEnvironment)), [
    'regular /\xc3\xa9 p @c:1',
  ]);
});

suite('what is told', () => {
  const cases: readonly (readonly [text: string, ...problems: readonly RegExp[]])[] = [
    [
      'verbose=5',
      /^error: c:1:1: AIDE no longer has the option 'verbose' \(line 'verbose=5'\)\. Write 'log_level' and/,
    ],
    ['ignore_list=p', /no longer has.*report_ignore_added_attrs/],
    ['\n foo=1', /^error: c:2:2: unknown option 'foo' \(line 'foo=1'\)\. See aide\.conf\(5\)/],
    ['/a nosuch', /^error: c:1:4: group 'nosuch' is not defined/],
    ['/a q p', /'q' is not a file type.*Write f, d, l/],
    ['/a D p', /file type 'D' exists only on Solaris/],
    ['/a p # why', /line of its own/],
    ['!/a f p', /unexpected 'p'.*no attributes/],
    ['/a d=tmpfs p', /file system 'tmpfs'.*provider 'aide'/],
    ['/a(?=b) p', /^error: c:1:1: the rule has a look-ahead at character 3 .*provider 'aide'/],
    ['/a( p', /not a regular expression: missing closing parenthesis/],
    ['/a///b p', /two slashes/],
    ['/a//b p', /^warning: .*no path matches/],
    ['@@if defined X\n/a p', /^error: c:1:1: @@if has no @@endif/],
    ['@@endif', /@@endif without @@if/],
    ['@@if X\n/a p\n@@endif', /this is not a condition.*Write not, defined/],
    ['@@nonsense', /unknown macro '@@nonsense'/],
    ['= /a p', /Remove the blank/],
    ['\ufeff/a p\n', /^error: c:1:1: the file starts with a byte order mark.*without one/],
    ['/a\0b p', /unexpected NUL/],
    ['@@include /no', /cannot read \/no: no such file/],
    ['@@include /inc ^a\\.conf$', /^error: c:1:11: cannot read \/inc\/a\.conf: there is no such file/],
    ['@@if exists /inc/a\n@@include /inc ^a$\n@@endif\n@@include /inc a'],
    ['@@include /no .', /cannot read the directory \/no/],
    ['@@include /no [', /the pattern is not a regular expression/],
    ['@@include /no . a', /does not start with \//],
    ['@@x_include /no', /runs programs as root, which is not allowed/],
    ['@@include /loop', /^error: \/loop:1:1: more than 16 nested includes/],
    ['@@include /dir .', /more than 16 nested includes|more than 10000 included files/],
    ['gzip_dbout=1', /'1' is not a boolean/],
    ['num_workers=101%', /not a number of workers/],
    ['report_level=x', /'x' is not one of minimal, summary/],
    ['database_in=stdout', /'stdout' cannot be used here, only stdin/],
    ['database_in=gopher:x', /not a URL that AIDE supports/],
    ['report_url=file://else/x', /another host/],
    ['report_url=file://else', /has no path/],
    ['database_attrs=p', /accepts only checksums/],
    ['database=file:/x', /^warning: c:1:1: 'database' is deprecated.*Write 'database_in'/],
    ['database=file:/x\n-/a', /^error: c:1:1: AIDE 0\.19 no longer has the option 'database'/],
    ['num_workers=1\nnum_workers=2', /^warning: c:2:1: .*already set/],
    ['@@ifdef X\n/a p\n@@endif', /^warning: .*deprecated.*'@@if defined'/],
    ['@@if defined X\n@@endif', /^warning: .*branch.*empty/],
    ['A_B=p', /^warning: .*special characters/],
    ['/a md5', /^warning: c:1:4: FIPS 140-3 does not approve 'md5': sha256 is used/],
    ['/a sha3_256', /^warning: .*not calculated here/],
    ['/a fstype', /^warning: .*not compared here/],
    ['/a S', /^warning: .*growing\+s/],
    ['/a p+compressed', /^warning: .*no effect without a checksum/],
    [`/a${'b'.repeat(70_000)} p`, /longer than 65536/],
    ['verbose=5\n/a nosuch\n/b(', /verbose/, /group 'nosuch'|the line ends/, /the line ends|nosuch/],
  ];
  const environment = files({
    '/inc/b': '/b p\n',
    '/loop': '@@include /loop\n',
    '/dir/a': '@@include /dir .\n',
    '/dir/b': '@@include /dir .\n',
  });
  for (const [text, ...expected] of cases) {
    test(JSON.stringify(text.slice(0, 60)), () => {
      const problems = problemsOf(text, environment);
      for (const problem of expected)
        assert.ok(
          problems.some((each) => problem.test(each)),
          problems.join('\n'),
        );
      if (!text.includes('/dir')) assert.equal(problems.length, expected.length, problems.join('\n'));
    });
  }
  test('the first 20 errors and how many more', () => {
    const text = Array.from({ length: 50 }, (_, at) => `/x${at} nosuch`).join('\n');
    assert.throws(
      () => read(text),
      (error) =>
        error instanceof RampartError &&
        error.code === 'RAMPART_INPUT' &&
        error.message.startsWith("cannot use the configuration c: c:1:5: group 'nosuch' is not defined") &&
        error.detail?.split('\n').length === 19,
    );
  });
  test('executes commands if allowed, with their environment', () => {
    const execute = (path: string, variables: ReadonlyMap<string, string>): string =>
      `/${path.slice(1)}-${[...variables].join('=')} p`;
    const conf = read('@@x_include_setenv A b\n@@x_include /prog', { ...files({}), execute });
    assert.deepEqual(rulesOf(conf), ['regular /prog-A,b p @/prog:1']);
  });
  test('an asked dialect is kept', () => {
    assert.match(problemsOf('-/a', { ...files({}), dialect: '0.18' }).join(), /requires AIDE 0\.19/);
    assert.equal(read('/a R', { ...files({}), dialect: '0.19' }).dialect, '0.19');
  });
});
