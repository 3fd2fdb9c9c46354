/** What `rampart integrity check` does with its stdin and stdout. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Ended, rampart, Scene, start } from './integrity.fixture.ts';

function small(scene: Scene): void {
  scene.write('aide.conf', `${scene.tree} p+sha256\n`);
  scene.write('tree/a', 'a\n');
}

test('a report that cannot be written is no difference', async () => {
  using scene = new Scene();
  small(scene);
  assert.equal((await scene.check('--init')).code, 0);
  const to = (file: string, ...args: string[]): Promise<Ended> =>
    start('sh', ['-c', 'out="$1"; shift; exec "$@" > "$out"', 'sh', file, rampart, ...args]).ended;
  const check = ['integrity', 'check', '-c', scene.at('aide.conf'), '--db', scene.at('db')];
  const { code, stderr } = await to('/dev/full', ...check);
  assert.match(
    stderr,
    /^rampart: cannot write the output: ENOSPC.*\. Let it go elsewhere, or make room for it\.$/m,
  );
  assert.doesNotMatch(stderr, /fault in Rampart/);
  assert.equal(code, 18);
});
