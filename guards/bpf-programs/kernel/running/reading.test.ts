import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { enableStatistics } from '../info.ts';
import { possibleCpus } from './map-entries.ts';
import { bytecode, cable, desired, Lab, NAME, obstacle, ownNetwork, send, tc, xdp } from '../lab.fixture.ts';
import { actionNames, readChain } from './chains.ts';
import { dumpMap } from './maps.ts';
import { readPrograms } from './programs.ts';
import { countersOf } from './statistics.ts';
import { verifyBytecode } from '../load/verify-bytecode.ts';

suite('reading what is in the kernel', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('chains, with how often each member ran', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    assert.deepEqual([readPrograms(options), readChain(options)], [[], []]);
    const host = await lab.host();
    await host.apply([desired('a', xdp('in0', 10)), desired('t', tc('in0', 'ingress'))]);
    send('out0', 10);
    await host.apply([
      desired('b', xdp('in0', 5)),
      desired('a', xdp('in0', 10)),
      desired('t', tc('in0', 'ingress')),
    ]);
    send('out0', 7);
    const views = readChain(options, 'in0');
    assert.deepEqual(
      views.map(({ kind, direction, members }) => [
        kind,
        direction,
        members.map(({ id, priority, proceedOn, runs }) => [id, priority, proceedOn.join(), runs]),
      ]),
      [
        [
          'xdp',
          undefined,
          [
            ['b', 5, 'pass,dispatcher_return', 7n],
            ['a', 10, 'pass,dispatcher_return', 17n],
          ],
        ],
        ['tc', 'ingress', [['t', 50, 'pipe,dispatcher_return', 17n]]],
      ],
    );
    assert.deepEqual(readChain(options, 'out0'), []);
    assert.deepEqual(readPrograms(options), await host.list());
    using _statistics = enableStatistics();
    send('out0', 100);
    const { programs, chains } = countersOf(options, false);
    assert.deepEqual(
      new Map(programs.map(({ program, runs }) => [program.id, runs])),
      new Map([
        ['a', 117n],
        ['b', 107n],
        ['t', 117n],
      ]),
    );
    for (const { runs, runTimeNs } of chains) assert.ok(runs >= 100n && runTimeNs > 0n);
  });

  test('maps by their types', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    const program = desired('values', xdp('in0'), {
      digest: 'sha256:values',
      bytecode: () => Promise.resolve(bytecode('values')),
      functionName: 'xdp_values',
    });
    await (await lab.host()).apply([program]);
    send('out0', 3);
    assert.deepEqual(dumpMap(options, 'values', 'table').entries, [
      {
        key: { port: 80, bytes: [1, 2] },
        value: {
          many: '1152921504606846976',
          below: -5,
          yes: true,
          name: 'eth0',
          colour: 'BLUE',
          low: 5,
          high: 17,
          whole: 0x20001,
          halves: [1, 2],
        },
      },
    ]);
    const { entries } = dumpMap(options, 'XdpProgram/values', 'each_cpu');
    assert.deepEqual(
      entries.map(({ key }) => key),
      [0, 1],
    );
    const values = entries[0]?.value as readonly number[];
    assert.equal(values.length, possibleCpus());
    assert.equal(
      values.reduce((sum, value) => sum + value, 0),
      3,
    );
    assert.deepEqual(
      { ...dumpMap(options, 'values', 'each_cpu', 1), id: 0, entries: [] },
      { name: 'each_cpu', id: 0, entries: [], truncated: true },
    );
    assert.throws(() => dumpMap(options, 'values', 'ring'), /it is a ring buffer/);
    assert.throws(
      () => dumpMap(options, 'values', 'nothing'),
      /has no map nothing\. It has: each_cpu, ring, table/,
    );
    assert.throws(() => dumpMap(options, 'nobody', 'table'), /there is no program nobody/);
  });

  test('global variables are a map too', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    await (await lab.host()).apply([desired('a', xdp('in0'))]);
    const [program] = readPrograms(options);
    const dump = dumpMap(options, String(program?.programId), '.data');
    assert.deepEqual(dump.entries, [{ key: 0, value: { step: 1 } }]);
  });

  test('programs are verified without being kept', () => {
    const results = verifyBytecode(bytecode('awkward'));
    assert.deepEqual(
      results.map(({ functionName, loads }) => [functionName, loads]),
      [
        ['xdp_functions', true],
        ['xdp_stack', true],
        ['xdp_refused', false],
        ['xdp_shape', true],
      ],
    );
    assert.match(results[0]?.statistics ?? '', /^processed \d+ insns \(limit 1000000\)/);
    assert.match(results[2]?.message ?? '', /invalid access to packet/);
    const [classifier] = verifyBytecode(bytecode('count'), { functionName: 'tc_count' });
    assert.deepEqual([classifier?.type, classifier?.loads], ['tc', true]);
    const [other] = verifyBytecode(bytecode('count'), { functionName: 'tc_count', type: 'xdp' });
    assert.equal(other?.loads, false);
    assert.throws(() => verifyBytecode(bytecode('count'), { functionName: 'none' }), /has no program none/);
    assert.throws(() => verifyBytecode(Buffer.from('nothing')), /cannot open eBPF object/);
  });
});

test('masks are shown by the names of their bits', () => {
  assert.deepEqual(actionNames('xdp', 0b10110), ['drop', 'pass', 'redirect']);
  assert.deepEqual(actionNames('tc', (1 << 4) | 1 | (1 << 31)), ['unspec', 'pipe', 'dispatcher_return']);
  assert.deepEqual(actionNames('xdp', 1 << 20), ['20']);
});
