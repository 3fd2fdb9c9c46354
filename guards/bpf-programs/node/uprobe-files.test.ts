import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { Lab, obstacle, ownNetwork } from '../kernel/lab.fixture.ts';
import { Caller } from '../kernel/probe/caller.fixture.ts';
import { librariesOf } from '../kernel/probe/uprobe-target.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';

const probes = join(import.meta.dirname, '../kernel/fixtures/probes.bpf.o');

suite('uprobes of a node while files are replaced', { skip: obstacle() ?? false }, () => {
  before(ownNetwork);

  test('the agent notices a new file, and reports a missing one', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'rampart-upgraded-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const library = join(directory, 'libc.so.6');
    const libc = librariesOf(readFileSync('/etc/ld.so.cache')).find(({ name }) => name === 'libc.so.6')?.path;
    assert.ok(libc);
    copyFileSync(libc, library);
    await using stack = new AsyncDisposableStack();
    const lab = stack.use(new Lab());
    const cluster = stack.use(await BpfCluster.start());
    await cluster.addNode('n1');
    stack.use(cluster.operator());
    const host = await lab.another('/', undefined, () => reported());
    let reported = (): void => undefined;
    stack.use(
      cluster.agent('n1', new FixtureKernel(), async (_signal, onTargetChange) => {
        reported = onTargetChange;
        return host;
      }),
    );
    const spec = { nodeselector: {}, bytecode: { path: probes }, bpffunctionname: 'on_uprobe' };
    await cluster.create('UprobeProgram', 'u', { ...spec, func_name: 'getppid', target: library });
    await cluster.untilCondition('UprobeProgram', 'u', 'ReconcileSuccess');
    const [object] = await cluster.objects();
    const id = object?.metadata.name ?? '';
    copyFileSync(libc, `${library}.new`);
    renameSync(`${library}.new`, library);
    const beganMs = performance.now();
    // Its process is of the new file, and of no other.
    const caller = new Caller(t, { libraries: directory });
    await until('the new file to be probed', async () => {
      await caller.call(1);
      return lab.counted(id) > 0;
    });
    t.diagnostic(`attached within ${(performance.now() - beganMs).toFixed(0)} ms`);
    unlinkSync(library);
    const message = await cluster.untilCondition('UprobeProgram', 'u', 'ReconcileError', undefined, /ENOENT/);
    assert.match(message, /There is no \S+ to probe: ENOENT\. It stays in/);
    copyFileSync(libc, library);
    await cluster.untilCondition('UprobeProgram', 'u', 'ReconcileSuccess');
    await caller.end();
  });
});
