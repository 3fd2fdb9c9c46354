/** The operations of the demo: real commands on files in a fresh directory, and what each should raise. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';

import { operations, type Operation, type SensorModeName } from '../../lib/sensor/modes.ts';
import { find, type Holder, runCommand, shown } from './commands.ts';
import type { Expected } from './judge.ts';
import type { WatchProcess } from './watch-process.ts';

/** Open in the {@link Scene.holder} since before the watch began. */
export const heldFile = 'held';
/** Reading it proves that every alert of the previous step has arrived. */
export const markerFile = 'marker';

/** Files under watch. */
export const watchedFiles: readonly string[] = [
  'secret',
  'tool',
  'job.sh',
  'private',
  heldFile,
  'saved',
  'reborn',
  'home/config',
  markerFile,
];

export const NOBODY = 65_534;
export const asNobody = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] as const;

export interface Step {
  /** As it is shown. */
  readonly command: string;
  /**
   * Done before. It may touch a watched file in a way that is a matter of luck to be seen: whoever creates
   * a file still has it in hand when the watch finds it.
   */
  prepare?(): Promise<void>;
  /** Makes the accesses. */
  run(): Promise<void>;
  readonly expected: readonly Expected[];
}

/** Makes the files. `directory` is there, empty, and every user may search it. */
export function createFiles(directory: string): void {
  const write = (name: string, text: string, mode: number): void => {
    writeFileSync(join(directory, name), text);
    chmodSync(join(directory, name), mode); // whatever the umask is
  };
  mkdirSync(join(directory, 'home'));
  for (const name of ['secret', heldFile, 'saved', 'reborn', 'home/config', markerFile]) {
    write(name, 'something\n', 0o644);
  }
  write('private', 'for root only\n', 0o400);
  write('job.sh', '#!/bin/sh\nexit 0\n', 0o755);
  copyFileSync(realpathSync(find('true')), join(directory, 'tool'));
  chmodSync(join(directory, 'tool'), 0o755);
}

export interface Scene {
  readonly directory: string;
  readonly watch: WatchProcess;
  readonly holder: Holder;
  readonly signal: AbortSignal;
}

/** The steps, in their order. */
export function stepsOf({ directory, watch, holder, signal }: Scene): readonly Step[] {
  const [cat, sh] = [realpathSync(find('cat')), realpathSync(find('sh'))];
  const run = (command: readonly string[], exitCode = 0) =>
    runCommand(command, { cwd: directory, exitCode, signal });
  const access = (
    operation: string,
    file: string,
    binary: string,
    also: Partial<Expected> = {},
  ): Expected => ({
    operation: operationOf(operation),
    file,
    binary,
    uid: 0,
    verdict: 'allowed',
    ...also,
  });
  const step = (command: readonly string[], ...expected: readonly Expected[]): Step => ({
    command: shown(command),
    run: () => run(command),
    expected,
  });
  /** A program becomes itself at the exec tracepoint; when its permission is asked it is still the caller. */
  const executed = (file: string): string =>
    watch.mode === ('raw_tracepoint' satisfies SensorModeName) ? join(directory, file) : sh;
  const replaced = /saved is now inode/;

  return [
    step(['cat', 'secret'], access('read', 'secret', cat)),
    step(['sh', '-c', 'echo more >> secret'], access('append', 'secret', sh)),
    step(['sh', '-c', 'echo other > secret'], access('write', 'secret', sh)),
    step(['sh', '-c', 'exec 3<> secret'], access('read-write', 'secret', sh)),
    step(
      ['perl', '-e', 'truncate("secret", 3) or die'],
      access('truncate', 'secret', realpathSync(find('perl')), {
        unseenHere: truncationUnseen(directory, watch.mode),
      }),
    ),
    {
      command: 'ln secret second; cat second',
      run: async () => {
        await run(['ln', 'secret', 'second']);
        await run(['cat', 'second']);
      },
      expected: [
        access('link', 'secret', realpathSync(find('ln')), { unseenHere: linkUnseen() }),
        access('hard-link', 'secret', cat),
      ],
    },
    {
      command: 'ln -s secret link; cat link',
      run: async () => {
        await run(['ln', '-s', 'secret', 'link']);
        await run(['cat', 'link']);
      },
      expected: [access('symlink', 'secret', cat)],
    },
    step(['sh', '-c', './tool'], access('execute', 'tool', executed('tool'))),
    step(
      ['sh', '-c', './job.sh'],
      access('script', 'job.sh', sh),
      access('read', 'job.sh', sh, { label: 'read by interpreter' }),
    ),
    {
      command: '(uid 65534) cat private',
      run: () => run([...asNobody, 'cat', 'private'], 1),
      expected: [access('denied', 'private', cat, { uid: NOBODY, verdict: 'denied' })],
    },
    {
      command: '(uid 65534) test -r private',
      run: () => run([...asNobody, 'test', '-r', 'private'], 1),
      expected: [access('check', 'private', realpathSync(find('test')), { uid: NOBODY, verdict: 'denied' })],
    },
    {
      command: 'cat <&3, opened before the watch',
      run: () => holder.read(signal),
      expected: [access('open-descriptor-read', 'held', cat)],
    },
    step(
      ['chmod', '0600', 'secret'],
      access('chmod', 'secret', realpathSync(find('chmod')), { unseenHere: changesUnseen(watch.mode) }),
    ),
    {
      command: 'mv new saved; cat saved',
      run: async () => {
        await run(['sh', '-c', 'echo new > new']);
        await run(['mv', '-f', 'new', 'saved']);
        await watch.says(replaced);
        await run(['cat', 'saved']);
      },
      expected: [
        access('replace', 'saved', realpathSync(find('mv')), { unseenHere: changesUnseen(watch.mode) }),
        access('read', 'saved', cat, { label: 'read after rename over' }),
      ],
    },
    {
      command: 'rm reborn; echo again > reborn; cat reborn',
      prepare: async () => {
        await run(['rm', '-f', 'reborn']);
        await watch.says(/reborn does not exist/);
        await run(['sh', '-c', 'echo again > reborn']);
        await watch.says(/reborn is now inode/);
      },
      run: () => run(['cat', 'reborn']),
      expected: [access('read', 'reborn', cat, { label: 'read after recreation' })],
    },
    {
      command: 'mv home away; mv away home; cat home/config',
      run: async () => {
        await run(['mv', 'home', 'away']);
        await watch.says(/home\/config does not exist/);
        await run(['mv', 'away', 'home']);
        await watch.says(/home\/config is now inode/);
        await run(['cat', 'home/config']);
      },
      expected: [access('read', 'home/config', cat, { label: 'read after parent moved' })],
    },
  ];
}

/** Filesystems that gave no sign of a truncation by path before kernel 6.13: tmpfs, xfs, overlay (statfs(2)). */
const silentFileSystems: ReadonlySet<number> = new Set([0x01021994, 0x58465342, 0x794c7630]);

function isBlindToChanges(mode: SensorModeName): boolean {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  return mode === 'raw_tracepoint' && (major < 6 || (major === 6 && minor < 13));
}

function changesUnseen(mode: SensorModeName): string | undefined {
  return isBlindToChanges(mode) ? 'before kernel 6.13 this mode does not see it' : undefined;
}

function truncationUnseen(directory: string, mode: SensorModeName): string | undefined {
  return isBlindToChanges(mode) && silentFileSystems.has(statfsSync(directory).type)
    ? 'before kernel 6.13 this filesystem gives no sign of it'
    : undefined;
}

function linkUnseen(): string | undefined {
  return readFileSync('/proc/sys/fs/protected_hardlinks', 'utf8').trim() === '0'
    ? 'fs.protected_hardlinks is off, so the kernel asks nothing'
    : undefined;
}

function operationOf(name: string): Operation {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(`lib/sensor/modes.ts has no operation ${name}`);
  return operation;
}
