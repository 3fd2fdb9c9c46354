// Where programs or libraries are missing: the backend says which, `auto` takes the other one, and `rampart doctor` lists them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { iptablesObstacle } from '../dataplane/iptables/obstacle.fixture.ts';
import { type Found, lookAround } from './tools.fixture.ts';

const own = join(import.meta.dirname, 'tools.fixture.ts');

/** A directory with some programs of this machine, for PATH. */
class Tools implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'rampart-tools-'));

  constructor(...names: readonly string[]) {
    for (const name of names) {
      const found = execFileSync('sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim();
      symlinkSync(found, join(this.path, name));
    }
  }

  async look(): Promise<Found> {
    const before = process.env['PATH'];
    process.env['PATH'] = this.path;
    try {
      return await lookAround();
    } finally {
      process.env['PATH'] = before;
    }
  }

  /** On a machine without these libraries: in their place are empty files, for one process. `lock`: that of iptables cannot be made. */
  lookWithout(...libraries: readonly string[]): Found {
    const hide = `path=$1 node=$2 own=$3; shift 3
    for name; do
      [ "$name" = lock ] && mount -t tmpfs -o ro run /run && continue
      for library in $(find -L /usr/lib /usr/lib64 -maxdepth 3 -name "$name*" 2> /dev/null); do
        mount --bind /dev/null "$(readlink -f "$library")"
      done
    done
    PATH=$path exec "$node" "$own"`;
    const args = ['--mount', 'sh', '-c', hide, 'sh', this.path, process.execPath, own, ...libraries];
    return JSON.parse(execFileSync('unshare', args, { encoding: 'utf8' })) as Found;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

const legacy = ['iptables', 'ip6tables'].flatMap((name) => [`${name}-legacy-restore`, `${name}-legacy-save`]);
const detailsOf = ({ machine }: Found): Readonly<Record<string, string>> =>
  Object.fromEntries(
    machine.facts.map(({ name, available, detail }) => [name, `${available ? 'yes' : 'no'}: ${detail}`]),
  );

suite('a machine that lacks something', { skip: iptablesObstacle() ?? false }, () => {
  test('no program at all: nftables needs none', async () => {
    using tools = new Tools();
    const found = await tools.look();
    assert.deepEqual([found.taken.auto, found.machine.backend], ['nftables', 'nftables']);
    assert.match(
      found.taken.iptables,
      /iptables-restore is not installed.*cannot start ipset: it is not installed/,
    );
    const { nftables = '', iptables = '', ipset = '' } = detailsOf(found);
    assert.match(nftables, /^yes/);
    assert.match(iptables, /^no: .*iptables-restore is not installed.*apt-get install iptables/);
    assert.match(ipset, /^no: not installed: apt-get install ipset/);
  });

  test('no ipset, no ip6tables: each is named', async () => {
    using withoutIpset = new Tools(...legacy);
    const first = await withoutIpset.look();
    assert.match(first.taken.iptables, /cannot start ipset: it is not installed/);
    assert.doesNotMatch(first.taken.iptables, /iptables-(legacy-)?restore is not installed/);
    assert.match(detailsOf(first)['iptables'] ?? '', /^no: legacy [\d.]+; cannot start ipset/);
    using withoutSix = new Tools('ipset', ...legacy.filter((name) => !name.startsWith('ip6')));
    assert.match(
      (await withoutSix.look()).taken.iptables,
      /cannot start ip6tables-legacy-restore: it is not installed/,
    );
  });

  test('no libnftables: auto takes iptables, of the kind that is there, and says why', () => {
    using tools = new Tools('ipset', ...legacy);
    const found = tools.lookWithout('libnftables.so.1');
    assert.equal(found.taken.auto, 'iptables (legacy)');
    assert.match(found.warnings[0] ?? '', /^network policies are programmed by iptables: .*libnftables/);
    assert.match(found.taken.nftables, /libnftables.*apt-get install libnftables1/);
    assert.equal(found.machine.backend, 'iptables');
    const { nftables = '', iptables = '' } = detailsOf(found);
    assert.match(nftables, /^no: .*libnftables/);
    assert.match(iptables, /^yes: legacy [\d.]+$/);
  });

  test('names each match and target that iptables lacks', () => {
    using tools = new Tools('ipset', ...legacy);
    const { taken, machine } = tools.lookWithout('libxt_set.so', 'libxt_NFLOG.so');
    for (const text of [taken.iptables, detailsOf({ taken, machine, warnings: [] })['iptables'] ?? '']) {
      assert.match(text, /xt_NFLOG: iptables-legacy-restore: .*; xt_set: iptables-legacy-restore: /);
      assert.doesNotMatch(text, /xt_conntrack/);
    }
    assert.equal(taken.auto, 'nftables');
  });

  test('no match for hop limits: iptables works without, and what follows is said', () => {
    using tools = new Tools('ipset', ...legacy);
    const { taken, machine, warnings } = tools.lookWithout('libip6t_hl.so');
    assert.equal(taken.iptables, 'iptables (legacy)');
    const what = /^routed packets that look like neighbour discovery pass: xt_hl: ip6tables-legacy-restore: /;
    assert.match(warnings[0] ?? '', what);
    const { iptables = '' } = detailsOf({ taken, machine, warnings });
    assert.match(
      iptables,
      /^yes: legacy [\d.]+; routed packets that look like neighbour discovery pass: xt_hl/,
    );
  });

  test('no lock of legacy iptables, as in a container with a file system that is read-only: named once for each family', () => {
    using tools = new Tools('ipset', ...legacy);
    const { taken } = tools.lookWithout('lock');
    assert.match(
      taken.iptables,
      /^cannot program iptables: iptables-legacy-restore: [^;]*lock file[^;]*; ip6tables-legacy-restore: [^;]*lock file[^;]*deploy\/network-policy-iptables/,
    );
  });

  test('neither: both are named', () => {
    using tools = new Tools('ipset');
    const found = tools.lookWithout('libnftables.so.1');
    assert.match(
      found.taken.auto,
      /neither nftables nor iptables can be programmed here: .*libnftables.*iptables-restore.*rampart doctor/,
    );
    assert.equal(found.machine.backend, null);
    // None is advised that does not work either.
    assert.doesNotMatch(JSON.stringify(found), /--network-policy-backend/);
  });
});
