/** Errors of AIDE are errors here, and vice versa; differences are listed here. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

import { aideDialect, askAide, withoutAide } from '../aide.fixture.ts';
import { noEnvironment } from './conf.ts';
import { tryAideConf } from './evaluate.ts';
import { describeProblem, ProblemList } from './source.ts';

const temporary = mkdtempSync(join(tmpdir(), 'aide-agrees-'));
after(() => rmSync(temporary, { recursive: true, force: true }));

const right = [
  ...[
    '/x p',
    '  /x   p  ',
    '\t=/x\tp',
    '/x f p',
    '/x f,d p',
    '/x f , d p',
    '/x 0 p',
    '/x 0,f p',
    '!/x',
    '!/x f',
    '!/x 0',
    '!/x p',
  ],
  ...[
    '/x p+u-g + R',
    '/x >',
    '/x E',
    '/x p\r',
    '# comment',
    '  # comment',
    '/x#y p',
    '/x"y p',
    '/x@y p',
    '/x@@y p',
    '/x@@{Y p',
  ],
  ...[
    'FooB = p\n/x FooB',
    'fooB=p',
    '9a = p\n/x 9a',
    'foo1=p',
    'Foo_bar = p\n/x Foo_bar',
    'sha256 = u',
    'f%o=p',
  ],
  ...['@@define X', '@@define X a\n/@@{X} p', '@@define 9 a', '@@define X a#b', '@@undef X', '/x@@{NOPE}y p'],
  ...[
    '@@define X a\\ b\n/@@{X} p',
    '/x\\\\.y\\@\\ \\d p',
    '/x%20y p',
    '/x[[:alpha:]]+ p',
    '/x(?:^)* p',
    '/é\\.x p',
    '/x,y;z~!^|` p',
  ],
  ...[
    '@@if defined X\n/x p\n@@endif',
    '@@if not not defined X\n/x p\n@@else\n/y p\n@@endif',
    '@@if exists /etc\n/x p\n@@endif',
  ],
  ...[
    '@@if\thostname\tvm\n/x p\n@@endif',
    '@@ifdef X-Y\n/x p\n@@endif',
    '@@ifndef X\n/x p\n@@endif',
    '@@ifhost a.b\n/x p\n@@endif',
  ],
  ...['@@ifnhost a\n/x p\n@@endif', '@@if defined X\n/x nosuch\n@@endif', '@@if defined X\n/(x p\n@@endif'],
  ...[
    'database=file:/x',
    'database_in = file:/x',
    'database_in=stdin',
    'database_out=fd:3',
    'database_new=file:/x',
    'grouped=yes',
  ],
  ...[
    'summarize_changes=no',
    'gzip_dbout = yes ',
    'num_workers=4',
    'num_workers=0',
    'num_workers=50%',
    'num_workers=100%',
  ],
  ...['report_url=stdout\nreport_url=syslog:LOG_AUTH\nreport_url=fd:1', 'report_url=file:///a'],
  ...[
    'report_level=minimal',
    'report_format=json',
    'log_level=debug',
    'config_version=a',
    'root_prefix=/a/',
    'root_prefix=a',
  ],
  ...[
    'database_attrs=sha256+md5',
    'database_attrs=E',
    'report_force_attrs=p+sha1',
    'report_ignore_e2fsattrs=VNIE',
  ],
  ...[
    'report_ignore_e2fsattrs=0',
    'warn_dead_symlinks=yes\nacl_no_symlink_follow=true',
    'report_append=false',
    '/a//b p',
    '//b p',
  ],
  ...[
    'config_check_warn_unrestricted_rules=true\n/x p',
    '@@x_include_setenv A b',
    '',
    '\n\n',
    '/x md5+stribog256',
    '/x H+S+compressed',
  ],
  ...[
    'report_quiet=true',
    'report_base16=no',
    'report_detailed_init=yes',
    'report_grouped=no',
    'report_summarize_changes=no',
  ],
  ...[
    'database_add_metadata=false',
    'report_ignore_added_attrs=p',
    'report_ignore_removed_attrs=R',
    'report_ignore_changed_attrs=b',
  ],
];

const wrong = [
  ...[
    'foo=bar',
    'foo = p',
    'foo_bar = p',
    'p = u',
    'verbose=5',
    'ignore_list=p',
    'report_attributes=p',
    'recstop=x',
    'other',
    'x p',
  ],
  ...['/x^* p', '/x$? p', '/x\\b+ p', '/x^{2} p'],
  ...[
    '/x',
    '=/x',
    '/x p+',
    '/x +p',
    '/x p+u f',
    '/x f p u',
    '/x f',
    '/x q p',
    '/x f+d p',
    '/x f,D p',
    '/x p,u',
    '/x p+u,f p',
  ],
  ...[
    '!/x f p',
    '!/y f,',
    '=/x p #comment',
    '/x p # comment',
    '-/x',
    ' ! /x',
    '= /x p',
    'Foo-bar = p',
    'Fo.o = p',
    '> = p',
  ],
  ...[
    'G=',
    'G=p+',
    'G p',
    'G = p u',
    'G = nosuch',
    '/x nosuch',
    '@@define',
    '@@define X a b',
    '@@define X-Y a b',
    '@@undef X Y',
  ],
  ...[
    '@@{X}',
    '@@{X} p',
    '/a @@{X}',
    'G = @@{X}',
    '@@foo',
    '@@ define X a',
    '@@if',
    '@@if not',
    '@@if X\n/x p\n@@endif',
  ],
  ...[
    '@@if (defined X)\n/x p\n@@endif',
    '@@if defined X Y\n/x p\n@@endif',
    '@@if defined X\n/x p',
    '@@else',
    '@@endif',
    '@@else x',
  ],
  ...[
    '@@if defined X\n/x p\n@@else\n/y p\n@@else\n/z p\n@@endif',
    '@@if defined X\nfoo=2\n@@endif',
    '@@include',
    '@@include a b c d',
  ],
  ...[
    '@@include /nowhere/at/all',
    '@@include /',
    '@@include /tmp [',
    '@@include /tmp \\.none$ pre',
    '@@x_include_setenv A-B b',
  ],
  ...['/(x p', '/[x p', '/x**y p', '/*** p', '/x)y p', '/x\\1 p', '/x\\y p', '/x\\ p', '/// p', '/a///b p'],
  ...[
    'database_in=stdout',
    'database_out=stdin',
    'report_url=stdin',
    'report_url=foo',
    'report_url=file://host/a',
    'database_in = file:/x y',
  ],
  ...[
    'report_level=zz',
    'log_level=zz',
    'report_format=xml',
    'gzip_dbout=1',
    'gzip_dbout=yes#c',
    'num_workers=x',
    'num_workers=-1',
  ],
  ...[
    'num_workers=101%',
    'num_workers=1.5',
    'database_attrs=p',
    'config_version=',
    'config_version=a b',
    'root_prefix=',
  ],
];

/** Lines from above whose verdict is reversed in 0.19. */
const changed = new Set([
  ...['database=file:/x', 'grouped=yes', 'summarize_changes=no'],
  ...['foo = p', 'p = u', '-/x', '@@if defined X\nfoo=2\n@@endif'],
]);
/** Right in 0.19 alone. */
const rightIn019 = [
  ...['-/x f', '@@if 0.19.1 version_ge 0.18\n/x p\n@@endif', '/@@{AIDE_VERSION} p', 'log_level=limit'],
  ...['/x sha512_256+sha3_256+sha3_512', '/x fstype', 'foo=p\n/x foo', '/x md5+gost', '/x whirlpool+sha256'],
];
/** Refused by 0.19, for no reason or because it has no such checksum: sha256 is taken here. */
const laxerThan019 = ['/x 0,f p', '/x whirlpool', '/x tiger'];
/** Lines that AIDE refuses, or accepts, without a reason. */
const stricter = ['@@define X-Y a', '@@defineX a', '@@ifdefined', '/x(?=y) p', '/x(?<=a)y p'];
const laxer = [
  'report_url=file://localhost/a',
  '@@if defined X\n@@endif',
  '@@if defined X\n/x p\n@@else\n# nothing\n@@endif',
];

function ours(text: string): readonly string[] {
  const problems = new ProblemList();
  const environment = { ...noEnvironment, hostname: 'this-host', dialect: aideDialect };
  tryAideConf('aide.conf', `${text}\n`, environment, problems);
  return problems.problems.filter(({ severity }) => severity === 'error').map(describeProblem);
}

suite('AIDE agrees', { skip: withoutAide }, () => {
  const isNew = aideDialect === '0.19';
  const laxly = new Set(isNew ? laxerThan019 : []);
  const all = [
    ...right.map((text) => [text, !(isNew && changed.has(text))] as const),
    ...wrong.map((text) => [text, isNew && changed.has(text)] as const),
    ...(isNew ? rightIn019.map((text) => [text, true] as const) : []),
  ].filter(([text]) => !laxly.has(text));
  for (const isRight of [true, false]) {
    const some = all.filter(([, expected]) => expected === isRight).map(([text]) => text);
    test(`on ${some.length} that are ${isRight ? 'right' : 'wrong'}`, () => {
      for (const text of some) {
        if (isRight) assert.deepEqual(ours(text), [], text);
        else assert.notDeepEqual(ours(text), [], text);
        const { status, messages } = askAide(temporary, '', text, ['--config-check']);
        assert.equal(status, isRight ? 0 : 17, `${text}\n${messages}`);
      }
    });
  }
  test('but for some', () => {
    for (const text of stricter) assert.notDeepEqual(ours(text), [], text);
    for (const text of [...laxer, ...laxly]) assert.deepEqual(ours(text), [], text);
    for (const text of laxly) assert.equal(askAide(temporary, '', text, ['--config-check']).status, 17, text);
  });
});
