/**
 * Runs the iptables and ipset programs without a shell, with their input on stdin.
 */
import { spawn } from 'node:child_process';

import type { KeptNamespace } from '../namespace.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

export interface ProgramCall {
  readonly program: string;
  readonly args: readonly string[];
  readonly input?: string;
  readonly namespace: KeptNamespace;
  readonly signal?: AbortSignal | undefined;
}

export interface ProgramEnd {
  /** Undefined: it was killed by a signal. */
  readonly code: number | undefined;
  readonly out: string;
  readonly complaint: string;
}

/** Limit for a program: others may hold the iptables lock, and a full sync of thousands of policies takes seconds. */
const patienceMs = 120_000;
const longestOut = 512 * 2 ** 20;
const longestComplaint = 64 * 2 ** 10;
const places = '/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * @throws the reason of `signal`; {RampartError} `UNSUPPORTED` if there is no such program, `SYSTEM` if it does not exit.
 */
export async function runProgram(call: ProgramCall): Promise<ProgramEnd> {
  const { program, args, input = '', namespace, signal } = call;
  signal?.throwIfAborted();
  const late = AbortSignal.timeout(patienceMs);
  const ends = signal === undefined ? late : AbortSignal.any([signal, late]);
  const child = namespace.run(() =>
    spawn(program, args, {
      cwd: '/',
      env: { PATH: process.env['PATH'] ?? places, LC_ALL: 'C' },
      stdio: ['pipe', 'pipe', 'pipe'],
    }),
  );
  const kill = (): void => void child.kill('SIGKILL');
  ends.addEventListener('abort', kill, { once: true });
  const out = new Kept(longestOut);
  const complaint = new Kept(longestComplaint);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject).once('close', resolve);
      child.stdout.on('data', (chunk: Buffer) => out.add(chunk));
      child.stderr.on('data', (chunk: Buffer) => complaint.add(chunk));
      // A program that has exited does not read its input: its exit code says why.
      child.stdin.on('error', () => {}).end(input);
    });
    signal?.throwIfAborted();
    if (late.aborted) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: `${program} was stopped`,
        why: `it took longer than ${patienceMs / 1000} s`,
        next: 'Check whether a process holds /run/xtables.lock',
      });
    }
    if (out.isCut) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `cannot read the output of ${program}`,
        why: `it exceeds ${longestOut / 2 ** 20} MiB`,
      });
    }
    return { code: code ?? undefined, out: out.text(), complaint: complaint.text() };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot start ${program}`,
      why: 'it is not installed',
      next: 'Install it: apt-get install iptables ipset',
    });
  } finally {
    ends.removeEventListener('abort', kill);
  }
}

/** @throws {RampartError} `PRIVILEGE` or `SYSTEM`, with the first words of the program. */
export function failure(program: string, { code, complaint }: ProgramEnd): RampartError {
  const said = complaint.trim().replaceAll(/\s+/g, ' ').slice(0, 300);
  if (/Permission denied|Operation not permitted|you must be root|open socket to ipset/i.test(said)) {
    return new RampartError(errorCodes.PRIVILEGE, {
      what: `cannot use ${program}`,
      why: said,
      next: 'Run it with CAP_NET_ADMIN and CAP_NET_RAW in the user namespace that owns this network namespace',
    });
  }
  return new RampartError(errorCodes.SYSTEM, {
    what: `${program} failed`,
    why: said || (code === undefined ? 'it was killed by a signal' : `exit code ${code}`),
  });
}

class Kept {
  readonly #chunks: Buffer[] = [];
  readonly #limit: number;
  #sizeBytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isCut(): boolean {
    return this.#sizeBytes > this.#limit;
  }

  add(chunk: Buffer): void {
    this.#sizeBytes += chunk.length;
    if (!this.isCut) this.#chunks.push(chunk);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}
