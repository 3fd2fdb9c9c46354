/**
 * The real AIDE as an oracle: what it selects of a tree.
 *
 * @module
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { attributeNamed, checksums, refusedChecksums, setOf, type AttributeSet } from './attributes.ts';

const probe = spawnSync('aide', ['--version'], { encoding: 'utf8' });

/** `0.18.3`; `undefined` without AIDE on this machine. */
export const aideVersion: string | undefined = /AIDE (\d+(?:\.\d+)+)/.exec(
  `${probe.stdout}${probe.stderr}`,
)?.[1];

/** For the `skip` of a test: the reason, or `false`. */
export const withoutAide: string | false =
  aideVersion?.startsWith('0.18.') === true ? false : 'needs AIDE 0.18 (apt-get install aide)';

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
    const match = /^\[X\] (.) '(.*)': \w+ rule: '.* ([^ ]*)' \(.*?aide\.conf:(\d+): /.exec(line);
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
    else if (refusedChecksums.has(name)) hasForeign = true;
    else throw new Error(`AIDE told of an attribute '${name}'`);
  }
  return hasForeign && (set & checksums) === 0 ? set | setOf('sha256') : set;
}
