import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { before, suite, test } from 'node:test';

import { errorCodes } from '../../../../lib/errors/errors.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { bytecode, cable, desired, Lab, NAME, obstacle, ownNetwork, send, xdp } from '../lab.fixture.ts';
import type { ReadOptions } from './kept.ts';
import { type MapEvent, onlineCpus, openEvents } from './map-events.ts';

suite('events of maps', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  const program = desired('events', xdp('in0'), {
    digest: 'sha256:events',
    bytecode: () => Promise.resolve(bytecode('events')),
    functionName: 'xdp_events',
  });
  const started = async (lab: Lab): Promise<ReadOptions> => {
    await (await lab.host()).apply([program]);
    return { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
  };

  for (const map of ['ring', 'perf']) {
    test(`of ${map} are decoded as a type of the program`, async () => {
      await using lab = new Lab();
      const options = await started(lab);
      const events: MapEvent[] = [];
      let lost = 0n;
      using _reading = openEvents(
        options,
        { program: 'XdpProgram/events', map },
        {
          ...{ force: false, type: 'event' },
          onEvent: (event) => events.push(event),
          onLost: (count) => (lost += count),
          onError: (error) => assert.fail(String(error)),
        },
      );
      send('out0', 50);
      await until('all events', () => events.length === 50);
      const numbers = events.map(({ data }) => (data as { number: number }).number);
      assert.deepEqual(
        numbers.toSorted((a, b) => a - b),
        Array.from({ length: 50 }, (_, at) => at + 1),
      );
      assert.deepEqual(events[0]?.data, { number: numbers[0], name: 'packet' });
      for (const { cpu } of events) assert.equal(cpu === undefined, map === 'ring');
      assert.equal(lost, 0n);
    });
  }

  test('leaves events of a map to another process that reads them', async () => {
    await using lab = new Lab();
    const options = await started(lab);
    const request = {
      ...{ force: false, type: undefined },
      onEvent: () => undefined,
      onLost: () => undefined,
      onError: () => undefined,
    };
    const reader = `
      import { openEvents } from ${JSON.stringify(`${import.meta.dirname}/map-events.ts`)};
      const none = () => undefined;
      openEvents(${JSON.stringify(options)}, { program: 'events', map: process.argv[1] },
        { force: true, onEvent: none, onLost: none, onError: none });
      console.log('reading');`;
    for (const map of ['ring', 'perf']) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', reader, map], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      try {
        await once(child.stdout, 'data');
        assert.throws(() => openEvents(options, { program: 'events', map }, request), {
          code: errorCodes.IN_USE,
          message: new RegExp(`process ${child.pid} \\(.+\\) reads them`),
        });
        openEvents(options, { program: 'events', map }, { ...request, force: true })[Symbol.dispose]();
      } finally {
        child.kill();
        await once(child, 'exit');
      }
    }
    assert.throws(
      () => openEvents(options, { program: 'events', map: 'ring' }, { ...request, type: 'nothing' }),
      {
        code: errorCodes.INPUT,
        message: /no program that uses map ring has a type nothing/,
      },
    );
    assert.throws(() => openEvents(options, { program: 'events', map: '.data' }, request), {
      code: errorCodes.UNSUPPORTED,
    });
  });
});

test('CPUs that are online', () => {
  assert.deepEqual(onlineCpus('0-2,5\n'), [0, 1, 2, 5]);
  assert.deepEqual(onlineCpus('0\n'), [0]);
});
