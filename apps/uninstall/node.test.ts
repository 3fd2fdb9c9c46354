// In a network namespace with real rules.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { everyone, nodeRules } from '../../guards/network-policy/dataplane/rules.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { NetworkNamespace, namespaceObstacle } from '../../test/network-policy/namespaces.fixture.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');

suite('rampart uninstall node', { skip: namespaceObstacle() ?? false }, () => {
  test('removes rules and directories of the guards, and finds nothing the second time', async () => {
    using namespace = new NetworkNamespace();
    using stack = new DisposableStack();
    const top = mkdtempSync(join(tmpdir(), 'rampart-uninstall-'));
    stack.defer(() => rmSync(top, { recursive: true }));
    const data = join(top, 'rampart');
    // An agent that found no bpffs leaves such a directory, too.
    for (const name of ['spool', 'integrity', 'bpf', 'otlp']) {
      mkdirSync(join(data, name), { recursive: true });
      writeFileSync(join(data, name, 'kept'), '');
    }
    using dataplane = namespace.run(() => openNftablesDataplane());
    const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };
    const policy = { policy: 'x/in', direction: 'ingress', selects: ['x/a'], allows: [everyone] } as const;
    await dataplane.sync(nodeRules([pod], [policy]));
    // As of the agent in deploy/.
    const args = [
      ...['uninstall', 'node', '--metrics=0.0.0.0:9464', '--host-root=/'],
      ...[
        '--guards=file-access',
        '--guards=file-integrity',
        '--guards=network-policy',
        '--guards=bpf-programs',
      ],
      ...[
        `--bpffs=${join(top, 'none')}`,
        `--bpf-state=${join(data, 'bpf')}`,
        `--bpf-directory=${join(top, 'none')}`,
      ],
      ...[`--spool=${join(data, 'spool')}`, `--integrity-directory=${join(data, 'integrity')}`],
      `--otlp-queue=${join(data, 'otlp')}`,
    ];
    const clean = () => namespace.run(() => spawnSync(rampart, args, { encoding: 'utf8' }));
    const first = clean();
    assert.equal(first.status, 0, first.stderr);
    assert.match(first.stdout, /^network-policy: removed table inet rampart-network-policy$/m);
    assert.match(first.stdout, new RegExp(`^file-access: removed ${data}/spool$`, 'm'));
    assert.match(first.stdout, new RegExp(`^bpf-programs: removed ${data}/bpf$`, 'm'));
    assert.match(first.stdout, new RegExp(`^removed ${data}/otlp\nremoved ${data}$`, 'm'));
    assert.ok(!existsSync(data));
    const again = clean();
    assert.deepEqual(
      [again.status, again.stdout],
      [
        0,
        ['file-access', 'file-integrity', 'network-policy', 'bpf-programs']
          .map((name) => `${name}: nothing to remove\n`)
          .join(''),
      ],
    );
    const json = namespace.run(() => spawnSync(rampart, [...args, '-o', 'json'], { encoding: 'utf8' }));
    const { schema, guards } = JSON.parse(json.stdout) as { schema: string; guards: unknown[] };
    assert.equal(schema, 'rampart.dev/uninstall-node/v1');
    assert.deepEqual(guards[0], { name: 'file-access', removed: [], error: null });
  });
});
