import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { askAide, withoutAide } from '../aide.fixture.ts';
import { describeAttributes, setOf } from '../model/attributes.ts';
import { Selection } from './selection.ts';
import { noEnvironment } from './conf.ts';
import { convertAideConf } from './convert.ts';
import { defaultAideConf } from './default-conf.ts';
import { readAideConf } from './evaluate.ts';

const temporary = mkdtempSync(join(tmpdir(), 'aide-default-'));
after(() => rmSync(temporary, { recursive: true, force: true }));

/** Files of Debian, Ubuntu, RHEL, RHCOS and Talos; `+` content, `o` owner and mode, `-` excluded. */
const files: readonly (readonly [verdict: '+' | 'o' | '-', path: string])[] = [
  ...[
    '/boot/vmlinuz-6.1.0',
    '/boot/grub/grub.cfg',
    '/boot/loader/entries/ostree.conf',
    '/boot/efi/EFI/BOOT/BOOTX64.EFI',
  ],
  ...[
    '/usr/bin/kubelet',
    '/usr/local/bin/kubelet',
    '/usr/lib/x86_64-linux-gnu/libc.so.6',
    '/usr/lib64/libc.so.6',
  ],
  ...[
    '/usr/lib/systemd/system/kubelet.service',
    '/usr/lib/modules/6.1.0/kernel/fs/ext4.ko',
    '/bin/ls',
    '/lib64/ld.so',
    '/sbin/init',
  ],
  ...[
    '/opt/cni/bin/bridge',
    '/opt/bin/kubectl',
    '/etc/passwd',
    '/etc/shadow',
    '/etc/ssh/sshd_config',
    '/etc/sudoers.d/x',
    '/etc/resolv.conf',
  ],
  ...[
    '/etc/kubernetes/manifests/kube-apiserver.yaml',
    '/etc/kubernetes/kubelet.conf',
    '/etc/kubernetes/pki/ca.crt',
  ],
  ...[
    '/etc/systemd/system/x.service',
    '/etc/containerd/config.toml',
    '/etc/cron.d/job',
    '/var/spool/cron/root',
    '/etc/selinux/config',
  ],
  ...[
    '/var/lib/kubelet/config.yaml',
    '/var/lib/kubelet/kubeadm-flags.env',
    '/root/.ssh/authorized_keys',
    '/root/.bashrc',
    '/root/.local/bin/tool',
    '/root/.config/systemd/user/x.service',
    '/root/notes',
  ],
  ...[
    '/boot/grub2/grubenv',
    '/usr/lib/python3/__pycache__/os.pyc',
    '/etc/cni/net.d/10-calico.conflist',
    '/etc/mco/proxy.env',
    '/etc/cvo/x',
    '/etc/machine-config-daemon/noorig/x',
    '/etc/openvswitch/system-id.conf',
    '/etc/adjtime',
  ],
]
  .map((path) => ['+', path] as const)
  .concat(
    ['/root/.netrc', '/root/.bash_history', '/root/.cache/x', '/var/lib/kubelet/config.json'].map((path) => [
      'o' as '+',
      path,
    ]),
    [
      ...['/usr/src/linux/Makefile', '/etc/mtab'],
      ...[
        '/etc/hosts~',
        '/etc/openvswitch/conf.db',
        '/etc/kubernetes/aide.db.gz',
        '/etc/docker/certs.d/r/ca.crt',
      ],
      ...[
        '/etc/kubernetes/static-pod-resources/etcd/x',
        '/etc/machine-config-daemon/currentconfig',
        '/etc/selinux/targeted/policy/policy.33',
      ],
      ...[
        '/var/lib/kubelet/pods/1/volumes/x',
        '/var/log/syslog',
        '/tmp/x',
        '/home/user/x',
        '/proc/1/maps',
        '/run/x',
        '/var/lib/kubelet/pki/k.pem',
      ],
      ...['/root/.kube/cache/x', '/var/lib/containerd/x'],
    ].map((path) => ['-' as '+', path]),
  );

const checksum = setOf('sha256', 'sha512');

function verdict(selection: Selection, path: string): string {
  const found = selection.select(path, 'f');
  return found === undefined ? '-' : (found.attributes & checksum) === 0 ? 'o' : '+';
}

suite('the default configuration', () => {
  test('nothing in it is warned of, today and with 0.19', () => {
    for (const dialect of ['0.18', '0.19'] as const) {
      assert.deepEqual(readAideConf('c', defaultAideConf, { ...noEnvironment, dialect }).warnings, []);
    }
    assert.deepEqual(convertAideConf('c', defaultAideConf).warnings, []);
  });
  for (const dialect of ['0.18', '0.19'] as const) {
    test(`selects the expected files of a node (${dialect})`, () => {
      const selection = new Selection(readAideConf('c', defaultAideConf, { ...noEnvironment, dialect }));
      for (const [expected, path] of files) assert.equal(verdict(selection, path), expected, path);
      assert.equal(
        describeAttributes(selection.select('/etc', 'd')?.attributes ?? 0),
        'ftype+p+u+g+acl+selinux+xattrs+caps',
      );
      for (const path of ['/proc', '/sys', '/dev', '/home', '/var/log', '/var/lib/containerd', '/usr/src']) {
        assert.ok(!selection.descend(path), path);
      }
    });
  }
  test('the same in the host mount', () => {
    const { text } = convertAideConf('c', defaultAideConf);
    const selection = new Selection(readAideConf('c', text, noEnvironment));
    for (const [expected, path] of files)
      assert.equal(verdict(selection, `/hostroot${path}`), expected, path);
    assert.equal(verdict(selection, '/etc/passwd'), '-');
  });
  test('AIDE reads it, and selects the same', { skip: withoutAide }, () => {
    const root = join(temporary, 'root');
    for (const [, path] of files) {
      mkdirSync(join(root, dirname(path)), { recursive: true });
      writeFileSync(join(root, path), '');
    }
    const aide = askAide(temporary, root, defaultAideConf);
    assert.equal(aide.status, 0, aide.messages);
    assert.equal(aide.messages, '');
    for (const [expected, path] of files)
      assert.equal(aide.selected.has(`f:${path}`), expected !== '-', path);
  });
});

/** Facts from its config_defaults.go (1.3.6, for both versions of AIDE): two groups, and rules that are all in /hostroot already. */
const rulesOfFio = [
  ...[
    '/boot/ C',
    String.raw`/root/\..* P`,
    '/root/ C',
    String.raw`!/root/\.kube`,
    '!/usr/src/',
    '!/usr/tmp/',
  ],
  ...['/usr/ C', '!/opt/', '!/var', '!/etc/NetworkManager/system-connections/', '!/etc/mtab$', '!/etc/.*~'],
  ...['static-pod-resources', 'aide.*', 'manifests', 'kubelet-ca.crt', 'cni/net.d', 'cni/net.d/*'].map(
    (path) => `!/etc/kubernetes/${path}`,
  ),
  ...['!/etc/kubernetes/compliance-operator', '!/etc/kubernetes/node-feature-discovery'],
  ...[
    '!/etc/docker/certs.d',
    '!/etc/selinux/targeted',
    '!/etc/openvswitch/conf.db',
    '!/etc/cni/multus/certs',
  ],
  ...['!/etc/machine-config-daemon/currentconfig$', '!/etc/machine-config-daemon/node-annotation.json*'],
  ...['!/etc/pki/ca-trust/extracted/java/cacerts$', '!/etc/cvo/updatepayloads'],
  ...['!/etc/mco/internal-registry-pull-secret.json$', '/etc/ C'],
].map((rule) => rule.replace('/', '/hostroot/'));
const confOfFio = [
  ...[
    '@@define DBDIR /hostroot/etc/kubernetes',
    'database=file:@@{DBDIR}/aide.db.gz',
    'gzip_dbout=yes',
    'verbose=5',
  ],
  ...['P = p+u+g+acl+selinux+xattrs', 'C = sha512+ftype+p+u+g+n+acl+selinux+xattrs', ...rulesOfFio, ''],
].join('\n');

test('nothing is less than with the default configuration of the File Integrity Operator', () => {
  const ours = new Selection(readAideConf('c', convertAideConf('c', defaultAideConf).text, noEnvironment));
  const theirs = new Selection(readAideConf('c', convertAideConf('c', confOfFio).text, noEnvironment));
  // Each part of their rules and of ours, so that paths come near all of them.
  const words = [confOfFio, defaultAideConf]
    .flatMap((text) => text.split('\n').filter((line) => /^[!=/]/.test(line)))
    .flatMap((line) => line.replaceAll('\\', '').split(/[/ ()|$?*!]+/))
    .filter((word) => /^[\w.-]+$/.test(word));
  const part = fc.oneof(
    fc.constantFrom(...new Set([...words, '.swp', 'x', 'x~', '__pycache__', 'os.pyc', '.', 'grubenv'])),
    fc.constantFrom('etc', 'usr', 'root', 'boot', 'opt', 'var'),
  );
  const top = fc.constantFrom('etc', 'usr', 'root', 'boot', 'opt', 'bin', 'etc/kubernetes', 'root/.local');
  const path = fc
    .tuple(top, fc.array(part, { minLength: 1, maxLength: 4 }))
    .map(([first, rest]) => ['/hostroot', first, ...rest.filter((word) => word !== '.')].join('/'));
  let compared = 0;
  fc.assert(
    fc.property(path, fc.constantFrom('f' as const, 'l' as const), (file, type) => {
      const wanted = theirs.select(file, type)?.attributes;
      if (wanted === undefined) return;
      compared++;
      assert.equal(describeAttributes(wanted & ~(ours.select(file, type)?.attributes ?? 0)), '', file);
    }),
    { numRuns: 20_000, min: 2000 },
  );
  assert.ok(compared > 1000);
});

suite('the default configuration of the File Integrity Operator', () => {
  const { text } = convertAideConf('c', confOfFio);

  test('has all rules of the operator', () => {
    for (const rule of rulesOfFio) assert.ok(text.split('\n').includes(rule), rule);
    assert.match(text, /^log_level=warning\nreport_level=changed_attributes$/m);
  });
  test('it selects what it did', () => {
    const selection = new Selection(readAideConf('c', text, noEnvironment));
    const lines = text.split('\n');
    const expected: readonly (readonly [path: string, rule: string | undefined])[] = [
      ['/etc/passwd', '/hostroot/etc/ C'],
      ['/etc/mtab', undefined],
      ['/etc/mtabs', '/hostroot/etc/ C'],
      ['/etc/a/b~', undefined],
      ['/etc/kubernetes/manifests/etcd.yaml', undefined],
      ['/etc/kubernetes/kubelet.conf', '/hostroot/etc/ C'],
      ['/etc/machine-config-daemon/node-annotation.jso', undefined],
      ['/root/.bashrc', String.raw`/hostroot/root/\..* P`],
      ['/root/.kube/config', undefined],
      ['/root/x', '/hostroot/root/ C'],
      ['/usr/bin/ls', '/hostroot/usr/ C'],
      ['/usr/src/x', undefined],
      ['/var/lib/x', undefined],
      ['/opt/x', undefined],
    ];
    for (const [path, rule] of expected) {
      const line = selection.select(`/hostroot${path}`, 'f')?.rule.at.line;
      assert.equal(line === undefined ? undefined : lines[line - 1], rule, path);
    }
  });
});
