import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import {
  cable,
  desired,
  kept,
  ip,
  Lab,
  loaded,
  NAME,
  obstacle,
  ownNetwork,
  send,
  xdp,
} from './lab.fixture.ts';

suite('the program host', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('runs an XDP program, which counts each packet', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([desired('count', xdp('in0'))]);
    const programId = loaded(outcomes, 'count');
    send('out0', 100);
    assert.equal(lab.counted('count'), 100);
    assert.deepEqual(await host.list(), [
      {
        id: 'count',
        owner: 'XdpProgram/count',
        programId,
        type: 'xdp',
        functionName: 'xdp_count',
        source: 'registry.example/count:v1',
        digest: 'sha256:count',
        attachPoint: 'in0',
        ...{ pod: undefined, container: undefined },
        mapIds: (await host.list())[0]?.mapIds,
      },
    ]);
  });

  test('a program that is asked for again is not touched', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const first = loaded(await host.apply([desired('count', xdp('in0'))]), 'count');
    const bytecode = () => Promise.reject(new Error('asked for'));
    const again = await host.apply([desired('count', xdp('in0'), { bytecode })]);
    assert.equal(loaded(again, 'count'), first);
    send('out0', 10);
    assert.equal(lab.counted('count'), 10);
  });

  test('while the bytecode of another version cannot be had, the one before goes on', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const first = loaded(await host.apply([desired('count', xdp('in0'))]), 'count');
    const bytecode = () =>
      Promise.reject(
        new RampartError(errorCodes.API_UNREACHABLE, { what: 'registry.example does not answer' }),
      );
    const next = desired('count', xdp('in0', 7), { digest: 'sha256:next', bytecode });
    assert.equal(
      kept(await host.apply([next]), 'count', 'bytecode', first),
      'registry.example does not answer',
    );
    send('out0', 10);
    assert.equal(lab.counted('count'), 10);
    assert.equal((await host.list())[0]?.programId, first);
    const second = loaded(
      await host.apply([{ ...next, bytecode: desired('', xdp('in0')).bytecode }]),
      'count',
    );
    assert.notEqual(second, first);
    const wrong = desired('count', xdp('in0'), { functionName: 'none' });
    assert.match(
      kept(await host.apply([wrong]), 'count', 'bytecode', second),
      /Name one of its programs: xdp_count, tc_count/,
    );
    await assert.rejects(host.apply([wrong, wrong]), /program IDs must be unique/);
  });

  test('removes programs that are no longer requested', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    await host.apply([desired('count', xdp('in0'))]);
    await host.apply([]);
    assert.ok(!existsSync(lab.programPins('count')));
    assert.deepEqual(await host.list(), []);
    assert.deepEqual(await host.remove(), []);
    assert.ok(!existsSync(join(lab.bpffs, NAME)));
    ip('link set dev in0 xdp off');
  });
});
