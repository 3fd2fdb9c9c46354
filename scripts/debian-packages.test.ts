import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { deepTest } from '../lib/testing/depth.fixture.ts';
import {
  boundDependency,
  debianPackage,
  fits,
  newestVersion,
  notPinned,
  packagePins,
  pinnedPackage,
} from './debian-packages.ts';
import { findMainArchive } from './debian-sources.ts';

/** Why packages cannot be fetched here. */
function obstacle(): string | false {
  if (spawnSync('apt-get', ['--version']).status !== 0) return 'needs apt';
  try {
    findMainArchive();
    return false;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

test('patterns', () => {
  assert.ok(fits('6.1.*', '6.1.176-1'));
  assert.ok(!fits('6.1.*', '6.12.95-1'));
  assert.ok(!fits('6.1.*', '6x1.2'));
  assert.ok(fits('linux-image-6.12.*-amd64', 'linux-image-6.12.95+deb12-amd64'));
  assert.ok(!fits('linux-image-6.12.*-amd64', 'linux-image-6.12.95+deb12-amd64-unsigned'));
});

test('the newest version that fits, without regard to its epoch', () => {
  const madison = `linux-image-amd64 | 6.12.95-1 | http://d.example bookworm/main amd64 Packages
linux-image-amd64 |  6.1.176-1 | http://d.example bookworm/main amd64 Packages
linux-image-amd64 |  6.1.170-1 | http://d.example bookworm/main amd64 Packages
`;
  assert.equal(newestVersion(madison, '6.1.*'), '6.1.176-1');
  assert.equal(newestVersion('libbpf1 |  1:1.5.0-3 | x', '1.5.*'), '1:1.5.0-3');
  assert.equal(newestVersion(madison, '5.*'), undefined);
  assert.equal(newestVersion('', '*'), undefined);
});

test('the dependency that is bound to a version', () => {
  const depends =
    'libc6 (>= 2.3), linux-image-6.1.0-50-cloud-amd64 | linux-image-6.1.0-50-amd64 (= 6.1.176-1)';
  assert.deepEqual(boundDependency(depends, 'linux-image-6.1.*-amd64'), {
    name: 'linux-image-6.1.0-50-amd64',
    version: '6.1.176-1',
  });
  assert.equal(boundDependency(depends, 'libc6'), undefined);
});

test('every pin says what and why, under an id of its own, with the version and the SHA-256 of each package', () => {
  const pins = packagePins();
  assert.equal(new Set(pins.map((pin) => pin.id)).size, pins.length);
  for (const pin of pins)
    for (const field of ['id', 'suite', 'name', 'version', 'why'] as const) assert.ok(pin[field]);
  for (const { dependency, name, version, with: more = {}, pinned } of pins) {
    const wanted = Object.entries({ [dependency ?? name]: version, ...more });
    assert.equal(Object.keys(pinned).length, wanted.length, name);
    for (const [each, pattern] of wanted) {
      const found = Object.entries(pinned).find(([one]) => fits(each, one))?.[1];
      assert.ok(fits(pattern, found?.version.replace(/^\d+:/, '') ?? ''), each);
      assert.match(found?.sha256 ?? '', /^[0-9a-f]{64}$/);
    }
  }
});

test('where packages cannot be kept, the error says what to set', async (t) => {
  const options = { signal: t.signal, cacheDirectory: join(import.meta.filename, 'cache') };
  await assert.rejects(debianPackage('libbpf-1.5', options), /ENOTDIR.*Set RAMPART_DEBIAN_CACHE/);
});

describe('fetching', { skip: obstacle() }, () => {
  deepTest("a package comes once, complete, and the machine's own lists do not change", async (t) => {
    const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-packages-'));
    try {
      // The remains of a killed fetch: part of a package, and the working directory of a process that is
      // gone.
      const gone = spawnSync('true').pid;
      mkdirSync(join(cacheDirectory, 'libbpf-1.5/root/usr'), { recursive: true });
      mkdirSync(join(cacheDirectory, `.fetch-${gone}-abc/lists`), { recursive: true });
      const lists = existsSync('/var/lib/apt/lists') ? statSync('/var/lib/apt/lists').mtimeMs : 0;

      const said: string[] = [];
      const options = { signal: t.signal, cacheDirectory, onLine: (line: string) => said.push(line) };
      const fetched = await debianPackage('libbpf-1.5', options);
      assert.match(fetched.version, /^1:1\.5\./);
      assert.match(fetched.sha256, /^[0-9a-f]{64}$/);
      assert.ok(existsSync(join(fetched.root, 'usr/lib/x86_64-linux-gnu/libbpf.so.1')));
      assert.ok(said.some((line) => line.includes(fetched.version) && line.includes(fetched.sha256)));
      assert.deepEqual(readdirSync(cacheDirectory), ['libbpf-1.5']);

      said.length = 0;
      assert.deepEqual(await debianPackage('libbpf-1.5', options), fetched);
      assert.deepEqual(said, []);

      if (lists !== 0) assert.equal(statSync('/var/lib/apt/lists').mtimeMs, lists);
    } finally {
      rmSync(cacheDirectory, { recursive: true });
    }
  });

  deepTest(
    'the pinned version is taken, with its SHA-256 or not at all; without it, another that fits',
    async (t) => {
      const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-packages-'));
      try {
        const options = { signal: t.signal, cacheDirectory };
        const pin = packagePins().find(({ id }) => id === 'libbpf-1.5');
        assert.ok(pin?.pinned['libbpf1']);
        const { version } = pin.pinned['libbpf1'];
        const forged = { ...pin, pinned: { libbpf1: { version, sha256: '0'.repeat(64) } } };
        // Neither from the archive nor from a cache that was filled before.
        await assert.rejects(
          pinnedPackage(forged, options),
          /libbpf1 \S+ of this machine's .* is not the pinned one/,
        );
        assert.deepEqual(readdirSync(cacheDirectory), []);
        const gone = { ...pin, pinned: { libbpf1: { version: '1:1.5.0-0', sha256: '0'.repeat(64) } } };
        const fetched = await pinnedPackage(gone, options);
        assert.deepEqual(
          notPinned(gone, fetched).map(({ name }) => name),
          ['libbpf1'],
        );
        assert.deepEqual(notPinned(pin, fetched), []);
        await assert.rejects(pinnedPackage(forged, options), /is not the pinned one/);
      } finally {
        rmSync(cacheDirectory, { recursive: true });
      }
    },
  );

  deepTest('an outdated record does not count', async (t) => {
    const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-packages-'));
    try {
      const said: string[] = [];
      const options = { signal: t.signal, cacheDirectory, onLine: (line: string) => said.push(line) };
      const fetched = await debianPackage('libbpf-1.5', options);
      said.length = 0;
      const record = join(cacheDirectory, 'libbpf-1.5/package.json');
      writeFileSync(record, JSON.stringify({ ...fetched, version: '1:1.4.0-1' }));
      assert.deepEqual(await debianPackage('libbpf-1.5', options), fetched);
      assert.notEqual(said.length, 0);
    } finally {
      rmSync(cacheDirectory, { recursive: true });
    }
  });

  deepTest(
    'without a network, the error names the network, not the list',
    { skip: process.getuid?.() !== 0 },
    () => {
      const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-packages-'));
      try {
        const module = JSON.stringify(join(import.meta.dirname, 'debian-packages.ts'));
        const fetch = `import { debianPackage } from ${module};
        await debianPackage('libbpf-1.5', { signal: AbortSignal.timeout(60_000), cacheDirectory: ${JSON.stringify(cacheDirectory)} });`;
        const node = [process.execPath, '--input-type=module', '-e', fetch];
        const { status, stderr } = spawnSync('unshare', ['--net', ...node], { encoding: 'utf8' });
        assert.equal(status, 1);
        assert.match(stderr, /apt-get update failed.*\n.*Failed to fetch/);
        assert.deepEqual(readdirSync(cacheDirectory), []);
      } finally {
        rmSync(cacheDirectory, { recursive: true });
      }
    },
  );

  test('an id that is not in the list is refused; an aborted fetch leaves nothing', async () => {
    const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-packages-'));
    try {
      const signal = AbortSignal.abort(new Error('enough'));
      await assert.rejects(debianPackage('nope', { signal, cacheDirectory }), { code: 'RAMPART_INPUT' });
      await assert.rejects(debianPackage('libbpf-1.5', { signal, cacheDirectory }), /enough/);
      assert.deepEqual(readdirSync(cacheDirectory), []);
    } finally {
      rmSync(cacheDirectory, { recursive: true });
    }
  });
});
