import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type ReadFinding, readFinding } from '../../../guard/stream/read-finding.ts';
import { access, context } from '../alert/alert.fixture.ts';
import { AlertEncoder } from '../alert/alert.ts';
import { accessPicture } from './source.ts';

const nowMs = Date.UTC(2026, 10, 21, 12);

function alert(minutesAgo: number, executable: string, more: Partial<typeof access> = {}): ReadFinding {
  const timeNs = BigInt(nowMs - minutesAgo * 60_000) * 1_000_000n;
  const read = readFinding(new AlertEncoder(context).encode({ ...access, timeNs, executable, ...more }));
  assert.ok(read);
  return read;
}

suite('which processes access which files', () => {
  test('a lane for each pair, a dot for each time; what was denied is marked', () => {
    const { items, span, notes } = accessPicture(
      [
        alert(200, '/usr/bin/cat'),
        alert(1, '/usr/bin/cat', { folded: 4 }),
        alert(1, '/usr/bin/cat'),
        alert(1, '/usr/bin/<img src=x>', { verdict: 'denied' }),
        alert(25 * 60, '/usr/bin/old'),
      ],
      nowMs,
    );
    assert.deepEqual(
      items.map(({ at, value, tone }) => [at, value, tone]),
      [
        [['/secret.txt', '/usr/bin/<img src=x>'], 1, 'bad'],
        [['/secret.txt', '/usr/bin/cat'], 1, 'warn'],
        [['/secret.txt', '/usr/bin/cat'], 6, 'warn'],
      ],
    );
    assert.equal(span?.fromMs, nowMs - 200 * 60_000);
    assert.ok(items.every(({ timeMs = 0 }) => timeMs >= (span?.fromMs ?? 0) && timeMs <= nowMs));
    assert.deepEqual(items[0]?.next?.slice(0, 3), ['alerts', '--pod', 'default/nginx-pod']);
    assert.match(items[0]?.text ?? '', /in default\/nginx-pod\/nginx: 1 access \(read\)\. 1 was denied\.$/);
    assert.deepEqual(notes, []);
  });

  test('more pairs than a picture holds are left out, and counted', () => {
    const many = Array.from({ length: 30 }, (_, at) => alert(1, `/bin/${at}`));
    const { items, notes } = accessPicture([...many, alert(1, '/bin/29')], nowMs);
    assert.deepEqual([items.length, notes], [24, ['6 lanes left out: those with the fewest accesses.']]);
    assert.ok(items.some(({ at }) => at[1] === '/bin/29'));
  });
});
