/** Runs AIDE once: without a shell, at the lowest priority, killed when this process ends, and with limited output. */
import { spawn } from 'node:child_process';
import { processCpuMs } from '../../../lib/cri/process.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { aideOutcome, type AideOutcome } from './aide-output.ts';
import { findProgram } from './program.ts';

export interface AideCall {
  readonly program: string;
  readonly args: readonly string[];
  readonly databaseFd: number | undefined;
  readonly reportLimitBytes: number;
  /** AIDE is killed when it has used no CPU time for this long. */
  readonly stuckMs: number;
  /** Called at intervals with the CPU time used so far. */
  readonly onCpu: ((cpuMs: number) => void) | undefined;
  readonly signal: AbortSignal;
}

export interface AideRun {
  readonly outcome: AideOutcome;
  /** AIDE's output on descriptor 3. */
  readonly report: Buffer;
  /** Whether the report was longer than the limit. */
  readonly reportIsCut: boolean;
  /** AIDE's output on stderr, one character for each byte; the first 4 MiB. */
  readonly messages: string;
  readonly messagesAreCut: boolean;
}

const messagesLimit = 4 * 1024 * 1024;

/**
 * Resolves when AIDE has ended, whatever its exit code.
 *
 * @throws the reason of `signal`; {RampartError} SYSTEM if AIDE cannot be started, or is stuck
 */
export async function runAide(call: AideCall): Promise<AideRun> {
  const { signal } = call;
  signal.throwIfAborted();
  const [program = call.program, ...args] = [...(await gentle()), call.program, ...call.args];
  const child = spawn(program, args, {
    cwd: '/',
    // No locale, and UTC as in our own reports.
    env: { PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', call.databaseFd ?? 'ignore'],
  });
  const report = new Bounded(call.reportLimitBytes);
  const messages = new Bounded(messagesLimit);
  child.stdio[2]?.on('data', (chunk: Buffer) => messages.add(chunk));
  child.stdio[3]?.on('data', (chunk: Buffer) => report.add(chunk));
  // AIDE ignores SIGTERM.
  const kill = (): void => void child.kill('SIGKILL');
  let isStuck = false;
  const watch = watchCpu(child.pid, call, () => {
    isStuck = true;
    kill();
  });
  signal.addEventListener('abort', kill, { once: true });
  try {
    const [code, killedBy] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
      child.once('error', (cause) => {
        const why = cause.message;
        reject(new RampartError(errorCodes.SYSTEM, { what: `cannot start ${call.program}`, why, cause }));
      });
      child.once('close', (...ended) => resolve(ended));
    });
    signal.throwIfAborted();
    if (isStuck) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: 'AIDE was stopped',
        why: `it has made no progress for ${Math.round(call.stuckMs / 1000)} s: it appears to be waiting for a file system that does not respond, such as an NFS mount whose server is gone`,
        next: 'Unmount that file system, or exclude it in the configuration',
      });
    }
    return {
      outcome: aideOutcome(code, killedBy),
      report: report.bytes,
      reportIsCut: report.isCut,
      messages: messages.bytes.toString('latin1'),
      messagesAreCut: messages.isCut,
    };
  } finally {
    clearInterval(watch);
    signal.removeEventListener('abort', kill);
  }
}

/** How often the CPU time is read within `stuckMs`. */
const looks = 20;

/**
 * Watches the CPU time: a process that waits for an unresponsive file system uses none. Without /proc, this cannot be
 * detected.
 */
function watchCpu(
  pid: number | undefined,
  { stuckMs, onCpu }: AideCall,
  onStuck: () => void,
): NodeJS.Timeout {
  let [last, same] = [-1, 0];
  return setInterval(() => {
    const cpuMs = pid === undefined ? undefined : processCpuMs(pid);
    if (cpuMs === undefined) return;
    same = cpuMs === last ? same + 1 : 0;
    last = cpuMs;
    onCpu?.(cpuMs);
    if (same === looks) onStuck();
  }, stuckMs / looks);
}

let places: Promise<readonly (string | undefined)[]> | undefined;

/**
 * Programs that only change their own process and then execute AIDE: they set the lowest priority, and have the kernel
 * kill it when this process ends (otherwise it would run on without a reader of its report). Programs that the machine
 * lacks are omitted.
 */
async function gentle(): Promise<string[]> {
  places ??= Promise.all(['nice', 'ionice', 'setpriv'].map((name) => findProgram(name)));
  const [nice, ionice, setpriv] = await places;
  const before: string[] = [];
  if (setpriv !== undefined) before.push(setpriv, '--pdeathsig', 'KILL');
  if (nice !== undefined) before.push(nice, '-n', '19');
  if (ionice !== undefined) before.push(ionice, '-c', '3', '-t');
  return before;
}

/** Keeps the beginning of the output. The rest is read and dropped, so that the writer is not blocked. */
class Bounded {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  isCut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(chunk: Buffer): void {
    const room = this.#limit - this.#size;
    if (chunk.length > room) this.isCut = true;
    if (room <= 0) return;
    const part = chunk.subarray(0, room);
    this.#chunks.push(part);
    this.#size += part.length;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}
