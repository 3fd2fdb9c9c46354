import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import { cable, Lab, NAME, obstacle, ownNetwork, send } from './lab.fixture.ts';
import type { Outcome } from './desired.ts';

const skip =
  obstacle() ?? (spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit is not installed');

suite('where the machine has run out of something', { skip }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('running programs stay, and their state is reported as uncertain', async () => {
    await using lab = new Lab();
    const file = (name: string): string => JSON.stringify(join(import.meta.dirname, name));
    // No descriptors are left for sockets, so that no interface can be looked up.
    const program = `
      import { execFileSync } from 'node:child_process';
      import { closeSync, openSync } from 'node:fs';
      import { openProgramHost } from ${file('host.ts')};
      import { desired, xdp } from ${file('lab.fixture.ts')};
      import { createLogger } from ${file('../../../lib/telemetry/log.ts')};
      const host = await openProgramHost({
        bpffs: ${JSON.stringify(lab.bpffs)}, name: ${JSON.stringify(NAME)},
        stateDirectory: ${JSON.stringify(lab.state)}, logger: createLogger({ level: 'silent' }),
      });
      const wanted = [desired('a', xdp('in0', 1))];
      const [first] = (await host.apply(wanted)).values();
      if (first.state !== 'loaded') throw new Error(first.message);
      execFileSync('prlimit', ['--pid', String(process.pid), '--nofile=128']);
      const taken = [];
      for (;;) try { taken.push(openSync('/dev/null')) } catch { break }
      for (let left = 0; left < 12; left++) {
        const told = await host.apply(wanted).then((map) => map.get('a'), (error) => ({ thrown: error.message }));
        const [fd] = taken.splice(-1);
        closeSync(fd);
        if (told.state === 'loaded' && told.programId !== first.programId) throw new Error('it was loaded again');
        process.stdout.write(JSON.stringify(told) + '\\n');
      }`;
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
    });
    const reported = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Outcome | { readonly thrown: string });
    // With none at all the whole change fails; with a few of them the program; with enough nothing.
    assert.ok('thrown' in (reported[0] ?? {}), output);
    assert.ok(
      reported.some((one) => 'state' in one && one.state === 'kept' && one.failure.mayPass),
      output,
    );
    const last = reported.at(-1);
    assert.ok(last && 'state' in last && last.state === 'loaded', output);
    for (const one of reported) assert.ok('thrown' in one || one.state !== 'failed' || one.mayPass, output);
    const host = await lab.host();
    assert.deepEqual(await host.verify(), []);
    assert.deepEqual(
      (await host.list()).map(({ programId }) => programId),
      [last.programId],
    );
    send('out0', 10);
    assert.equal(lab.counted('a'), 10);
  });
});
