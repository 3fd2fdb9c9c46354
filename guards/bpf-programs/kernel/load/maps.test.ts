// Contents of maps: over new versions of programs, and between the programs that share them.
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { probeFeatures } from '../../../../lib/ebpf/features/features.ts';
import type { Attach, DesiredProgram, Outcome, ProgramHost } from '../desired.ts';
import { mapMemoryBytes } from '../tenant/map-memory.ts';
import { defaultTenantRules } from '../tenant/rules.ts';
import {
  bytecode,
  cable,
  desired,
  failed,
  ip,
  kept,
  Lab,
  loaded,
  obstacle,
  ownNetwork,
  send,
  tc,
  tcx,
  u64,
  xdp,
} from '../lab.fixture.ts';

/** Before 6.6 there is no TCX. */
const hasTcx = probeFeatures(['tcx']).attach.tcx.available;

const uprobe: Attach = {
  ...{ type: 'uprobe', functionName: 'getppid', offset: 0n, target: 'libc' },
  ...{ pid: process.pid, container: undefined },
};

function program(
  id: string,
  functionName: string,
  attach: Attach,
  { file = 'maps', ...rest }: Partial<DesiredProgram> & { readonly file?: string } = {},
): DesiredProgram {
  const bytes = () => Promise.resolve(bytecode(file));
  return desired(id, attach, { functionName, digest: `sha256:${file}`, bytecode: bytes, ...rest });
}

/** A member of one application. */
function member(
  functionName: string,
  attach: Attach,
  rest: Parameters<typeof program>[3] & { readonly id?: string } = {},
): DesiredProgram {
  const { id = functionName, ...more } = rest;
  return program(id, functionName, attach, { owner: 'BpfApplication/a', name: 'a', mapGroup: 'a', ...more });
}

const again = (one: DesiredProgram): DesiredProgram => ({ ...one, digest: `${one.digest} again` });

function lostOf(outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  return [...outcomes.values()].flatMap((one) => (one.state === 'loaded' ? (one.lost ?? []) : []));
}

async function mapIds(host: ProgramHost): Promise<ReadonlyMap<string, readonly number[]>> {
  return new Map((await host.list()).map(({ id, mapIds: ids }) => [id, ids]));
}

suite('contents of maps', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('a new version goes on with maps and variables that are alike, and has constants of its own', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const [writes, reads] = [member('xdp_write', xdp('in0', 1)), member('xdp_read', xdp('in0', 2))];
    await host.apply([writes, reads]);
    send('out0', 3);
    // table 3, hits 3
    assert.equal(lab.counted('xdp_read'), 3003);
    const outcomes = await host.apply([again(writes), again(reads)]);
    assert.deepEqual(lostOf(outcomes), []);
    send('out0', 2);
    assert.equal(lab.counted('xdp_read'), 5005);
    // `version` is in .rodata, and `hits` in .bss.
    const globals = { version: u64(7) };
    assert.deepEqual(lostOf(await host.apply([writes, reads].map((one) => ({ ...one, globals })))), []);
    send('out0', 1);
    assert.equal(lab.counted('xdp_read'), 6006);
    // `step` begins with another value: nothing has changed it, so nothing is lost.
    const step = [writes, reads].map((one) => ({ ...one, globals: { step: u64(10) } }));
    assert.deepEqual(lostOf(await host.apply(step)), []);
    send('out0', 1);
    assert.equal(lab.counted('xdp_read'), 16_007);
  });

  test('reports maps that cannot be kept and what is lost of them; keeps the other maps', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const both = (file: string): readonly DesiredProgram[] => [
      member('xdp_write', xdp('in0', 1), { file }),
      member('xdp_read', xdp('in0', 2), { file }),
    ];
    await host.apply(both('maps'));
    send('out0', 3);
    const lost = lostOf(await host.apply(both('maps_changed')));
    assert.deepEqual(lost, [
      'The map table is a new one, without the 1 entry of the one before: its shape has changed (value size 16 now, 8 before).',
      'The global variables in .bss have their first values again: their places or first values have changed.',
    ]);
    assert.equal(lab.counted('xdp_read'), 3003);
    assert.equal(lab.counted('xdp_write', 'named'), 3);
    send('out0', 1);
    assert.equal(lab.counted('xdp_read'), 1001);
    // Once, and nothing where nothing was.
    assert.deepEqual(lostOf(await host.apply(both('maps_changed'))), []);
    await host.apply([]);
    await host.apply(both('maps'));
    assert.deepEqual(lostOf(await host.apply(both('maps_changed'))), []);
    const other = member('xdp_count', xdp('in0'), { file: 'count', id: 'xdp_write' });
    assert.deepEqual(lostOf(await host.apply([other])), [
      'The map events is gone: the new version has none of that name.',
    ]);
  });

  test('owner and sharers keep their maps when the owner is loaded again, by a later process too', async () => {
    await using lab = new Lab();
    const owner = program('owner', 'xdp_write', xdp('in0', 1));
    const sharer = program('sharer', 'xdp_read', xdp('in0', 2), { mapOwner: 'owner' });
    const first = await (await lab.host()).apply([owner, sharer]);
    send('out0', 3);
    const host = await lab.restarted();
    const second = await host.apply([again(owner), sharer]);
    assert.notEqual(loaded(second, 'owner'), loaded(first, 'owner'));
    // It has the maps already.
    assert.equal(loaded(second, 'sharer'), loaded(first, 'sharer'));
    send('out0', 1);
    // Variables are of each.
    assert.equal(lab.counted('sharer'), 4000);
    // A sharer that is loaded again, and one that has lost its owner.
    loaded(await host.apply([again(owner), again(sharer)]), 'sharer');
    kept(await (await lab.restarted()).apply([again(sharer)]), 'sharer', 'map-owner-not-found');
    send('out0', 1);
    assert.equal(lab.counted('sharer'), 4000);
    // The next owner has a map of its own, which is shared then; what was in the other one is gone.
    const last = await (
      await lab.host()
    ).apply([
      { ...owner, id: 'other' },
      { ...sharer, mapOwner: 'other' },
    ]);
    loaded(last, 'sharer');
    assert.match(
      lostOf(last).join('\n'),
      /The map table .* 1 entry .*: it is that of the program whose maps are shared\./,
    );
    // Without an owner, it does not go on with the maps of another one.
    const alone = await (
      await lab.host()
    ).apply([{ ...owner, id: 'other' }, program('sharer', 'xdp_read', xdp('in0', 2))]);
    loaded(alone, 'sharer');
    const ids = await mapIds(await lab.host());
    assert.ok(
      !ids
        .get('sharer')
        ?.some((id) => ids.get('other')?.includes(id) === true && id !== lab.mapInfo('other', 'named').id),
    );
  });

  test('an owner of another shape leaves its sharers the maps that they have', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const owner = (file: string) => program('owner', 'xdp_write', xdp('in0', 1), { file });
    const sharer = program('sharer', 'xdp_read', xdp('in0', 2), { mapOwner: 'owner' });
    const first = await host.apply([owner('maps'), sharer]);
    send('out0', 3);
    const outcomes = await host.apply([owner('maps_changed'), sharer]);
    loaded(outcomes, 'owner');
    assert.match(
      kept(outcomes, 'sharer', 'load', loaded(first, 'sharer')),
      /The map table of .* cannot be shared with .*: value size 8 here, 16 there/,
    );
    send('out0', 1);
    assert.equal(lab.counted('sharer'), 3000);
    const next = program('sharer', 'xdp_read', xdp('in0', 2), { file: 'maps_changed', mapOwner: 'owner' });
    loaded(await host.apply([owner('maps_changed'), next]), 'sharer');
  });

  test('programs of an application have the maps of one load, on all interfaces, and those that come later', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    cable('in1', 'out1');
    const reads = member('tc_read', tc('in0', 'ingress'));
    const writes = ['in0', 'in1'].map((name) => member('xdp_write', xdp(name), { id: `write-${name}` }));
    const first = await host.apply([...writes, reads]);
    // One program at two places.
    assert.equal(loaded(first, 'write-in0'), loaded(first, 'write-in1'));
    send('out0', 2);
    send('out1', 3);
    send('out0', 1);
    assert.equal(lab.counted('tc_read'), 6006);
    const entry = member('on_entry', uprobe);
    const notAsked = () => Promise.reject(new Error('the bytecode was asked for'));
    const more = [
      ...[...writes, reads].map((one) => ({ ...one, bytecode: notAsked })),
      entry,
      // The same function at the same place is another program, with the same maps.
      member('xdp_write', xdp('in1', 60), { id: 'twice' }),
      ...(hasTcx
        ? [
            member('tcx_write', tcx('in1', 'ingress', 1)),
            member('tcx_write', tcx('in1', 'ingress', 2), { id: 'tcx-twice' }),
          ]
        : []),
    ];
    const second = await host.apply(more);
    for (const { id } of more) loaded(second, id);
    assert.equal(loaded(second, 'write-in0'), loaded(first, 'write-in0'));
    assert.notEqual(loaded(second, 'twice'), loaded(first, 'write-in1'));
    assert.ok(process.ppid > 0);
    send('out1', 1);
    const written = 6 + 1 + (hasTcx ? 4 : 2);
    send('out0', 1);
    assert.equal(lab.counted('tc_read'), (written + 1) * 1001);
    // All of them go on, also without the one that was loaded first, and in a later process.
    const later = await lab.restarted();
    const { bytecode: bytes } = entry;
    const third = await later.apply(more.slice(1).map((one) => again({ ...one, bytecode: bytes })));
    for (const { id } of more.slice(1)) loaded(third, id);
    send('out1', 1);
    send('out0', 1);
    assert.equal(lab.counted('tc_read') % 1001, 0);
    assert.ok(lab.counted('tc_read') > (written + 1) * 1001);
    await later.apply([]);
    ip('link del in1');
  });

  test('one program of an application that is refused takes no other with it, unless it is asked to', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const rest = { allOrNothing: true };
    const all = (more: object = {}) => [
      member('xdp_write', xdp('in0', 1), more),
      member('xdp_refused', xdp('in0', 2), more),
      member('none', xdp('in0', 3), more),
      member('xdp_read', xdp('in0', 4), more),
    ];
    const nothing = await host.apply(all(rest));
    for (const id of ['xdp_write', 'xdp_read'])
      assert.match(failed(nothing, id, 'bytecode'), /none, .* no program none/);
    assert.deepEqual(await host.list(), []);
    const some = await host.apply(all());
    assert.match(failed(some, 'xdp_refused', 'load'), /invalid access to packet/);
    failed(some, 'none', 'bytecode');
    send('out0', 2);
    assert.equal(lab.counted('xdp_read'), 2002);
    // One that is known to be refused is not tried, and the others are not without it.
    const blocked = { state: 'failed', reason: 'load', message: 'Why.', mayPass: false } as const;
    const tried = all(rest).map((one) => again({ ...one, blocked: one.id === 'none' ? blocked : undefined }));
    assert.equal(
      kept(await host.apply(tried), 'xdp_write', 'load'),
      'none, which belongs to the same application, cannot be loaded: Why.',
    );
    // For the next version, either all or none.
    const next = await host.apply(
      all(rest)
        .filter(({ id }) => id !== 'none')
        .map(again),
    );
    for (const id of ['xdp_write', 'xdp_read'])
      assert.match(kept(next, id, 'load'), /xdp_refused, which belongs to/);
    send('out0', 1);
    assert.equal(lab.counted('xdp_read'), 3003);
  });

  test('maps pinned by name are shared within a namespace, and not with others', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const of = (id: string, namespace?: string, file = 'maps') =>
      program(id, 'xdp_write', xdp('in0'), { namespace, file, owner: `X/${id}` });
    const all = [of('a'), of('b', undefined, 'maps_changed'), of('acme/a', 'acme'), of('acme/b', 'acme')];
    for (const [id, outcome] of await host.apply(all)) assert.equal(outcome.state, 'loaded', id);
    send('out0', 1);
    assert.deepEqual(
      all.map(({ id }) => lab.counted(id, 'named')),
      [2, 2, 2, 2],
    );
    assert.equal(lab.counted('a', 'table'), 1);
    assert.notEqual(lab.mapInfo('a', 'named').id, lab.mapInfo('acme/a', 'named').id);
    // It is there as long as one of them is; a new version has it, too.
    await host.apply(all.slice(1).map(again));
    send('out0', 1);
    assert.equal(lab.counted('b', 'named'), 3);
    await host.apply([]);
    await host.apply([of('b')]);
    assert.equal(lab.counted('b', 'named'), 0);
  });

  test('programs that the file puts into a map are those of its version', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const calls = program('p', 'xdp_itself', xdp('in0'), { file: 'tenant_itself' });
    loaded(await host.apply([calls]), 'p');
    const { id } = lab.mapInfo('p', 'calls');
    loaded(await host.apply([again(calls)]), 'p');
    assert.notEqual(lab.mapInfo('p', 'calls').id, id);
  });

  test('maps of a namespaced application count once', async () => {
    await using lab = new Lab();
    const tenant = (functionName: string, attach: Attach) =>
      program(`acme/${functionName}`, functionName, attach, {
        ...{ namespace: 'acme', owner: 'BpfNsApplication/acme/a', mapGroup: 'acme/a' },
      });
    const members = [
      tenant('xdp_write', xdp('in0')),
      tenant('xdp_read', xdp('in0', 60)),
      tenant('tc_read', tc('in0', 'ingress')),
    ];
    const outcomes = await (await lab.host()).apply(members);
    for (const { id } of members) loaded(outcomes, id);
    const [first = ''] = members.map(({ id }) => id);
    const names = ['table', 'packets', 'named', 'events'];
    const named = names.map((name) => mapMemoryBytes(lab.mapInfo(first, name)) ?? 0);
    // .bss, .data and .rodata have a page each.
    const bytes = named.reduce((sum, size) => sum + size, 3 * 8192);
    const alone = Array.from({ length: 5 }, (_, at) => ({
      ...tenant('on_entry', uprobe),
      ...{ id: `acme/alone${at}`, mapGroup: undefined, owner: `UprobeNsProgram/acme/alone${at}` },
    }));
    // No more than a quarter for one load; the map that is pinned by name is one of all of them.
    const host = await lab.restarted({ ...defaultTenantRules, mapMemoryBytes: 4 * bytes });
    const all = await host.apply([...members, ...alone]);
    for (const { id } of [...members, ...alone.slice(0, 4)]) loaded(all, id);
    assert.match(failed(all, 'acme/alone4', 'not-allowed'), /map_memory_of_namespace/);
  });
});
