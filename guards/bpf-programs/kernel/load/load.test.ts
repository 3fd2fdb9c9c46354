import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { probeFeatures } from '../../../../lib/ebpf/features/features.ts';
import {
  bytecode,
  cable,
  desired,
  failed,
  Lab,
  loaded,
  obstacle,
  ownNetwork,
  send,
  tc,
  xdp,
} from '../lab.fixture.ts';
import { mapInfo } from '../info.ts';
import { defaultTenantRules } from '../tenant/rules.ts';
import type { AttachType } from '../desired.ts';
import type { LoadRequest } from './load-object.ts';
import { tryTogether } from './try-together.ts';
import { verifyBytecode, verifyWanted } from './verify-bytecode.ts';

suite('loading', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('buffers with the type of their records, as sources for bpf2go have them', async () => {
    assert.deepEqual(
      verifyBytecode(bytecode('bpf2go')).map(({ message }) => message),
      [''],
    );
    await using lab = new Lab();
    const events = desired('events', xdp('in0'), {
      digest: 'sha256:bpf2go',
      bytecode: () => Promise.resolve(bytecode('bpf2go')),
      functionName: 'xdp_events',
    });
    loaded(await (await lab.host()).apply([events]), 'events');
    send('out0', 3);
    // Counted where the ring buffer had room.
    assert.equal(lab.counted('events'), 3);
  });

  test("a program of another type is reported by section and label, without the verifier's log", async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([
      desired('section', xdp('in0'), { functionName: 'tc_count' }),
      desired('both', xdp('in0'), { functionName: 'tc_count', labelledType: 'tc' }),
      desired('none', tc('in0', 'ingress'), {
        digest: 'sha256:probes',
        bytecode: () => Promise.resolve(bytecode('probes')),
        functionName: 'on_fentry',
      }),
      desired('tenant', xdp('in0'), {
        ...{ namespace: 'acme', digest: 'sha256:tenant' },
        bytecode: () => Promise.resolve(bytecode('tenant')),
        functionName: 'uprobe_user',
      }),
    ]);
    const section = failed(outcomes, 'section', 'load');
    assert.match(
      section,
      /^tc_count is loaded as xdp, but its section \S+ says tc\. Use the kind for its type, or name a program of type xdp: xdp_count\. As xdp, it is refused: cannot load .* \(?E[A-Z]+\)?\.$/,
    );
    assert.match(
      failed(outcomes, 'both', 'load'),
      /its section \S+ says tc, and the label of its image says tc\./,
    );
    assert.match(
      failed(outcomes, 'tenant', 'not-allowed'),
      /^uprobe_user is loaded as xdp, but its section uprobe\/user says uprobe\. .* As xdp, it is refused: .*\(helper_not_allowed\)/,
    );
    assert.match(failed(outcomes, 'none', 'load'), /says fentry\. .*; the bytecode has no tc program\./);
  });

  test('verify asks for programs, not for the memory of hash tables', () => {
    const entries: Record<string, number> = {};
    const wanted = { functionName: 'xdp_write', type: 'xdp' } as const;
    const [program] = verifyWanted(
      bytecode('maps'),
      [wanted],
      { globals: {}, tenants: undefined },
      ({ files }) => {
        for (const { map } of files) if (map.fd >= 0) entries[map.name] = mapInfo(map.fd).maxEntries;
      },
    );
    assert.equal(program?.loads, true, program?.message);
    assert.equal(entries['table'], 1);
  });

  test('verify knows each type by its section', (t) => {
    const results = verifyBytecode(bytecode('kinds'));
    assert.deepEqual(
      results.map(({ functionName, type }) => [functionName, type]),
      [
        ['on_open', 'lsm'],
        ['on_sample', 'perf_event'],
        ['on_skb', 'cgroup_skb'],
        ['on_socket', 'sock_ops'],
        ['on_task', 'iter'],
        ['on_syscall', 'raw_tracepoint'],
        ['on_nothing', undefined],
        ['on_argument', 'tracepoint'],
      ],
    );
    const { programs } = probeFeatures([]);
    for (const { functionName, type, loads, message } of results) {
      const feature = Object.entries(programs).find(([name]) => name === type)?.[1];
      t.diagnostic(`${functionName} (${String(type)}): ${loads ? 'loads' : message.split('\n')[0]}`);
      if (type === undefined) assert.match(message, /own\/section does not determine the type/);
      else assert.equal(loads, feature?.available ?? true, message);
      if (type === 'lsm' && !loads) assert.match(message, /This kernel does not run lsm programs/);
    }
  });

  test('verify applies the rules for namespaced kinds, where it is asked to', () => {
    const verdicts = (name: string, tenants = defaultTenantRules): Readonly<Record<string, string>> =>
      Object.fromEntries(
        verifyBytecode(bytecode(name), { tenants }).map(({ functionName, message }) => [
          functionName,
          message,
        ]),
      );
    const probes = verdicts('probes');
    assert.equal(probes['on_uprobe'], '');
    assert.match(
      probes['on_kprobe'] ?? '',
      /^There is no namespaced kind for kprobe programs, only for tc, tcx, xdp, uprobe, uretprobe\.$/,
    );
    const refused = Object.values(verdicts('tenant')).join('\n');
    assert.match(refused, /\(helper_not_allowed\)/);
    assert.match(
      Object.values(verdicts('count', { ...defaultTenantRules, mapMemoryBytes: 8192 })).join('\n'),
      /\(map_memory_of_program\)/,
    );
    assert.deepEqual(Object.values(verdicts('count')), ['', '']);
  });
});

suite('programs of one object file', { skip: obstacle() ?? false }, () => {
  const requestOf = (name: string, functions: Readonly<Record<string, AttachType>>): LoadRequest => ({
    ...{ shown: name, bytes: bytecode(name), globals: {}, admission: undefined },
    programs: Object.entries(functions).map(([functionName, type]) => ({
      ...{ functionName, type, kernelFunction: undefined },
    })),
  });

  test('are loaded by one load', () => {
    let used = 0;
    const accepted = tryTogether(
      requestOf('count', { xdp_count: 'xdp', tc_count: 'tc' }),
      (_, programs) => (used += programs.size),
    );
    assert.deepEqual(
      [...accepted.keys()].map(({ functionName }) => functionName),
      ['xdp_count', 'tc_count'],
    );
    assert.equal(used, 2);
    for (const { verifiedInstructions, statistics } of accepted.values())
      assert.match(statistics, new RegExp(`^processed ${verifiedInstructions} insns`));
  });

  test('that are refused do not keep the others from it', () => {
    const names = ['xdp_functions', 'xdp_stack', 'xdp_refused', 'xdp_shape'];
    const accepted = tryTogether(
      requestOf('awkward', Object.fromEntries(names.map((name) => [name, 'xdp' as const]))),
    );
    assert.deepEqual(
      [...accepted.keys()].map(({ functionName }) => functionName),
      ['xdp_functions', 'xdp_stack', 'xdp_shape'],
    );
  });
});
