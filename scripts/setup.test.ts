import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';

/** The script's own requirements for a machine. */
const essential = ['cat', 'dirname', 'grep', 'mkdir', 'node', 'readlink', 'rm', 'sed', 'sh', 'tr'];

/** The packages for this machine and for another one, as npm writes them. */
const koffi = { version: '3.0.0', integrity: 'sha512-k' };
const forHere = { version: '1.0.0', integrity: 'sha512-h', os: ['linux'], cpu: [process.arch] };
const forElsewhere = { version: '1.0.0', integrity: 'sha512-e', os: 'darwin', cpu: 'arm64' };
const locked = {
  '': { name: 'x' },
  'node_modules/koffi': koffi,
  'node_modules/here': forHere,
  'node_modules/elsewhere': forElsewhere,
};
const installed = { 'node_modules/koffi': koffi, 'node_modules/here': forHere };

interface Machine {
  readonly packages: readonly string[];
  readonly uid: number;
  /** Commands that are there, of those that it looks for; the machine's own by default. */
  readonly commands?: readonly string[];
  /** The content of node_modules/.package-lock.json; nothing is installed without it. */
  readonly nodeModules?: object;
}

/**
 * Runs a copy of the script where dpkg-query, apt-get, npm and id are stand-ins that write down how they
 * were called: installing for real would change the machine the tests run on.
 */
function setup(t: TestContext, level: string, { packages, uid, nodeModules, commands }: Machine) {
  const root = mkdtempSync(join(tmpdir(), 'rampart-setup-'));
  t.after(() => rmSync(root, { recursive: true }));
  cpSync(join(import.meta.dirname, 'setup'), join(root, 'scripts/setup'));
  cpSync(join(import.meta.dirname, 'installed.mjs'), join(root, 'scripts/installed.mjs'));
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: locked }));
  if (nodeModules !== undefined) {
    mkdirSync(join(root, 'node_modules'));
    writeFileSync(join(root, 'node_modules/.package-lock.json'), JSON.stringify({ packages: nodeModules }));
  }
  const calls = join(root, 'calls');
  const presets = join(root, 'presets');
  const standIns: Record<string, string> = {
    'dpkg-query': `case " ${packages.join(' ')} " in *" $4 "*) printf 'installed ' ;; *) exit 1 ;; esac`,
    // With what would keep a service off while this is installed.
    'apt-get': `echo "apt-get $*" >> ${calls}; cat ${presets}/* >> ${calls} 2> /dev/null || true`,
    npm: `echo "npm $*" >> ${calls}`,
    id: `echo ${uid}`,
  };
  mkdirSync(join(root, 'bin'));
  for (const name of commands === undefined ? [] : essential)
    symlinkSync(whereIs(name), join(root, 'bin', name));
  for (const name of commands ?? []) standIns[name] = `echo "${name} $*" >> ${calls}`;
  for (const [name, body] of Object.entries(standIns)) {
    writeFileSync(join(root, 'bin', name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(root, 'bin', name), 0o755);
  }
  const { status, stdout, stderr } = spawnSync(join(root, 'scripts/setup'), [level], {
    encoding: 'utf8',
    env: {
      RAMPART_SETUP_PRESETS: presets,
      PATH: [join(root, 'bin'), ...(commands === undefined ? [process.env['PATH'] ?? ''] : [])].join(':'),
    },
  });
  const called = existsSync(calls) ? readFileSync(calls, 'utf8').trimEnd().split('\n') : [];
  return { status, stdout, stderr, called, presetsLeft: existsSync(presets) ? readdirSync(presets) : [] };
}

function whereIs(name: string): string {
  const directories = (process.env['PATH'] ?? '').split(':');
  return (
    directories.map((directory) => join(directory, name)).find((path) => existsSync(path)) ??
    assert.fail(name)
  );
}

suite('scripts/setup', () => {
  test('root: what is missing is installed, and only that', (t) => {
    const present = [
      ...['clang-14', 'lld-14', 'wasi-libc', 'libclang-rt-14-dev-wasm32', 'llvm-14', 'linux-libc-dev'],
      ...['rustc', 'libstd-rust-dev-wasm32'],
    ];
    const { status, stdout, called } = setup(t, 'check', { packages: present, uid: 0 });
    assert.equal(status, 0);
    assert.equal(called.length, 3, called.join('\n'));
    assert.match(called[0] ?? '', /^apt-get update/);
    assert.match(
      called[1] ?? '',
      /^apt-get install .*--no-install-recommends .* libbpf1 libnftables1 libbpf-dev$/,
    );
    assert.match(called[2] ?? '', /^npm ci --ignore-scripts/);
    assert.match(stdout, /^apt: installing libbpf1 libnftables1 libbpf-dev$/m);
    assert.match(stdout, /^npm: installing/m);
  });

  test('nothing missing: nothing is called, whoever asks', (t) => {
    const machine = { packages: ['libbpf1', 'libnftables1'], uid: 1000, nodeModules: installed };
    const { status, stdout, called } = setup(t, 'run', machine);
    assert.deepEqual(
      { status, stdout, called },
      { status: 0, stdout: 'apt: already there\nnpm: already there\n', called: [] },
    );
  });

  test('without root the command is named and nothing is changed', (t) => {
    const { status, stderr, called } = setup(t, 'check', {
      packages: ['clang-14', 'libbpf1', 'libnftables1'],
      uid: 1000,
    });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^ {2}sudo apt-get update && sudo apt-get install .* llvm-14 libbpf-dev linux-libc-dev$/m,
    );
    assert.deepEqual(called, []);
  });

  const forPods = 'containernetworking-plugins busybox-static iproute2 nftables util-linux mount';

  test('demo: what pods need as well, and containerd is not started as a service', (t) => {
    const machine = { packages: ['libbpf1', 'libnftables1'], uid: 0, commands: [] };
    const { status, stdout, called, presetsLeft } = setup(t, 'demo', machine);
    assert.equal(status, 0);
    const install = called.findIndex((line) => line.startsWith('apt-get install '));
    assert.ok(called[install]?.endsWith(` ${forPods} containerd runc kubernetes-client`), called[install]);
    assert.match(called[install] ?? '', / --no-remove /);
    assert.equal(called[install + 1], 'disable containerd.service');
    assert.deepEqual(presetsLeft, []);
    assert.match(stdout, /^apt: containerd is installed without starting it as a service$/m);
  });

  test("demo: another containerd, runc or kubectl than Debian's is not replaced", (t) => {
    const commands = ['containerd', 'ctr', 'containerd-shim-runc-v2', 'runc', 'kubectl'];
    const { status, called } = setup(t, 'demo', { packages: ['libbpf1', 'libnftables1'], uid: 0, commands });
    assert.equal(status, 0);
    assert.equal(called.length, 3, called.join('\n'));
    assert.ok(called[1]?.endsWith(`Use-Pty=0 ${forPods}`), called[1]);
    assert.match(called[2] ?? '', /^npm ci/);
  });

  test('an unknown level is refused with the levels there are', (t) => {
    const { status, stderr, called } = setup(t, 'everything', { packages: [], uid: 0 });
    assert.deepEqual({ status, called }, { status: 2, called: [] });
    assert.match(stderr, /run\|image\|demo\|check\|test\|bench/);
  });

  const stale: Readonly<Record<string, object>> = {
    'another version': { ...installed, 'node_modules/koffi': { ...koffi, version: '2.0.0' } },
    'other bytes': { ...installed, 'node_modules/koffi': { ...koffi, integrity: 'sha512-x' } },
    'one missing': { 'node_modules/koffi': koffi },
    'one too many': { ...installed, 'node_modules/extra': koffi },
  };
  for (const [what, nodeModules] of Object.entries(stale)) {
    test(`node_modules with ${what} is installed again`, (t) => {
      const { called } = setup(t, 'run', { packages: ['libbpf1', 'libnftables1'], uid: 1000, nodeModules });
      assert.match(called.join('\n'), /^npm ci/);
    });
  }
});
