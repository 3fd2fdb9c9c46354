/**
 * waPC (https://wapc.io/docs/spec/): the guest fetches its request and returns its answer through host calls.
 */
import type { GuestOperation, GuestPolicy } from '../messages.ts';
import { GuestFailure } from './failure.ts';
import { type GuestHost, HostRefusal } from './host.ts';
import { exportedFunction, importsFor, startBy } from './imports.ts';
import { type Imports, Instances, type StartedInstance } from './instance.ts';
import { GuestMemory } from './memory.ts';
import { preview1 } from './preview1.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const none = new Uint8Array();

/** State of the current call. */
interface Call {
  readonly operation: Uint8Array;
  readonly payload: Uint8Array;
  readonly host: GuestHost;
  answer: Uint8Array | undefined;
  error: Uint8Array | undefined;
  hostAnswer: Uint8Array;
  hostError: Uint8Array;
}

interface Guest {
  call(operation: GuestOperation | 'protocol_version', payload: Uint8Array, host: GuestHost): Uint8Array;
}

const initialising: GuestHost = {
  ask() {
    throw new HostRefusal('the policy is starting; there is no request yet');
  },
  say: () => undefined,
};

export class WapcPolicy {
  readonly #instances: Instances<Guest>;

  constructor(policy: GuestPolicy) {
    this.#instances = new Instances(policy, started);
  }

  run(operation: GuestOperation, input: string, host: GuestHost): string {
    const payload = encoder.encode(input);
    return decoder.decode(this.#instances.with((guest) => guest.call(operation, payload, host)));
  }
}

function started({ module, answerBytes }: GuestPolicy, imports: Imports): StartedInstance<Guest> {
  let running = callOf('', none, initialising);
  let memory: GuestMemory | undefined;
  const memoryNow = (): GuestMemory => {
    if (memory === undefined) throw new GuestFailure('trap', 'the policy exports no memory');
    return memory;
  };
  const given = (bytes: Uint8Array): Uint8Array => {
    if (bytes.length <= answerBytes) return bytes;
    throw new GuestFailure('answer', `the policy returns more than ${answerBytes} bytes`);
  };
  const wapc = {
    __guest_request(operation: number, payload: number) {
      memoryNow().write(operation, running.operation);
      memoryNow().write(payload, running.payload);
    },
    __guest_response(address: number, size: number) {
      running.answer = given(memoryNow().view(address, size)).slice();
    },
    __guest_error(address: number, size: number) {
      running.error = given(memoryNow().view(address, size)).slice();
    },
    __host_call(...at: number[]) {
      const asked = memoryNow().hostCall(at);
      try {
        running.hostAnswer = running.host.ask(asked);
        return 1;
      } catch (error) {
        if (!(error instanceof HostRefusal)) throw error;
        running.hostError = encoder.encode(error.message);
        return 0;
      }
    },
    __host_response_len: () => running.hostAnswer.length,
    __host_response: (address: number) => memoryNow().write(address, running.hostAnswer),
    __host_error_len: () => running.hostError.length,
    __host_error: (address: number) => memoryNow().write(address, running.hostError),
    __console_log: (address: number, size: number) => running.host.say(memoryNow().text(address, size)),
  };
  const wasi = preview1(memoryNow, {
    args: [],
    stdin: [],
    write: (_stream, bytes) => running.host.say(decoder.decode(bytes)),
  });
  const instance = new WebAssembly.Instance(module, importsFor(imports, { wapc, wasi }));
  const exported = instance.exports['memory'];
  if (exported instanceof WebAssembly.Memory) memory = new GuestMemory(exported);
  startBy(instance, ['_initialize', '_start', 'wapc_init']);
  const guestCall = exportedFunction<(operation: number, payload: number) => number>(
    instance,
    '__guest_call',
  );
  const guest: Guest = {
    call(operation, payload, host) {
      running = callOf(operation, payload, host);
      const { operation: name } = running;
      const done = guestCall(name.length, payload.length);
      const { answer, error } = running;
      running = callOf('', none, initialising);
      if (done !== 1) {
        const why = error === undefined ? 'without saying why' : decoder.decode(error);
        throw new GuestFailure('answer', `the policy failed at ${operation}: ${why}`);
      }
      if (answer === undefined)
        throw new GuestFailure('answer', `the policy did not respond to ${operation}`);
      return answer;
    },
  };
  return { guest, instance };
}

function callOf(operation: string, payload: Uint8Array, host: GuestHost): Call {
  return {
    operation: encoder.encode(operation),
    payload,
    host,
    answer: undefined,
    error: undefined,
    hostAnswer: none,
    hostError: none,
  };
}
