// npm's facts about the Node.js versions that the README requires.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import manifest from '../package.json' with { type: 'json' };
import lock from '../package-lock.json' with { type: 'json' };

/** The last alternative of `^20.19.0 || >=22.12.0`, as one number. */
function leastOf(range: string): number {
  const [, major = '0', minor = '0'] = /(\d+)(?:\.(\d+))?(?:\.\d+)?\s*$/.exec(range) ?? [];
  return Number(major) * 1000 + Number(minor);
}

test('each dependency takes the Node.js that the README asks for, so that npm ci does not warn', () => {
  const least = leastOf(manifest.engines.node);
  const packages: Readonly<Record<string, object>> = lock.packages;
  const refusing = Object.entries(packages).flatMap(([name, one]) => {
    const engines: unknown = 'engines' in one ? one.engines : undefined;
    const range = typeof engines === 'object' && engines !== null && 'node' in engines ? engines.node : '';
    return typeof range === 'string' && leastOf(range) > least ? [`${name} ${range}`] : [];
  });
  assert.deepEqual(refusing, []);
  const asked = /Node\.js >= (\S+) with npm/;
  for (const file of ['README.md', 'CONTRIBUTING.md']) {
    const text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
    assert.equal(`>=${asked.exec(text)?.[1]}`, manifest.engines.node, file);
  }
});
