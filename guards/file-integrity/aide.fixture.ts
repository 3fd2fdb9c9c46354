/** The real AIDE as an oracle: what it selects of a tree. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import {
  attributeNamed,
  checksums,
  otherChecksums,
  refusedChecksums,
  setOf,
  type AttributeSet,
} from './model/attributes.ts';
import type { Dialect } from './aide-conf/source.ts';

const probe = spawnSync('aide', ['--version'], { encoding: 'utf8' });

/** `0.18.3`; `undefined` without AIDE on this machine. */
export const aideVersion: string | undefined = /AIDE (\d+(?:\.\d+)+)/.exec(
  `${probe.stdout}${probe.stderr}`,
)?.[1];

/** How it reads aide.conf. */
export const aideDialect: Dialect = aideVersion?.startsWith('0.19.') === true ? '0.19' : '0.18';

/** Whoever puts another AIDE first in PATH says here which it is: `0.19` (test/file-integrity/aide-0.19.ts). */
const expected = process.env['RAMPART_TEST_AIDE'];
if (expected !== undefined && aideVersion?.startsWith(`${expected}.`) !== true)
  throw new Error(`the tests are to run with AIDE ${expected}, and aide in PATH is ${aideVersion ?? 'none'}`);

/** For the `skip` of a test: the reason, or `false`. */
export const withoutAide: string | false =
  aideVersion !== undefined && /^0\.1[89]\./.test(aideVersion)
    ? false
    : 'needs AIDE 0.18 or 0.19 (apt-get install aide)';

export interface Selected {
  readonly attributes: AttributeSet;
  readonly line: number;
}

export interface Verdict {
  readonly status: number | null;
  readonly messages: string;
  /** By `type:path`. */
  readonly selected: ReadonlyMap<string, Selected>;
}

/** `[X] f '/x': selective rule: '/x p' (aide.conf:1: '/x p')` of 0.18, and of 0.19 without quotes: `[x] f=ext:/x: ...`. */
const selectedLine =
  aideDialect === '0.18'
    ? /^\[X\] (.) '(.*)': \w+ rule: '.* ([^ ]*)' \(.*?aide\.conf:(\d+): /
    : /^\[[xX]\] (.)(?:=\w+)?:(.*?): \w+ rule: '.* ([^ ]*)' \(.*?aide\.conf:(\d+): /;

/** `aide --dry-init` of `root`; the configuration gets the lines that AIDE needs at its end. */
export function askAide(directory: string, root: string, conf: string, args = ['--dry-init']): Verdict {
  const file = join(directory, 'aide.conf');
  writeFileSync(
    file,
    `${conf}${root === '' ? '' : `\nroot_prefix=${root}`}\ndatabase_out=file:${join(directory, 'db')}\n`,
  );
  const run = spawnSync('aide', ['-c', file, ...args], { encoding: 'latin1', maxBuffer: 512 << 20 });
  const selected = new Map<string, Selected>();
  for (const line of run.stdout.split('\n')) {
    const match = selectedLine.exec(line);
    if (match === null) continue;
    const [, type = '', path = '', attributes = '', number] = match;
    const key = `${type}:${path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))}`;
    selected.set(key, { attributes: setFromAide(attributes), line: Number(number) });
  }
  return { status: run.status, messages: run.stderr, selected };
}

/** With sha256 for checksums that are not calculated here. */
export function setFromAide(text: string): AttributeSet {
  let set = 0;
  let hasForeign = false;
  for (const name of text.split('+')) {
    if (name === '') continue;
    const attribute = attributeNamed(name);
    if (attribute !== undefined) set |= attribute.bit;
    else if (refusedChecksums.has(name) || otherChecksums.has(name)) hasForeign = true;
    else throw new Error(`AIDE told of an attribute '${name}'`);
  }
  return hasForeign && (set & checksums) === 0 ? set | setOf('sha256') : set;
}
