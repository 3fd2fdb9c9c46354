/**
 * A change watch for tests: opened in the mode that the environment asks for, its changes collected.
 *
 * `RAMPART_SENSOR_MODE` chooses the mode as for the sensor's tests; `fentry` has no twin here and means the best there is.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';

import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { testMode } from '../sensor.fixture.ts';
import type { ByteString, Change, ChangeLoss } from './change.ts';
import { ChangeWatch } from './change-watch.ts';
import type { ChangeWatchOptions } from './options.ts';
import { patience } from '../../testing/until.fixture.ts';

/** The sensor's mode for the tests. */
export function changeTestMode(): NonNullable<ChangeWatchOptions['mode']> {
  const mode = testMode();
  return mode === 'fentry' ? 'auto' : mode;
}

/** Since 6.13, the kernel reports each update of an inode's change time. */
export function reportsChangeTimes(): boolean {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  return major > 6 || (major === 6 && minor >= 13);
}

/**
 * Without that and without kprobes, authors are known only for inodes that become dirty: many changes have no
 * author there.
 */
export function everyChangeHasAuthor(watch: ChangeWatch): boolean {
  return watch.sensorMode === 'kprobe' || reportsChangeTimes();
}

interface Child {
  readonly pid: number;
  readonly stdout: string;
}

/** Runs a Perl program to its end. */
export function perl(cwd: string, program: string, ...args: string[]): Child {
  return runChild(cwd, 'perl', ['-MFcntl', '-e', program, ...args]);
}

/** Runs a program to its end; it must succeed. */
export function runChild(cwd: string, command: string, args: readonly string[]): Child {
  const { pid, stdout, stderr, status, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: exit ${status}: ${stderr}`);
  return { pid, stdout };
}

/** Like {@link perl}, while the event loop goes on. */
export async function perlBeside(cwd: string, program: string, ...args: string[]): Promise<number> {
  const child = spawn('perl', ['-MFcntl', '-e', program, ...args], {
    cwd,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [status] = (await once(child, 'exit')) as [number];
  if (status !== 0 || child.pid === undefined) throw new Error(`perl: exit ${status}`);
  return child.pid;
}

const MARKER = '/.marker';

/** A watch of directories below `root`; disposing it throws when it had problems. */
export class TestChangeWatch implements Disposable {
  readonly watch: ChangeWatch;
  readonly changes: Change[] = [];
  readonly losses: ChangeLoss[] = [];
  readonly problems: unknown[] = [];
  readonly #root: string;
  #markers = 0;
  #wake: (() => void) | undefined;

  constructor(root: string, options: Partial<ChangeWatchOptions> = {}) {
    this.#root = root;
    mkdirSync(`${root}${MARKER}`, { recursive: true });
    this.watch = new ChangeWatch({
      root,
      mode: changeTestMode(),
      settleMs: 10,
      paceMs: 0,
      ...options,
      onChange: (change) => {
        this.changes.push(change);
        options.onChange?.(change);
      },
      onLost: (loss) => {
        this.losses.push(loss);
        this.#wake?.();
      },
      onProblem: (problem) => this.problems.push(problem),
      onBatchEnd: () => this.#wake?.(),
    });
    this.watch.watchDirectory(MARKER);
  }

  /** The changes since the last call, once everything that happened before is reported. */
  async settled(): Promise<Change[]> {
    // When the event of the first is read, those before it are read too; the second is due after all of them.
    await this.#mark();
    await this.#mark();
    const reported = this.changes.filter((change) => !change.path.startsWith(MARKER));
    this.changes.length = 0;
    return reported;
  }

  async #mark(): Promise<void> {
    this.#markers += 1;
    const marker = `${MARKER}/${this.#markers}`;
    writeFileSync(`${this.#root}${marker}`, 'x');
    await this.until((change) => change.path === marker && change.kinds.includes('closed'));
  }

  /** Resolves with the first such change, now or later; rejects after 20 s. */
  async until(wanted: (change: Change) => boolean): Promise<Change> {
    const signal = patience();
    for (;;) {
      const found = this.changes.find(wanted);
      if (found !== undefined) return found;
      await this.#nextBatch(signal);
    }
  }

  /** Resolves when such a loss is reported; rejects after 20 s. */
  async untilLost(what: ChangeLoss['what']): Promise<void> {
    const signal = patience();
    while (!this.losses.some((loss) => loss.what === what)) await this.#nextBatch(signal);
  }

  async #nextBatch(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void =>
      reject(new Error(`waited in vain: ${JSON.stringify(this.watch.stats())} ${String(this.problems)}`));
    signal.addEventListener('abort', onAbort, { once: true });
    this.#wake = resolve;
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#wake = undefined;
    }
  }

  [Symbol.dispose](): void {
    this.watch[Symbol.dispose]();
    if (this.problems.length > 0) throw new AggregateError(this.problems, 'the watch reported problems');
  }
}

/**
 * The change of a path among these.
 *
 * @throws {Error} if it has none.
 */
export function changeOf(changes: readonly Change[], path: ByteString): Change {
  const found = changes.find((change) => change.path === path);
  if (found === undefined)
    throw new Error(`${path} is not among ${changes.map((one) => one.path).join(' ')}`);
  return found;
}

/** A change as text, for comparison: "created,closed of 4711". */
export function describeChange(change: Change): string {
  return `${change.path} ${change.kinds.join(',')} by ${change.author?.pid ?? 'nobody'}`;
}

/** A watch of `w`, which is made, below a fresh directory. */
export function watched(options?: ConstructorParameters<typeof TestChangeWatch>[1]) {
  const stack = new DisposableStack();
  const scratch = stack.use(new TemporaryDirectory());
  mkdirSync(scratch.at('w'));
  mkdirSync(scratch.at('out'));
  const watch = stack.use(new TestChangeWatch(scratch.path, options));
  assert.equal(watch.watch.watchDirectory('/w'), 'watched');
  return {
    scratch,
    watch,
    known: everyChangeHasAuthor(watch.watch),
    [Symbol.dispose]: () => stack.dispose(),
  };
}

/** Changes that have no author and could have one: that a descriptor was closed is in no record. */
export const withoutNeed = (changes: readonly Change[]): string[] =>
  changes
    .filter(({ author, kinds }) => author === undefined && kinds.join() !== 'closed')
    .map(describeChange);
