// The permissions of a program of a namespaced kind, in the kernel of this machine.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { programInfo } from '../info.ts';
import { VmlinuxBtf } from '../../../../lib/ebpf/features/vmlinux-btf.ts';
import { openPin } from '../pins/pin.ts';
import type { Attach, DesiredProgram } from '../desired.ts';
import {
  bytecode,
  cable,
  desired,
  failed,
  kept,
  Lab,
  loaded,
  NAME,
  obstacle,
  ownNetwork,
  send,
  tc,
  xdp,
} from '../lab.fixture.ts';
import { defaultTenantRules, type TenantRules } from './rules.ts';

const uprobe: Attach = {
  type: 'uprobe',
  functionName: 'getppid',
  offset: 0n,
  target: 'libc',
  pid: process.pid,
  container: undefined,
};
const inNamespace = { namespace: 'acme', owner: 'XdpNsProgram/acme/p' } as const;

function program(
  functionName: string,
  attach: Attach,
  { file = 'tenant', id = `acme/${functionName}`, ...rest }: Partial<DesiredProgram> & { file?: string } = {},
): DesiredProgram {
  const given = { digest: `sha256:${file}`, bytecode: () => Promise.resolve(bytecode(file)), functionName };
  return desired(id, attach, { ...inNamespace, ...given, ...rest });
}

const adding = (...names: readonly string[]): TenantRules => ({
  ...defaultTenantRules,
  helpers: new Set(names),
});
const withMemory = (mapMemoryBytes: number): TenantRules => ({ ...defaultTenantRules, mapMemoryBytes });

function hasFunction(name: string): boolean {
  using types = new VmlinuxBtf();
  return types.findFunction(name) !== undefined;
}

/** As if its source had another name of the same length there. */
function renamed(bytes: Uint8Array, from: string, to: string): Buffer {
  const copy = Buffer.from(bytes);
  for (let at = copy.indexOf(`\0${from}\0`); at >= 0; at = copy.indexOf(`\0${from}\0`, at))
    copy.write(to, at + 1);
  return copy;
}

/** With the places of its two maps in BTF, as linkers write them: compilers leave them to libbpf, which finds them by name. */
function withOffsets(bytes: Uint8Array): Buffer {
  const copy = Buffer.from(bytes);
  // BTF_KIND_DATASEC of two variables, and of no size.
  const at = copy.indexOf(Buffer.from('0200000f00000000', 'hex'));
  assert.ok(at > 0);
  const first = copy.readUInt32LE(at + 16);
  copy.writeUInt32LE(first + copy.readUInt32LE(at + 28), at + 4);
  copy.writeUInt32LE(first, at + 24);
  return copy;
}

/** Directories of pins: what is in the kernel because of these programs. */
function pinned(lab: Lab): readonly string[] {
  const directory = join(lab.bpffs, NAME, 'programs');
  return existsSync(directory) ? readdirSync(directory) : [];
}

suite('programs of namespaced kinds', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  const reading: readonly (readonly [string, Attach, RegExp])[] = [
    [
      'uprobe_kernel',
      uprobe,
      /uses bpf_probe_read_kernel, which uprobe programs of namespaced kinds may not \(helper_not_allowed\)\. .*--bpf-tenant-helpers bpf_probe_read_kernel\./,
    ],
    ['xdp_kernel', xdp('in0'), /uses bpf_probe_read_kernel, which xdp programs/],
    ['tc_kernel', tc('in0', 'ingress'), /uses bpf_probe_read_kernel, which tc programs/],
    ['xdp_user', xdp('in0'), /uses bpf_probe_read_user, which xdp programs/],
    ['xdp_kfunc', xdp('in0'), /uses bpf_rdonly_cast, which .*--bpf-tenant-helpers bpf_rdonly_cast\./],
    ['xdp_ksym', xdp('in0'), /uses init_task, which/],
  ];
  for (const [functionName, attach, says] of reading) {
    test(`${functionName}: refused, unless it is cluster-scoped or its function was added`, async () => {
      await using lab = new Lab();
      const wanted = program(functionName, attach);
      const outcomes = await (await lab.host()).apply([wanted]);
      assert.match(failed(outcomes, wanted.id, 'not-allowed'), says);
      assert.deepEqual(pinned(lab), []);

      const [, name = ''] = /uses (\w+),/.exec(failed(outcomes, wanted.id, 'not-allowed')) ?? [];
      // Before 6.2 there is no bpf_rdonly_cast.
      if (functionName === 'xdp_kfunc' && !hasFunction(name)) return;
      const added = await (await lab.restarted(adding(name))).apply([wanted]);
      loaded(added, wanted.id);

      const ofCluster = { ...wanted, id: 'p', namespace: undefined, owner: 'XdpProgram/p' };
      loaded(await (await lab.restarted()).apply([ofCluster]), 'p');
    });
  }

  test('programs that need nothing outside their pod run', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = [
      program('uprobe_user', uprobe),
      program('xdp_kconfig', xdp('in0')),
      program('xdp_count', xdp('in0'), { file: 'count' }),
      program('tc_count', tc('in0', 'ingress'), { file: 'count' }),
      program('xdp_values', xdp('in0'), { file: 'values' }),
      ...['xdp_stats'].map((name) => program(name, xdp('in0'), { file: 'samples' })),
      ...['stats', 'pass', 'tcx_stats'].map((name) =>
        program(name, tc('in0', 'ingress'), { file: 'samples' }),
      ),
      ...['uprobe_counter', 'my_uprobe'].map((name) => program(name, uprobe, { file: 'samples' })),
      program('pass', xdp('in0'), { file: 'samples_xdp', id: 'acme/xdp-pass' }),
    ];
    const outcomes = await host.apply(wanted);
    for (const { id } of wanted) loaded(outcomes, id);
  });

  test('a rule that is gone stops what ran by it, after a restart, without its bytecode', async () => {
    await using lab = new Lab();
    const wanted = program('xdp_kernel', xdp('in0'));
    loaded(await (await lab.restarted(adding('bpf_probe_read_kernel'))).apply([wanted]), wanted.id);
    const again = { ...wanted, bytecode: () => Promise.reject(new Error('the bytecode was asked for')) };
    const outcomes = await (await lab.restarted()).apply([again]);
    assert.match(failed(outcomes, wanted.id, 'not-allowed'), /bpf_probe_read_kernel/);
    assert.deepEqual(pinned(lab), []);
    assert.deepEqual(lab.composed(), []);
  });

  test('a rule that is gone stops the version before, too, while the next one cannot be had', async () => {
    await using lab = new Lab();
    const owner = program('uprobe_user', uprobe, { id: 'acme/owner' });
    const sharing = program('xdp_kernel', xdp('in0'), { id: 'acme/sharing', mapOwner: owner.id });
    const alone = program('xdp_kernel', xdp('in0'));
    const all = [owner, sharing, alone];
    const host = await lab.restarted(adding('bpf_probe_read_kernel'));
    const added = await host.apply(all);
    for (const { id } of all) loaded(added, id);
    const unreachable = (): Promise<never> =>
      Promise.reject(
        new RampartError(errorCodes.API_UNREACHABLE, { what: 'registry.example does not answer' }),
      );
    const next = { digest: 'sha256:next', bytecode: unreachable };
    const wanted = [{ ...owner, ...next }, sharing, { ...alone, ...next }];
    const outcomes = await (await lab.restarted()).apply(wanted);
    kept(outcomes, owner.id, 'bytecode');
    failed(outcomes, alone.id, 'bytecode');
    failed(outcomes, sharing.id, 'not-allowed');
    assert.equal(pinned(lab).length, 1);
    // Memory is a rule, too.
    const less = await (await lab.restarted(withMemory(8192))).apply(wanted);
    failed(less, owner.id, 'bytecode');
    assert.deepEqual(pinned(lab), []);
  });

  test('prints do nothing and are not reported; with the helper allowed, they print', async () => {
    await using lab = new Lab();
    const wanted = program('xdp_prints', xdp('in0'));
    loaded(await (await lab.host()).apply([wanted]), wanted.id);
    send('out0', 1);
    assert.equal(lab.counted(wanted.id), 0);
    const added = { ...wanted, digest: 'sha256:again' };
    loaded(await (await lab.restarted(adding('bpf_trace_printk'))).apply([added]), wanted.id);
    send('out0', 1);
    assert.equal(lab.counted(wanted.id), '12345'.length);
  });

  test("a descriptor in the agent does not give a program another program's map", async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const owner = desired('owner', xdp('in0'));
    await host.apply([owner]);
    using map = openPin(join(lab.programPins('owner'), '1', 'maps', 'packets'));
    assert.ok(map);
    const bytes = Buffer.from(bytecode('tenant'));
    // r1 = 0x01234567 ll becomes the load of a map: BPF_PSEUDO_MAP_FD in the upper half of its second byte.
    const at = bytes.indexOf(Buffer.from('1801000067452301', 'hex'));
    assert.ok(at > 0);
    bytes.writeUInt8(0x11, at + 1);
    bytes.writeInt32LE(map.fd, at + 4);
    const foreign = { bytecode: () => Promise.resolve(bytes), digest: 'sha256:foreign' };
    const wanted = program('tc_foreign', tc('in0', 'ingress'), foreign);
    const outcomes = await host.apply([owner, wanted]);
    assert.match(
      failed(outcomes, wanted.id, 'not-allowed'),
      /a map that is not in its object file \(map_not_own\)/,
    );
    assert.equal(pinned(lab).length, 1);
  });

  test('a program is not called that was not looked at: from a map, also under the name of the one that was', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = program('xdp_first', xdp('in0'), { file: 'tenant_tail' });
    assert.match(failed(await host.apply([wanted]), wanted.id, 'load'), /calls/);
    const bytes = Buffer.from(bytecode('tenant_tail'));
    // In the table of symbols, which is behind the types.
    const names = bytes.lastIndexOf('\0xdp_other\0');
    assert.ok(names > 0);
    bytes.write('xdp_first', names + 1);
    const same = { ...wanted, bytecode: () => Promise.resolve(bytes), digest: 'sha256:same' };
    assert.match(failed(await host.apply([same]), wanted.id, 'not-allowed'), /bpf_probe_read_kernel/);
  });

  test('a function of the kernel by its number is refused', async () => {
    await using lab = new Lab();
    const bytes = Buffer.from(bytecode('tenant'));
    // bpf_map_lookup_elem becomes BPF_PSEUDO_KFUNC_CALL.
    const at = bytes.indexOf(Buffer.from('8500000001000000', 'hex'));
    bytes.writeUInt8(0x20, at + 1);
    const wanted = program('tc_foreign', tc('in0', 'ingress'), { bytecode: () => Promise.resolve(bytes) });
    const outcomes = await (await lab.host()).apply([wanted]);
    assert.match(failed(outcomes, wanted.id, 'not-allowed'), /of the kernel by its number/);
  });

  test('a type of map that reaches further is refused', async () => {
    await using lab = new Lab();
    const wanted = program('xdp_stacks', xdp('in0'), { file: 'tenant_map' });
    const outcomes = await (await lab.host()).apply([wanted]);
    const message = failed(outcomes, wanted.id, 'not-allowed');
    assert.match(
      message,
      /^The map samples has type stack_trace, .* \(map_type_not_allowed\)\. Use one of hash, /,
    );
    assert.deepEqual(pinned(lab), []);
  });

  test('refuses two maps of one name, as only one would be shared', async () => {
    await using lab = new Lab();
    // A name with a dot is invalid in C: such maps are pinned by number, each for itself.
    const owner = program('xdp_count', xdp('in0'), {
      id: 'acme/owner',
      bytecode: () => Promise.resolve(renamed(bytecode('count'), 'packets', 'pack.ts')),
    });
    const one = renamed(bytecode('tenant_map'), 'packets', 'pack.ts');
    const two = withOffsets(renamed(one, 'samples', 'pack.ts'));
    const sharing = (digest: string, bytes: Uint8Array) =>
      program('xdp_stacks', xdp('in0'), {
        ...{ digest, bytecode: () => Promise.resolve(bytes) },
        mapOwner: 'acme/owner',
      });
    const host = await lab.host();
    const outcomes = await host.apply([owner, sharing('sha256:two', two)]);
    loaded(outcomes, 'acme/owner');
    assert.match(
      failed(outcomes, 'acme/xdp_stacks', 'not-allowed'),
      /two maps named pack\.ts \(map_not_own\)\./,
    );
    const other = await host.apply([owner, sharing('sha256:one', one)]);
    assert.match(failed(other, 'acme/xdp_stacks', 'not-allowed'), /The map samples has type stack_trace/);
    assert.equal(pinned(lab).length, 1);
  });

  test('a map of programs is not shared: what one put there would run on without it', async () => {
    await using lab = new Lab();
    const owner = program('xdp_itself', xdp('in0'), { file: 'tenant_itself', id: 'acme/owner' });
    const sharing = { ...owner, id: 'acme/sharing', mapOwner: owner.id };
    const outcomes = await (await lab.host()).apply([owner, sharing]);
    loaded(outcomes, owner.id);
    assert.match(
      failed(outcomes, sharing.id, 'not-allowed'),
      /^The map calls has type prog_array, which .* may not share \(map_type_not_allowed\)\./,
    );
    assert.equal(pinned(lab).length, 1);
  });

  test('the verifier follows functions from each call, so that loops in them count', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = program('tc_nested', tc('in0', 'ingress'), { file: 'tenant_nested' });
    const ofCluster = { ...wanted, id: 'p', namespace: undefined };
    const outcomes = await host.apply([wanted, ofCluster]);
    const verified = ({ id }: DesiredProgram): number => {
      loaded(outcomes, id);
      using own = openPin(join(lab.programPins(id), '1', 'program'));
      return own === undefined ? 0 : programInfo(own.fd).verifiedInstructions;
    };
    const rounds = 50 * 50;
    assert.ok(verified(ofCluster) < rounds, `${verified(ofCluster)}`);
    assert.ok(verified(wanted) > rounds, `${verified(wanted)}`);
  });

  test('maps of a program, and of all programs of a namespace, are bounded', async () => {
    await using lab = new Lab();
    // Size of the array `packets`: its value, in whole pages, and the kernel's data for a map.
    const bytes = 8192;
    const one = (name: string, namespace = 'acme') =>
      program('on_uprobe', uprobe, { file: 'probes', id: `${namespace}/${name}`, namespace });
    const large = await (await lab.restarted(withMemory(4 * bytes - 1))).apply([one('a')]);
    assert.match(
      failed(large, 'acme/a', 'not-allowed'),
      /take 0\.01 MiB; .* may have 0\.01 MiB, a quarter .* \(map_memory_of_program\)\./,
    );
    assert.deepEqual(pinned(lab), []);

    const eight = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => one(name));
    const host = await lab.restarted(withMemory(8 * bytes));
    const outcomes = await host.apply([...eight, one('more'), one('x', 'other')]);
    for (const { id } of eight) loaded(outcomes, id);
    loaded(outcomes, 'other/x');
    const ninth = outcomes.get('acme/more');
    assert.ok(ninth?.state === 'failed' && ninth.mayPass);
    assert.match(
      ninth.message,
      /other programs of namespace acme have 0\.06 MiB .* \(map_memory_of_namespace\)\./,
    );
    assert.equal(pinned(lab).length, 9);
    // A running program keeps its room, wherever it is in the list; a program without room is not read again.
    const unread = {
      ...one('more'),
      bytecode: () => Promise.reject(new Error('the bytecode was asked for')),
    };
    failed(await host.apply([unread, ...eight]), 'acme/more', 'not-allowed');
    // A map that is shared is there once.
    loaded(await host.apply([...eight, { ...one('more'), mapOwner: 'acme/a' }]), 'acme/more');
    await host.apply(eight);
    loaded(await host.apply([one('more'), ...eight.slice(1)]), 'acme/more');

    // With less than before, those that were loaded last go.
    const less = await (
      await lab.restarted(withMemory(4 * bytes))
    ).apply([one('more'), ...eight.slice(1).toReversed()]);
    for (const { id } of eight.slice(1, 5)) loaded(less, id);
    for (const id of ['acme/f', 'acme/g', 'acme/h', 'acme/more']) failed(less, id, 'not-allowed');
    assert.equal(pinned(lab).length, 4);
  });

  test('maps whose owner is refused stay while another program has them, and count', async () => {
    await using lab = new Lab();
    const one = (name: string) => program('on_uprobe', uprobe, { file: 'probes', id: `acme/${name}` });
    const others = Array.from({ length: 10 }, (_, index) => one(`other${index}`));
    const sharing = { ...one('sharing'), mapOwner: 'acme/owner' };
    // Twelve times the memory of one; the next version of the owner needs that of three.
    const host = await lab.restarted(withMemory(12 * 8192));
    loaded(await host.apply([one('owner'), sharing, ...others]), 'acme/sharing');
    const next = program('uprobe_user', uprobe, { id: 'acme/owner' });
    const outcomes = await host.apply([next, sharing, ...others]);
    assert.match(failed(outcomes, 'acme/owner', 'not-allowed'), /map_memory_of_namespace/);
    kept(outcomes, 'acme/sharing', 'map-owner-not-loaded');
    assert.equal(pinned(lab).length, others.length + 1);
    // Without its owner, the map of the sharer, those of nine others and of the next version are 1 + 9 + 3.
    const without = await host.apply([next, sharing, ...others.slice(1)]);
    failed(without, 'acme/owner', 'not-allowed');
    const enough = await host.apply([next, sharing, ...others.slice(2)]);
    for (const id of ['acme/owner', 'acme/sharing']) loaded(enough, id);
  });
});
