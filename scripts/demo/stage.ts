/** What a part of the demo plays on: a directory, commands as a person types them, and what is compared. */
import { chmodSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { alertLines } from '../../guards/file-access/alert/alert-line-kind.ts';
import { findingLines } from '../../guards/file-integrity/status/finding-line-kind.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { type Cell, paint, renderTable, type Row } from '../../lib/output/table.ts';
import { NOBODY } from '../../lib/testing/public-checkout.fixture.ts';
import { Running } from '../../lib/testing/running.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { orAborted } from '../../lib/time/abort.ts';
import { type Lab, type LabPod, startLab } from '../../test/lab/lab.ts';
import { findProgram, type Packages } from '../../test/lab/obstacle.ts';
import type { Screen } from './screen.ts';
import { Traces } from './traces.ts';

const top = join(import.meta.dirname, '../..');
/** Loading and verifying the programs takes a second here, and half a minute on an emulated machine. */
const START_MS = 120_000;
/** What is waited for takes a second at most; this is for a machine that is busy. */
const WAIT_MS = 30_000;
/** Most questions start a process. */
const PACE_MS = 200;

export interface Part {
  /** For `--only`. */
  readonly name: string;
  readonly title: string;
  /** Whether it needs what the lab of `test/lab` does. */
  readonly hasPods?: true;
  readonly packages: Packages;
  play(stage: Stage): Promise<void>;
}

/** @throws {Error} where there is no such program. */
export function programPath(name: string): string {
  const path = findProgram(name);
  if (path === undefined) throw new Error(`the demo needs the command ${name}, which is not in PATH`);
  return realpathSync(path);
}

export const kubectl: Packages = { 'kubernetes-client': ['kubectl'] };

export interface StageOptions {
  /** A sensor mode, or `auto`. */
  readonly mode: string;
  /** Label of the pod. */
  readonly securityLevel: string;
  readonly screen: Screen;
  /** Ends the part at once; what it started is cleaned up all the same. */
  readonly signal: AbortSignal;
}

export interface Check {
  readonly what: string;
  readonly expected: string;
  /** In the same words: it is right when they are the same. */
  readonly seen: string;
  readonly note?: string | undefined;
}

/** A `rampart` that runs, and how many of its lines were taken. */
export class Rampart extends Running {
  #taken = 0;

  /** The lines up to the first one that fits, from where the ones before ended. */
  async take(fits: (line: string) => boolean, signal: AbortSignal): Promise<readonly string[]> {
    const waiting = (): string[] => this.lines.slice(this.#taken);
    await this.until(() => waiting().some(fits), signal);
    const lines = waiting().slice(0, waiting().findIndex(fits) + 1);
    this.#taken += lines.length;
    return lines;
  }

  /** All others. */
  rest(): readonly string[] {
    return this.lines.slice(this.#taken);
  }
}

interface Typed {
  readonly prompt?: string;
  /** Run without the rights of root. */
  readonly asNobody?: boolean;
  /** Typed again until the output is so. */
  readonly until?: RegExp;
}

export class Stage implements StageOptions {
  readonly mode: string;
  readonly securityLevel: string;
  readonly screen: Screen;
  readonly signal: AbortSignal;
  readonly directory: string;
  readonly traces = new Traces();
  readonly checks: Check[] = [];
  /** Those that run. */
  readonly ramparts = new Set<Rampart>();
  /** Commands are run in the network of this process. */
  networkOf: number | undefined;
  /** Ends what was started, in the reverse order. */
  readonly stack = new AsyncDisposableStack();
  readonly #env: NodeJS.ProcessEnv;

  constructor({ mode, securityLevel, screen, signal }: StageOptions) {
    [this.mode, this.securityLevel, this.screen, this.signal] = [mode, securityLevel, screen, signal];
    this.directory = realpathSync(this.stack.use(new TemporaryDirectory('rampart-demo-')).path);
    chmodSync(this.directory, 0o755);
    symlinkSync(join(top, 'examples'), this.at('examples'));
    this.traces.addDirectory(this.directory);
    const PATH = `${join(top, 'bin')}:${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
    this.#env = { ...process.env, PATH, HOME: this.directory, KUBECONFIG: this.at('data/kubeconfig') };
  }

  at(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string, mode = 0o644): void {
    writeFileSync(this.at(name), text);
    chmodSync(this.at(name), mode); // whatever the umask is
  }

  /** @param seen - Or whether it is as expected. */
  check(what: string, expected: string, seen: string | boolean, note?: string): void {
    const words = typeof seen === 'string' ? seen : seen ? expected : `not ${expected}`;
    this.checks.push({ what, expected, seen: words, note });
  }

  /** Waits for it to start; it is ended with the stage, also when that ends before. */
  async use<T extends AsyncDisposable>(what: string, starting: Promise<T>): Promise<T> {
    this.stack.defer(async () => (await starting.catch(() => undefined))?.[Symbol.asyncDispose]());
    return await this.screen.during(what, starting);
  }

  async lab(): Promise<Lab> {
    const lab = await this.use('containerd starts', startLab({ signal: this.signal }));
    this.traces.addLab(lab.directory);
    return lab;
  }

  /** Starts `rampart` as shown, and returns when it says that it is ready. */
  async rampart(words: string, ready: RegExp): Promise<Rampart> {
    this.screen.command(`rampart ${words}`);
    // setpriv becomes rampart: the process id is the same.
    const command = ['setpriv', '--pdeathsig', 'TERM', 'rampart', ...words.split(' ')];
    const rampart = this.start(command);
    this.stack.defer(async () => void (await rampart.stop()));
    this.ramparts.add(rampart);
    await this.screen.during('rampart starts', rampart.untilSaid(ready, this.patience(START_MS)));
    return rampart;
  }

  async standalone(words: string, ready = /serving https/): Promise<Rampart> {
    this.screen.command(`cd ${this.directory}`);
    const started = await this.rampart(`standalone --data data --listen 127.0.0.1:0 ${words}`, ready);
    for (const [, text] of started.stderr.matchAll(/"msg":"((?:kubeconfig|guarding) [^"]*)"/g))
      this.screen.answer(`rampart: ${text}`);
    this.screen.command('export KUBECONFIG=$PWD/data/kubeconfig');
    return started;
  }

  /** Runs a shell command as shown; returns its output, and shows that. */
  async type(command: string, how: Typed = {}): Promise<string> {
    this.screen.command(command, how.prompt);
    const said = await this.screen.during(command.split(' ')[0] ?? '', this.run(command, how));
    this.screen.answer(said);
    return said;
  }

  /** Also compares its exit code. */
  async typeChecked(what: string, command: string, exitCode: number): Promise<void> {
    const said = await this.type(`${command}; echo $?`);
    this.check(what, `exit code ${exitCode}`, `exit code ${said.split('\n').at(-1)}`);
  }

  /** Its output on stdout; on stderr where that is nothing. */
  async run(command: string, { asNobody = false, until }: Typed = {}): Promise<string> {
    const user = asNobody ? `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups`.split(' ') : [];
    return await this.until(
      async () => {
        const { stdout, stderr } = await this.stack.use(this.start([...user, 'sh', '-c', command])).ended;
        return (stdout || stderr).trimEnd();
      },
      (said) => until?.test(said) ?? true,
    );
  }

  /** Asks until the answer is so; the last one where that does not come. */
  async until<T>(ask: () => Promise<T>, holds: (answer: T) => boolean): Promise<T> {
    const endsAtMs = performance.now() + WAIT_MS;
    for (;;) {
      const answer = await ask();
      if (holds(answer) || performance.now() > endsAtMs) return answer;
      await sleep(PACE_MS, undefined, { signal: this.signal });
    }
  }

  async inPod(lab: Lab, pod: LabPod, command: string): Promise<string> {
    this.screen.command(command, `${pod.name} #`);
    const [container] = pod.containers.values();
    if (container === undefined) throw new TypeError(`pod ${pod.name} has no container`);
    const { stdout, stderr } = await lab.exec(container, ['sh', '-c', command]);
    const said = (stdout || stderr).trim();
    this.screen.answer(said);
    return said;
  }

  /** Waits for a finding, and shows it; undefined when it does not come in time. */
  async hear<T>(from: Rampart, fits: (keys: T) => boolean, waitMs = WAIT_MS) {
    const hasCome = from.take((line) => fits(JSON.parse(line) as T), this.patience(waitMs));
    try {
      const line = (await this.screen.during('the finding', hasCome)).at(-1) ?? '';
      this.show(line);
      return { line, keys: JSON.parse(line) as T };
    } catch {
      this.signal.throwIfAborted();
      this.screen.answer('no alert');
      return undefined;
    }
  }

  /** A line of stdout as `rampart alerts` shows it, without the directory. */
  show(line: string): void {
    const short = line.replaceAll(`"${this.directory}"`, '""').replaceAll(`${this.directory}/`, '');
    const read = readFinding(short);
    const kind = [alertLines, findingLines].find((one) => one.kind === read?.head.kind);
    const options = { colour: this.screen.colour, nowMs: Date.now() };
    this.screen.answer((read && kind?.view(read)?.pretty(options)) ?? short);
  }

  patience(waitMs = WAIT_MS): AbortSignal {
    return AbortSignal.any([this.signal, AbortSignal.timeout(waitMs)]);
  }

  /** What runs now has to be gone later. */
  look(): void {
    for (const { pid } of this.ramparts) this.traces.addProcess(pid, 'rampart');
    this.traces.look();
  }

  /** Ends each `rampart`: all that it had to say was said then. */
  async end(): Promise<void> {
    this.look();
    for (const rampart of this.ramparts) {
      this.ramparts.delete(rampart);
      const { code } = await this.screen.during('rampart ends', rampart.stop());
      this.check('end of rampart', 'exit code 0', `exit code ${code}`);
    }
  }

  /** The caller sees to its end. */
  start(command: readonly string[]): Rampart {
    this.signal.throwIfAborted();
    const network =
      this.networkOf === undefined ? [] : ['nsenter', `--target=${this.networkOf}`, '--net', '--'];
    return new Rampart([...network, ...command], { cwd: this.directory, env: this.#env });
  }
}

/**
 * Plays a part, cleans up, looks for what is left, and shows what was as expected.
 *
 * @throws what the part throws, after that.
 */
export async function show(part: Part, title: string, options: StageOptions): Promise<readonly Check[]> {
  const { screen, signal } = options;
  const stage = new Stage(options);
  const { checks, traces, stack } = stage;
  let failure: { readonly error: unknown } | undefined;
  screen.heading(title);
  try {
    await orAborted(part.play(stage), signal);
    await stage.end();
  } catch (error) {
    failure = { error };
  }
  stage.look();
  await screen.during('cleaning up', stack.disposeAsync());
  const left = (await screen.during('looking for what is left', traces.remains())).join(', ');
  if (failure !== undefined) {
    if (left !== '') screen.line(`Left on this machine: ${left}`);
    throw failure.error;
  }
  signal.throwIfAborted();
  stage.check('left on the machine', 'nothing', left || 'nothing');
  const gone = `Cleaned up. Looked for, and gone: ${traces.description}.`;
  screen.step(left === '' ? gone : 'Not all of it is gone.');
  const rows = checks.map(({ what, expected, seen, note }): Row => {
    const isWell = expected === seen;
    return { cells: [what, expected, resultCell(isWell)], note: isWell ? note : `seen: ${seen}` };
  });
  const { widthColumns, colour } = screen;
  screen.line(`\n${renderTable(rows, { head: ['CHECKED', 'EXPECTED', ''], widthColumns, colour })}\n`);
  const failed = failedOf(checks);
  const summary = failed === 0 ? `All ${checks.length} are` : `${failed} of ${checks.length} are not`;
  screen.line(paint(failed === 0 ? 'green' : 'red', `${summary} as expected.`, colour));
  return checks;
}

export function resultCell(isWell: boolean): Cell {
  return isWell ? { text: 'ok', style: 'green' } : { text: 'FAILED', style: 'red' };
}

export function failedOf(checks: readonly Check[]): number {
  return checks.filter(({ expected, seen }) => expected !== seen).length;
}
