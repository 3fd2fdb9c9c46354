/** Configurations of jobs, led to where the files are: as text, and by what the real AIDE selects with them. */
import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { convertAideConf } from '../aide-conf/convert.ts';
import { withoutAide } from '../aide.fixture.ts';
import { patience, TestHost } from './job.fixture.ts';
import { leadAideConf } from './lead-conf.ts';
import { AideProvider } from './provider.ts';

function led(
  text: string,
  directory: string,
  prefix = '/hostroot',
  dialect: '0.18' | '0.19' = '0.18',
): string {
  return leadAideConf('aide.conf', text, { directory, prefix }, dialect).text.replace(/\n$/, '');
}

test('rules lead to the directory, and lines stay where they are', () => {
  const conf = [
    '@@define DBDIR /hostroot/etc/kubernetes',
    'database_in=file:@@{DBDIR}/aide.db.gz',
    'report_url=stdout',
    '@@if exists /hostroot/etc/x',
    '=/hostroot/etc$ d p',
    '@@endif',
    '!/hostroot/etc/(.*/)?x$',
    '/hostroot$ d p',
    '/hostroot(/a|/b) p',
    '/hostroot/ p',
    '/hostroot/.* p',
    '/hostroot@@{DBDIR}/x p',
    '@@include /hostroot/etc/aide.d ^x$ /hostroot',
  ];
  assert.deepEqual(led(conf.join('\n'), '/hostroot').split('\n'), [conf[0], ...['#', '#'], ...conf.slice(3)]);
  assert.deepEqual(led(conf.join('\n'), '/mnt/a.b/').split('\n'), [
    ...[conf[0], '#', '#', '@@if exists /mnt/a.b/etc/x', '=/mnt/a\\\\.b/etc$ d p', '@@endif'],
    ...['!/mnt/a\\\\.b/etc/(.*/)?x$', '/mnt/a\\\\.b$ d p', '/mnt/a\\\\.b(/a|/b) p', '/mnt/a\\\\.b/ p'],
    ...['/mnt/a\\\\.b/.* p', '/mnt/a\\\\.b@@{DBDIR}/x p', '@@include /mnt/a.b/etc/aide.d ^x$ /mnt/a\\\\.b'],
  ]);
  assert.deepEqual(led(conf.join('\n'), '/').split('\n'), [
    ...[conf[0], '#', '#', '@@if exists /etc/x', '=/etc$ d p', '@@endif'],
    ...['!/etc/(.*/)?x$', '/$ d p', '/?(/a|/b) p', '/(?=.) p'],
    ...['/(?=.).* p', '@@{DBDIR}/x p', '@@include /etc/aide.d ^x$'],
  ]);
});

test('0.19 also leaves out the directories that 0.18 leaves out entirely', () => {
  const conf = ['!/hostroot/a', ' !/hostroot/b 0', '!/hostroot/c f', '/hostroot p'];
  assert.deepEqual(led(conf.join('\n'), '/mnt').split('\n'), [
    '!/mnt/a',
    ' !/mnt/b 0',
    '!/mnt/c f',
    '/mnt p',
  ]);
  assert.deepEqual(led(conf.join('\n'), '/mnt', '/hostroot', '0.19').split('\n'), [
    ...['-/mnt/a', ' -/mnt/b 0', '!/mnt/c f', '/mnt p'],
  ]);
  // One that was written for 0.19 means what it says.
  const written = [...conf, '-/hostroot/d'].join('\n');
  assert.equal(led(written, '/hostroot', '/hostroot', '0.19'), written);
  assert.equal(led('!/etc/x', '/mnt', '', '0.19'), '-/etc/x');
});

test("refuses paths outside the host's root", () => {
  for (const line of [
    '/etc p',
    '!/hostroot2/etc',
    '@@include /etc/aide.d',
    '@@include /hostroot/etc/aide.d/x',
    '@@include /hostroot/etc/aide.d ^x$',
    '@@x_include /hostroot/etc/aide.d/x',
    '@@if exists /etc/x\n@@endif',
    'root_prefix=/mnt',
  ]) {
    assert.throws(() => led(`# one\n${line}\n`, '/hostroot'), /aide\.conf:2:/, line);
  }
});

test('a file that is included and not there is an error, though AIDE would pass over it', () => {
  using host = new TestHost();
  host.write('etc/aide.d/other', '/a p\n');
  const of = (conf: string): string => led(convertAideConf('aide.conf', conf).text, host.root);
  assert.throws(() => of('/a p\n@@include /etc/aide.d/x'), /aide\.conf:2:11: cannot read .*\/x: there is no/);
  assert.match(of('@@if exists /etc/aide.d/x\n@@include /etc/aide.d/x\n@@endif'), /\^x\$/);
  assert.match(of('@@include /etc/aide.d/other'), /\^other\$/);
});

test('refuses to include host files other than configurations of AIDE', () => {
  using host = new TestHost();
  host.write('etc/shadow', 'root:$6$hunter2\n');
  host.write('etc/aide.d/x', '/a p\n');
  for (const [line, why] of [
    ['@@include /hostroot/etc ^shadow$ /hostroot', /only files of AIDE's configuration/],
    // AIDE asks the pod for its name, and would take the branch.
    ['@@if hostname elsewhere\n@@include /hostroot/etc ^shadow$ /hostroot\n@@endif', /only files of AIDE's/],
    ['@@include /hostroot/etc/aide.d/.. ^shadow$ /hostroot', /only files of AIDE's configuration/],
    ['@@define D /etc\n@@include /hostroot@@{D} ^shadow$ /hostroot', /known to AIDE alone/],
    // However much else there is that only AIDE understands.
    [
      `${'/hostroot/a(?=b) p\n'.repeat(30)}@@include /hostroot/etc ^shadow$ /hostroot`,
      /only files of AIDE's/,
    ],
    // A line that we do not understand may have a meaning for AIDE.
    ['@@include /hostroot/etc ^shadow$ /hostroot more', /unexpected 'more'/],
    ['report_url=file:/hostroot/etc/cron.d/x more', /unexpected 'more'/],
  ] as const) {
    assert.throws(
      () => led(`${line}\n`, host.root),
      (error: Error) => why.test(error.message) && !error.message.includes('hunter2'),
      line,
    );
  }
  assert.match(led('@@include /hostroot/etc/aide.d ^x$ /hostroot', host.root), /etc\/aide\.d \^x\$/);
});

test('AIDE has no line of an included file in what it says', { skip: withoutAide }, async () => {
  using host = new TestHost();
  host.write('etc/aide.d/x', 'hunter2 = f(x)\n');
  host.write('etc/aide.d/y', '@@define Y hunter2\n');
  const failure = async (text: string): Promise<string> => {
    const run = new AideProvider().init(host.job(text), patience());
    const error: unknown = await run.then(
      () => assert.fail('it took it'),
      (cause: unknown) => cause,
    );
    return (error as Error).message;
  };
  const included = await failure('/hostroot p\n@@include /hostroot/etc/aide.d ^x$ /hostroot\n');
  assert.match(included, /etc\/aide\.d\/x:1: the line cannot be used/);
  assert.doesNotMatch(included, /hunter2/);
  const text = '@@include /hostroot/etc/aide.d ^y$ /hostroot\n/hostroot p\n/hostroot/a[@@{Y} p\n';
  const macro = await failure(text);
  assert.match(macro, /aide\.conf:3/);
  assert.doesNotMatch(macro, /hunter2/);
  assert.match(await failure('/hostroot Foo:bar\n'), /unexpected character.*Foo:bar/);
});

test('paths of AIDE and of the job', () => {
  const conf = '/hostroot/etc p\n';
  for (const [directory, prefix, text, aide, job] of [
    ['/mnt/x', '/hostroot', conf, '/mnt/x/etc', '/hostroot/etc'],
    ['/mnt/x', '/hostroot', conf, '/mnt/x', '/hostroot'],
    ['/', '/hostroot', conf, '/etc', '/hostroot/etc'],
    ['/', '/hostroot', conf, '/', '/hostroot'],
    ['/hostroot', '/hostroot', conf, '/hostroot/etc', '/hostroot/etc'],
    ['/mnt/x', '', '/etc p\n', '/etc', '/etc'],
    ['/', '', '/etc p\n', '/', '/'],
    ['/mnt/x', '/hostroot', 'root_prefix=/hostroot/y\n/etc p\n', '/etc', '/hostroot/y/etc'],
    ['/mnt/x', '/hostroot', 'root_prefix=/hostroot/y\n/etc p\n', '/', '/hostroot/y'],
  ] as const) {
    const { toJob, toAide } = leadAideConf('aide.conf', text, { directory, prefix }, '0.18');
    assert.equal(toJob(aide), job);
    assert.equal(toAide(job), aide);
  }
});

/** The files under the root that a configuration selects, by the provider with the real AIDE. */
async function selected(
  host: TestHost,
  text: string,
  root: { directory: string; prefix: string },
): Promise<string[]> {
  const job = host.job(text, { root });
  const provider = new AideProvider();
  await provider.init(job, patience());
  const log = fs.readFileSync(join(job.directory, 'aide.baseline'), 'utf8').split('\n')[0] ?? '';
  assert.ok((JSON.parse(log) as { entries: number }).entries > 0);
  // Every file has another owner now, so every selected file is reported, except those with only a checksum.
  for (const path of fs.readdirSync(host.root, { recursive: true, encoding: 'utf8' }).concat('')) {
    fs.chmodSync(host.at(path), 0o711);
  }
  const { report } = await provider.check(job, patience());
  for (const path of fs.readdirSync(host.root, { recursive: true, encoding: 'utf8' }).concat('')) {
    fs.chmodSync(host.at(path), 0o755);
  }
  return report.changes.map(({ path }) => path.slice(root.prefix.length));
}

test(
  `the same files are selected wherever they are (RAMPART_TEST_SEED=${seed})`,
  { skip: withoutAide },
  async () => {
    using host = new TestHost();
    for (const file of [
      'etc/passwd',
      'etc/x.conf',
      'etc/sub/y',
      'usr/bin/tool',
      'opt/a/b/c',
      'etc/aide.d/more',
    ])
      host.write(file, file === 'etc/aide.d/more' ? '/opt/a/b p\n' : 'x');
    for (const path of fs.readdirSync(host.root, { recursive: true, encoding: 'utf8' }).concat(''))
      fs.chmodSync(host.at(path), 0o755);
    const confs = [
      '/ p',
      '/$ d p\n/etc p',
      '/etc d p\n/usr/(bin|lib)/ p',
      '!/etc/sub\n/etc p\n=/usr/ p',
      '!/.*\\\\.conf$\n/.* p',
      '=/etc p\n/opt/a$ p',
      '@@if exists /etc/passwd\n/usr p\n@@else\n/opt p\n@@endif',
      '@@include /etc/aide.d/more\n/usr/bin p',
    ];
    for (const conf of sampled(confs, 1)) {
      const converted = convertAideConf('aide.conf', conf).text;
      const here = await selected(host, converted, { directory: host.root, prefix: '/hostroot' });
      const bare = conf.includes('include')
        ? here
        : await selected(host, `${conf}\n`, { directory: host.root, prefix: '' });
      // Only the root itself is no file below a mount.
      assert.deepEqual(
        here.filter((path) => path !== ''),
        bare.filter((path) => path !== '/'),
        conf,
      );
      assert.ok(here.length > 0, conf);
      // A configuration of AIDE is where it is on the root itself.
      if (conf.includes('include')) continue;
      // As in the pod: they are where the configuration says.
      const mounted = convertAideConf('aide.conf', conf, { hostRoot: host.root }).text;
      assert.deepEqual(
        await selected(host, mounted, { directory: host.root, prefix: host.root }),
        here,
        conf,
      );
      if (process.getuid?.() !== 0) continue;
      // As in standalone mode: the machine itself, called /hostroot.
      const inRoot = await selected(
        host,
        convertAideConf('aide.conf', conf.replaceAll(/(^|[!=]|exists |include )\//gm, `$1${host.root}/`))
          .text,
        { directory: '/', prefix: '/hostroot' },
      );
      if (!/^[!=]?\/(\$|\.| )|include/m.test(conf))
        assert.deepEqual(
          inRoot.map((path) => path.slice(host.root.length)),
          here,
          conf,
        );
    }
  },
);
