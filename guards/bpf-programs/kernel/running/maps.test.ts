import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { createMap } from '../../../../lib/ebpf/bpf-call.ts';
import { granted } from '../../../../lib/ebpf/refusal.ts';
import { compareText } from '../../../../lib/output/compare-text.ts';
import { errorCodes } from '../../../../lib/errors/errors.ts';
import { bytecode, cable, desired, Lab, NAME, obstacle, ownNetwork, send, xdp } from '../lab.fixture.ts';
import { mapInfo } from '../info.ts';
import { possibleCpus } from './map-entries.ts';
import { deleteEntry, dumpMap, listMaps, lookupEntry, updateEntry } from './maps.ts';
import { readPrograms } from './programs.ts';

const any = { force: false, only: 'any' } as const;

suite('maps of programs', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  const values = desired('values', xdp('in0'), {
    digest: 'sha256:values',
    bytecode: () => Promise.resolve(bytecode('values')),
    functionName: 'xdp_values',
  });
  const optionsOf = ({ bpffs, state }: Lab) => ({ bpffs, name: NAME, stateDirectory: state });

  test('are listed, with the objects that use them; those of others on request', async () => {
    await using lab = new Lab();
    const options = optionsOf(lab);
    const inPod = { ...values, id: 'in-pod', owner: 'XdpNsProgram/shop/values', pod: 'shop/web' };
    await (
      await lab.host()
    ).apply([values, { ...inPod, namespace: 'shop', container: 'app', attach: xdp('out0') }]);
    using other = granted(
      'a map',
      createMap(2, 3, { keySizeBytes: 4, valueSizeBytes: 8, name: 'of_another' }),
    );
    const own = listMaps(options, false);
    assert.deepEqual(
      own
        .map(({ name, type, keySizeBytes: key, maxEntries, usedBy, places }) =>
          [
            name,
            type,
            key,
            maxEntries,
            ...usedBy,
            ...places.flatMap(({ pod, container }) => [pod, container]),
          ].join(' '),
        )
        .toSorted(compareText),
      ['each_cpu percpu_array 4 2', 'ring ringbuf 0 4096', 'table hash 4 8'].flatMap((map) => [
        `${map} XdpNsProgram/shop/values shop/web app`,
        `${map} XdpProgram/values`,
      ]),
    );
    for (const { own: isOwn, memoryBytes, type } of own)
      assert.ok(isOwn && (memoryBytes > 0 || type === 'ringbuf'), `${type}: ${memoryBytes}`);
    const all = listMaps(options, true);
    const { id } = mapInfo(other.fd);
    const listed = all.find((one) => one.id === id);
    assert.deepEqual([listed?.name, listed?.own, listed?.usedBy], ['of_another', false, []]);
    for (const one of own) assert.ok(all.some((other_) => other_.id === one.id && other_.own));
  });

  test('entries are looked up, set and removed by their types', async () => {
    await using lab = new Lab();
    const options = optionsOf(lab);
    await (await lab.host()).apply([values]);
    const table = { program: 'values', map: 'table' };
    const key = '{"port":443,"bytes":[0,1]}';
    assert.equal(lookupEntry(options, table, key), undefined);
    assert.equal(deleteEntry(options, table, key, any), false);
    const value = '{"many":1152921504606846977,"name":"eth1","colour":"RED"}';
    const set = updateEntry(options, table, { key, value }, any);
    assert.deepEqual(set, {
      key: { port: 443, bytes: [0, 1] },
      value: {
        ...{ many: '1152921504606846977', below: 0, yes: false, name: 'eth1', colour: 'RED' },
        ...{ low: 0, high: 0, whole: 0, halves: [0, 0] },
      },
    });
    const changed = updateEntry(options, table, { key: 'hex:bb010001', value: '{"below":-7}' }, any);
    assert.deepEqual(changed, { ...set, value: { ...(set.value as object), below: -7 } });
    assert.deepEqual(lookupEntry(options, table, key), changed);
    assert.throws(() => updateEntry(options, table, { key, value }, { force: false, only: 'noexist' }), {
      code: errorCodes.EXISTS,
    });
    assert.equal(deleteEntry(options, table, key, any), true);
    assert.throws(() => updateEntry(options, table, { key, value }, { force: false, only: 'exist' }), {
      code: errorCodes.NOT_FOUND,
    });
    assert.throws(() => lookupEntry(options, table, '{"port":443}'), {
      code: errorCodes.INPUT,
      message: /^key\.bytes is missing/,
    });
    assert.throws(() => lookupEntry(options, table, 'hex:00'), /it must be hex: and 8 hexadecimal digits/);
    assert.throws(() => lookupEntry(options, { program: 'values', map: 'ring' }, '0'), {
      code: errorCodes.UNSUPPORTED,
    });
  });

  test('one value sets all CPUs of a per-CPU map', async () => {
    await using lab = new Lab();
    const options = optionsOf(lab);
    await (await lab.host()).apply([values]);
    const each = { program: 'values', map: 'each_cpu' };
    const cpus = Array.from({ length: possibleCpus() }, (_, cpu) => cpu);
    assert.deepEqual(
      updateEntry(options, each, { key: '1', value: '7' }, any).value,
      cpus.map(() => 7),
    );
    assert.deepEqual(updateEntry(options, each, { key: '1', value: JSON.stringify(cpus) }, any).value, cpus);
    assert.throws(() => deleteEntry(options, each, '1', any), /this type of map keeps all its keys/);
  });

  test('a global variable is changed while its program runs, and a constant is not', async () => {
    await using lab = new Lab();
    const options = optionsOf(lab);
    await (await lab.host()).apply([desired('a', xdp('in0'))]);
    const [program] = readPrograms(options);
    const data = { program: String(program?.programId), map: '.data' };
    assert.deepEqual(updateEntry(options, data, { key: '0', value: '{"step":5}' }, any).value, { step: 5 });
    send('out0', 3);
    assert.deepEqual(lookupEntry(options, { program: 'XdpProgram/a', map: 'packets' }, '0'), {
      key: 0,
      value: 15,
    });
    const constants = { program: 'a', map: '.rodata' };
    assert.throws(
      () => updateEntry(options, constants, { key: '0', value: '{"xdp_verdict":1}' }, any),
      /it is frozen: its values are constants of its programs/,
    );
  });

  test('a map of others is read, and changed only by force', async () => {
    await using lab = new Lab();
    const options = optionsOf(lab);
    using other = granted(
      'a map',
      createMap(2, 3, { keySizeBytes: 4, valueSizeBytes: 8, name: 'a_foreign_map_x' }),
    );
    const foreign = { program: 'id', map: String(mapInfo(other.fd).id) };
    assert.deepEqual(lookupEntry(options, foreign, '2'), { key: 2, value: '0000000000000000' });
    const written = { key: '2', value: 'hex:0100000000000000' };
    assert.throws(() => updateEntry(options, foreign, written, any), {
      code: errorCodes.INPUT,
      message: /no program of Rampart uses it.*--force/,
    });
    assert.throws(() => deleteEntry(options, foreign, '2', any), { code: errorCodes.INPUT });
    updateEntry(options, foreign, written, { ...any, force: true });
    assert.deepEqual(dumpMap(options, 'name', 'a_foreign_map_x').entries[2], {
      key: 2,
      value: '0100000000000000',
    });
    // As it is shown.
    updateEntry(options, foreign, { key: '2', value: '0200000000000000' }, { ...any, force: true });
    assert.throws(() => updateEntry(options, foreign, { key: '2', value: '2' }, { ...any, force: true }), {
      code: errorCodes.INPUT,
      message: /hex: and 16 digits/,
    });
    assert.throws(() => dumpMap(options, 'id', '4000000000'), { code: errorCodes.NOT_FOUND });
    assert.throws(() => dumpMap(options, 'pinned', '/sys/fs/bpf/nothing/here'), {
      code: errorCodes.NOT_FOUND,
    });
  });
});
