/** The use of stdin and stdout by `rampart integrity check`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { quote } from '../../../test/kernel/quote.ts';
import { type Ended, rampart, Scene, start } from './integrity.fixture.ts';

function small(scene: Scene): void {
  scene.write('aide.conf', `${scene.tree} p+sha256\n`);
  scene.write('tree/a', 'a\n');
}

test('a report that cannot be written is not a difference', async () => {
  using scene = new Scene();
  small(scene);
  assert.equal((await scene.check('--init')).code, 0);
  const to = (file: string, ...args: string[]): Promise<Ended> =>
    start('sh', ['-c', 'out="$1"; shift; exec "$@" > "$out"', 'sh', file, rampart, ...args]).ended;
  const check = ['integrity', 'check', '-c', scene.at('aide.conf'), '--db', scene.at('db')];
  const { code, stderr } = await to('/dev/full', ...check);
  assert.match(
    stderr,
    /^rampart: cannot write the output: ENOSPC.*\. Write it elsewhere, or free some space$/m,
  );
  assert.doesNotMatch(stderr, /bug in Rampart/);
  assert.equal(code, 18);
});

test('a configuration that is typed: Ctrl-D ends it, Ctrl-C the command', async () => {
  using scene = new Scene();
  small(scene);
  const words = [rampart, 'integrity', 'check', '-c', '-', '--db', scene.at('db'), '--init'];
  const command = words.map(quote).join(' ');
  const typing = async (keys: string): Promise<Ended> => {
    const { child, ended } = start('script', ['-qec', command, '/dev/null'], null);
    // It has to wait for it.
    await delay(1000);
    child.stdin?.end(keys);
    return await ended;
  };
  const typed = await typing(`${scene.tree} p+sha256\n\x04`);
  assert.equal(typed.code, 0, typed.stdout);
  assert.match(typed.stdout, /AIDE successfully initialized/);
  const stopped = await typing('\x03');
  assert.equal(stopped.code, 130, stopped.stdout);
  assert.doesNotMatch(stopped.stdout, /cannot read/);
});
