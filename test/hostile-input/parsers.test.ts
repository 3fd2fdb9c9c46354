// Inputs from containers, images and files of nodes take at most 64 MiB more memory than their own size.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

import { isDeep } from '../../lib/testing/depth.fixture.ts';
import { hostileParsers } from './parsers.fixture.ts';

const MAX_MIB = 64;
/** Private memory of the process, which ends with it: a parser without a bound must not take the machine's. */
const limit = `--data=${3 * 1024 ** 3}`;
const skip =
  spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit (util-linux) is not installed';

interface Reported {
  readonly name: string;
  readonly input: number;
  readonly inputMib: number;
  readonly tookMib: number;
  readonly end: string;
}

test(
  'no hostile input costs more than its limit, and each ends with a result or an error of ours',
  { skip },
  () => {
    const child = spawnSync(
      'prlimit',
      [
        limit,
        process.execPath,
        '--expose-gc',
        '--max-semi-space-size=4',
        join(import.meta.dirname, 'parse-process.fixture.ts'),
      ],
      { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    const reported = child.stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Reported);
    assert.equal(child.status, 0, `after ${JSON.stringify(reported.at(-1))}: ${child.stderr.slice(-2000)}`);
    // The worst of each; with depth, all of them.
    assert.deepEqual(
      reported.map(({ name, input }) => `${name} ${input}`),
      hostileParsers.flatMap(({ name, worst }) =>
        (isDeep ? worst : worst.slice(0, 1)).map((_, input) => `${name} ${input}`),
      ),
    );
    for (const { name, input, tookMib, end } of reported) {
      assert.doesNotMatch(end, /^not an error of ours/, `${name}, input ${input}`);
      assert.ok(tookMib <= MAX_MIB, `${name}, input ${input}: ${tookMib.toFixed()} MiB more than its bytes`);
    }
  },
);
