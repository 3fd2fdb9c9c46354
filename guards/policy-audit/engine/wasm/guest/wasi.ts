/** WASI commands: the request on stdin, the answer on stdout, the host's answers appended to stdin. */
import type { GuestOperation, GuestPolicy } from '../messages.ts';
import { GuestFailure } from './failure.ts';
import { type GuestHost, HostRefusal } from './host.ts';
import { exportedFunction, importsFor } from './imports.ts';
import { type Imports, Instances, type StartedInstance } from './instance.ts';
import { GuestMemory } from './memory.ts';
import { GuestExit, preview1 } from './preview1.ts';

const encoder = new TextEncoder();

const commands: Readonly<Record<GuestOperation, string>> = {
  validate: 'validate',
  validate_settings: 'validate-settings',
};

interface Run {
  readonly host: GuestHost | undefined;
  readonly args: readonly string[];
  readonly stdin: Uint8Array[];
  readonly stdout: Uint8Array[];
  written: number;
}

type Guest = (operation: GuestOperation, input: string, host: GuestHost) => string;

export class WasiPolicy {
  readonly #instances: Instances<Guest>;

  constructor(policy: GuestPolicy) {
    this.#instances = new Instances(policy, started);
  }

  run(operation: GuestOperation, input: string, host: GuestHost): string {
    return this.#instances.with((guest) => guest(operation, input, host));
  }
}

function started({ module, answerBytes }: GuestPolicy, imports: Imports): StartedInstance<Guest> {
  let running: Run = { host: undefined, args: [], stdin: [], stdout: [], written: 0 };
  const memoryNow = (): GuestMemory => memory;
  const wasi = preview1(memoryNow, {
    get args() {
      return running.args;
    },
    get stdin() {
      return running.stdin;
    },
    write(stream, bytes) {
      if (stream === 'stderr') {
        running.host?.say(new TextDecoder().decode(bytes));
        return;
      }
      running.written += bytes.length;
      if (running.written > answerBytes) {
        throw new GuestFailure('answer', `the policy returns more than ${answerBytes} bytes`);
      }
      running.stdout.push(bytes.slice());
    },
  });
  /** Returns 0 for success and 1 for failure. The answer is appended to stdin. */
  const call = (...at: number[]): number => {
    const asked = memory.hostCall(at);
    try {
      if (running.host === undefined) throw new HostRefusal('there is no request yet');
      running.stdin.push(running.host.ask(asked));
      return 0;
    } catch (error) {
      if (!(error instanceof HostRefusal)) throw error;
      running.stdin.push(encoder.encode(error.message));
      return 1;
    }
  };
  const host = { call };
  const instance = new WebAssembly.Instance(
    module,
    importsFor(imports, { wasi, host, 'kubewarden:javy/host': host }),
  );
  const exported = instance.exports['memory'];
  if (!(exported instanceof WebAssembly.Memory)) {
    throw new GuestFailure('trap', 'the policy exports no memory');
  }
  const memory = new GuestMemory(exported);
  const start = exportedFunction<() => void>(instance, '_start');
  const guest: Guest = (operation, input, askedBy) => {
    const args = ['policy.wasm', commands[operation]];
    const run: Run = { host: askedBy, args, stdin: [encoder.encode(input)], stdout: [], written: 0 };
    running = run;
    try {
      start();
    } catch (error) {
      if (!(error instanceof GuestExit && error.code === 0)) throw error;
    }
    return new TextDecoder().decode(Buffer.concat(run.stdout, run.written));
  };
  return { guest, instance };
}
