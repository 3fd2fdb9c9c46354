/**
 * The process of {@link Commands}: it runs the command lines that it is sent, one after another, as `apps/rampart.ts` runs its own.
 */
import { failWith, reportFailure } from '../lib/cli/failure.ts';
import { sayInLog } from '../lib/cli/process.ts';
import { guards } from './guards.ts';
import { programOf } from './program.ts';

export interface Asked {
  readonly args: readonly string[];
  /** All of it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface Answered {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const said = { stdout: '', stderr: '' };
for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (text: string | Uint8Array, ...more: readonly unknown[]): boolean => {
    said[name] += typeof text === 'string' ? text : Buffer.from(text).toString();
    const written = more.at(-1);
    if (typeof written === 'function') process.nextTick(written);
    return true;
  };
}

async function run({ args, environment }: Asked): Promise<Answered> {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined) process.env[name] = value;
  }
  Object.assign(said, { stdout: '', stderr: '' });
  process.exitCode = 0;
  // The state left by the previous command.
  failWith(2);
  sayInLog(undefined);
  try {
    await programOf(guards).parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = reportFailure(error);
  }
  const code = Number(process.exitCode);
  process.exitCode = 0;
  // A command has a process of its own otherwise, and leaves these in it.
  for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal);
  return { code, ...said };
}

// Whatever a command left open.
process.once('disconnect', () => process.exit());
process.on('message', (asked: Asked) => void run(asked).then((answered) => process.send?.(answered)));
