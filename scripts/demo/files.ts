/** The demo's first part: files of this machine under `rampart watch`, and commands that touch them. */
import { copyFileSync, mkdirSync, readFileSync, statfsSync } from 'node:fs';
import { release } from 'node:os';

import { type KiveAlert, maskOf } from '../../guards/file-access/alert/alert.ts';
import { attributesOf, describeMask, kernelBits } from '../../lib/sensor/access.ts';
import { operations, type SensorModeName } from '../../lib/sensor/modes.ts';
import { NOBODY } from '../../lib/testing/public-checkout.fixture.ts';
import { type Check, type Part, programPath, type Stage } from './stage.ts';

/** Reading it proves that every alert of the step before has arrived. */
const marker = 'marker';
const texts = ['secret', 'held', 'saved', 'reborn', 'home/config', marker];
const watched = [...texts, 'tool', 'job.sh', 'private'];

interface Step {
  readonly command: string;
  readonly asNobody?: true;
  /** What the watch says after it. */
  readonly says?: RegExp;
  /**
   * For each access an operation of lib/sensor/modes.ts, the file, and the program; and words where the operation is not enough.
   * Left out: it is a matter of luck. Whoever creates a file still has it in hand when the watch finds it.
   */
  readonly sees?: readonly string[];
}

const NONE = 'no alert';
/** Open before the watch, by a process that reads it when something comes through the pipe `gate`. */
const holds = 'exec 3< held; mkfifo gate; echo; read go < gate; exec cat <&3';
const heldOpen = 'echo > gate # cat reads what it had open before the watch';

const steps: readonly Step[] = [
  { command: 'cat secret', sees: ['read secret cat'] },
  { command: 'echo more >> secret', sees: ['append secret sh'] },
  { command: 'echo other > secret', sees: ['write secret sh'] },
  { command: 'exec 3<> secret', sees: ['read-write secret sh'] },
  { command: `perl -e 'truncate("secret", 3) or die'`, sees: ['truncate secret perl'] },
  { command: 'ln secret second; cat second', sees: ['link secret ln', 'hard-link secret cat'] },
  { command: 'ln -s secret link; cat link', sees: ['symlink secret cat'] },
  { command: './tool', sees: ['execute tool tool'] },
  { command: './job.sh', sees: ['script job.sh sh', 'read job.sh sh read by interpreter'] },
  { command: 'cat private', asNobody: true, sees: ['denied private cat'] },
  // Not the `test` of the shell, which may look at the mode alone.
  { command: 'env test -r private', asNobody: true, sees: ['check private test'] },
  { command: heldOpen, sees: ['open-descriptor-read held cat'] },
  { command: 'chmod 0600 secret', sees: ['chmod secret chmod'] },
  { command: 'echo new > new; mv -f new saved', says: /saved is now/, sees: ['replace saved mv'] },
  { command: 'cat saved', sees: ['read saved cat read after rename over'] },
  { command: 'rm -f reborn', says: /reborn does not exist/ },
  { command: 'echo again > reborn', says: /reborn is now/ },
  { command: 'cat reborn', sees: ['read reborn cat read after recreation'] },
  { command: 'mv home away', says: /home\/config does not exist/, sees: [] },
  { command: 'mv away home', says: /home\/config is now/, sees: [] },
  { command: 'cat home/config', sees: ['read home/config cat read after parent moved'] },
];

export const files: Part = {
  name: 'files',
  title: 'Files of this machine',
  packages: { 'util-linux': ['setpriv'] },
  async play(stage) {
    const { screen, directory } = stage;
    createFiles(stage);
    const holder = stage.stack.use(stage.start(['setpriv', '--pdeathsig', 'TERM', 'sh', '-c', holds]));
    await holder.until(() => holder.lines.length > 0, stage.patience());
    screen.command(`cd ${directory}`);
    const words = `watch -o json --mode ${stage.mode} ${watched.join(' ')}`;
    const watch = await stage.rampart(words, /watching \d+ paths? by /);
    const mode = /paths by (\w+);/.exec(watch.stderr)?.[1] as SensorModeName;
    screen.line(watch.stderr);
    let seen: string[] = [];
    for (const { command, asNobody = false, says, sees } of steps) {
      screen.command(command, asNobody ? `uid ${NOBODY} $` : '$');
      await stage.run(command, { asNobody });
      if (command === heldOpen) await holder.ended;
      if (says !== undefined) await watch.untilSaid(says, stage.patience());
      readFileSync(stage.at(marker));
      const isMarker = (line: string): boolean =>
        line.includes(`"path":"${stage.at(marker)}"`) && line.includes(`"tgid":${process.pid},`);
      const lines = (await watch.take(isMarker, stage.patience())).slice(0, -1);
      for (const line of lines) stage.show(line);
      if (lines.length === 0) screen.answer(NONE);
      seen.push(...lines.map((line) => accessOf(JSON.parse(line) as KiveAlert, directory)));
      if (sees === undefined || sees.length > 0) {
        const expected = sees?.map((access) => expectedOf(stage, access, mode, asNobody));
        stage.checks.push(...judge(expected ?? [], seen));
        seen = [];
      }
    }
    await stage.end();
    const totals = watch.stderr.trimEnd().split('\n').at(-1) ?? '';
    screen.line(`\n${totals}`);
    stage.check('totals of the watch', '0 folded, 0 lost', totals.endsWith(' 0 folded, 0 lost') || totals);
  },
};

function createFiles(stage: Stage): void {
  mkdirSync(stage.at('home'));
  for (const name of texts) stage.write(name, 'something\n');
  stage.write('private', 'for root only\n', 0o400);
  stage.write('job.sh', '#!/bin/sh\nexit 0\n', 0o755);
  copyFileSync(programPath('true'), stage.at('tool'));
}

/**
 * Every access that is seen here must be reported once, exactly as expected; the others not at all. What is reported besides counts
 * against the last one.
 */
export function judge(expected: readonly Omit<Check, 'seen'>[], seen: readonly string[]): Check[] {
  const others = [...seen];
  const found = expected.map(({ expected: access }) => {
    const at = others.indexOf(access);
    return at < 0 ? [] : others.splice(at, 1);
  });
  found.at(-1)?.push(...others);
  return expected.map((check, index) => ({ ...check, seen: found[index]?.join(' and ') || NONE }));
}

function expectedOf(stage: Stage, access: string, mode: SensorModeName, asNobody: boolean) {
  const [name = '', file = '', program = '', ...label] = access.split(' ');
  const what = label.join(' ') || name;
  const operation = operations.find((one) => one.name === name);
  if (operation === undefined) throw new Error(`lib/sensor/modes.ts has no operation ${name}`);
  const mask = operation.seen[mode];
  const note = mask === undefined ? operation.unseenBecause : unseenHere(name, mode, stage.directory);
  if (mask === undefined || note !== undefined) return { what, expected: NONE, note };
  // A program becomes itself at the exec tracepoint; when its permission is asked it is still the caller.
  const own = program === 'tool' && (mode === 'raw_tracepoint' ? program : programPath('sh'));
  const who = `${own || programPath(program)}${asNobody ? ` as uid ${NOBODY}, denied` : ''}`;
  return { what, expected: `${wordsOf(mask)} of ${file} by ${who}` };
}

function accessOf({ metadata, process: { uid, binary } }: KiveAlert, directory: string): string {
  const [file = '', program = ''] = [metadata.path, binary].map((path) => path.replace(`${directory}/`, ''));
  const { verdict } = metadata;
  const who = `${program}${uid === 0 ? '' : ` as uid ${uid}`}${verdict === 'allowed' ? '' : `, ${verdict}`}`;
  return `${wordsOf(maskOf(metadata))} of ${file} by ${who}`;
}

function wordsOf(mask: number): string {
  const bits = kernelBits(mask) === 0 ? '' : ` (${kernelBits(mask)})`;
  return [...describeMask(mask), ...attributesOf(mask)].join() + bits;
}

/** Filesystems that gave no sign of a truncation by path before kernel 6.13: tmpfs, xfs, overlay (statfs(2)). */
const silentFileSystems: ReadonlySet<number> = new Set([0x01021994, 0x58465342, 0x794c7630]);

/** Why this machine hides what the mode sees elsewhere. */
function unseenHere(operation: string, mode: SensorModeName, directory: string): string | undefined {
  if (operation === 'link')
    return readFileSync('/proc/sys/fs/protected_hardlinks', 'utf8').trim() === '0'
      ? 'fs.protected_hardlinks is off, so the kernel asks nothing'
      : undefined;
  const [major = 0, minor = 0] = release().split('.').map(Number);
  if (mode !== 'raw_tracepoint' || major > 6 || (major === 6 && minor >= 13)) return undefined;
  if (['chmod', 'replace'].includes(operation)) return 'before kernel 6.13 this mode does not see it';
  return operation === 'truncate' && silentFileSystems.has(statfsSync(directory).type)
    ? 'before kernel 6.13 this filesystem gives no sign of it'
    : undefined;
}
