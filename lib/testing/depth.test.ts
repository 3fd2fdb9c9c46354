import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

const script = `
import * as fc from ${JSON.stringify(import.meta.resolve('./fast-check.fixture.ts'))};
import { alternate, sampled, scaled } from ${JSON.stringify(import.meta.resolve('./depth.fixture.ts'))};
const given = [];
let runs = 0;
fc.assert(fc.property(fc.nat(), (one) => void given.push(one)), { numRuns: 500, examples: [[1], [2]] });
fc.assert(fc.property(fc.nat(), () => void runs++), { numRuns: 500, min: 400 });
const cells = Array.from({ length: 100 }, (_, at) => at);
console.log(JSON.stringify({ scaled: [scaled(1000), scaled(50), scaled(3), scaled(1000, 700)], sampled: sampled(cells), alternate: alternate([0, 1, 2]), given, runs }));
`;

interface Reported {
  readonly scaled: readonly number[];
  readonly sampled: readonly number[];
  readonly alternate: readonly number[];
  readonly given: readonly number[];
  readonly runs: number;
}

function run(environment: Readonly<Record<string, string>>): {
  readonly reported: Reported | undefined;
  readonly stderr: string;
} {
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
    env: environment,
  });
  return { reported: stdout === '' ? undefined : (JSON.parse(stdout) as Reported), stderr };
}

suite('the depth of the tests', () => {
  test('by default a tenth, never fewer than the least', () => {
    const { reported } = run({});
    assert.deepEqual(reported?.scaled, [100, 10, 3, 700]);
    assert.deepEqual([reported.sampled.length, reported.given.length, reported.runs], [10, 52, 400]);
    assert.deepEqual(reported.given.slice(0, 2), [1, 2]);
  });
  test('depth 1 runs everything, depth 2 twice as much', () => {
    const { reported: all } = run({ RAMPART_TEST_DEPTH: '1' });
    assert.deepEqual(all?.scaled, [1000, 50, 3, 1000]);
    assert.deepEqual([all.sampled.length, all.given.length, all.runs], [100, 502, 500]);
    const { reported: more } = run({ RAMPART_TEST_DEPTH: '2' });
    assert.deepEqual(more?.scaled, [2000, 100, 6, 2000]);
    assert.equal(more.sampled.length, 100);
  });
  test('a seed repeats what chance chose, another one chooses otherwise', () => {
    const [one, again, other] = ['1', '1', '2'].map((seed) => run({ RAMPART_TEST_SEED: seed }).reported);
    assert.deepEqual(one, again);
    assert.notDeepEqual(one?.sampled, other?.sampled);
    assert.deepEqual([one?.alternate, other?.alternate], [[1], [0, 2]]);
    assert.notDeepEqual(one?.given, other?.given);
    assert.deepEqual(
      one?.sampled,
      one?.sampled.toSorted((a, b) => a - b),
    );
  });
  test('repetitions for depth run from the depth of npm run test:deep on', () => {
    const deep = `
import { deepSuite, deepTest } from ${JSON.stringify(import.meta.resolve('./depth.fixture.ts'))};
deepTest('deep one', () => undefined);
deepSuite('deep suite', () => deepTest('deep two', () => undefined));
`;
    const names = (depth: string): string[] => {
      const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', deep], {
        encoding: 'utf8',
        env: { RAMPART_TEST_DEPTH: depth },
      });
      return [...stdout.matchAll(/deep (?:one|suite|two)/g)].map(([name]) => name);
    };
    assert.deepEqual(names('0.4'), []);
    assert.deepEqual([...new Set(names('0.5'))].toSorted(), ['deep one', 'deep suite', 'deep two']);
  });
  test('an invalid number is refused', () => {
    assert.match(run({ RAMPART_TEST_DEPTH: 'deep' }).stderr, /RAMPART_TEST_DEPTH must be a number, not deep/);
    assert.match(run({ RAMPART_TEST_DEPTH: '0' }).stderr, /must be greater than 0/);
    assert.match(run({ RAMPART_TEST_SEED: 'x' }).stderr, /RAMPART_TEST_SEED must be a number, not x/);
  });
});
