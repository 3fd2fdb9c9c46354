/**
 * A thread that runs policies, one evaluation at a time. It can be terminated at any time after it has reported that it is
 * ready: it has no state that its owner does not have too.
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';

import { GuestFailure } from './guest/failure.ts';
import { type GuestHost, HostRefusal } from './guest/host.ts';
import { GuestExit } from './guest/preview1.ts';
import { RegoPolicy } from './guest/rego.ts';
import { WapcPolicy } from './guest/wapc.ts';
import { WasiPolicy } from './guest/wasi.ts';
import type {
  AnswerOfHost,
  FromThread,
  GuestPolicy,
  Job,
  Outcome,
  ThreadData,
  ToThread,
} from './messages.ts';

interface RunningPolicy {
  readonly policy: GuestPolicy;
  readonly guest: {
    run(operation: Job['operation'], input: string, host: GuestHost, data: Job['data']): string;
  };
}

/** Limit of what a policy may print besides its answers in one evaluation, in characters. */
const maxSaid = 4096;

const { answered, answers } = workerData as ThreadData;
const flag = new Int32Array(answered);
const port = parentPort as MessagePort;
const policies = new Map<number, RunningPolicy>();

port.on('message', (message: ToThread) => {
  if (message.do === 'add')
    policies.set(message.policy.id, { policy: message.policy, guest: guestOf(message.policy) });
  else if (message.do === 'remove') policies.delete(message.policy);
  else post({ job: message.job.id, outcome: outcomeOf(message.job) });
});

post({ ready: true });

function guestOf(policy: GuestPolicy): RunningPolicy['guest'] {
  if (policy.runtime === 'wapc') return new WapcPolicy(policy);
  return policy.runtime === 'wasi' ? new WasiPolicy(policy) : new RegoPolicy(policy);
}

function outcomeOf(job: Job): Outcome {
  const running = policies.get(job.policy);
  if (running === undefined) return { why: 'trap', message: 'the thread does not know the policy' };
  let said = '';
  const host: GuestHost = {
    ask(asked) {
      Atomics.store(flag, 0, 0);
      post({ job: job.id, ask: asked });
      Atomics.wait(flag, 0, 0);
      const answer = receiveMessageOnPort(answers)?.message as AnswerOfHost;
      if ('error' in answer) throw new HostRefusal(answer.error);
      return answer.answer;
    },
    say(text) {
      if (said.length < maxSaid) said += text.slice(0, maxSaid - said.length);
    },
  };
  try {
    const answer = running.guest.run(job.operation, job.input, host, job.data);
    return { answer, ...(said !== '' && { stderr: said }) };
  } catch (error) {
    const stderr = said.trim() === '' ? '' : ` (output: ${said.trim()})`;
    return { why: whyOf(error), message: `${messageOf(error)}${stderr}` };
  }
}

function whyOf(error: unknown): 'answer' | 'deadline' | 'memory' | 'trap' {
  if (!(error instanceof GuestFailure)) return 'trap';
  const { why } = error;
  return why === 'answer' || why === 'deadline' || why === 'memory' ? why : 'trap';
}

function messageOf(error: unknown): string {
  if (error instanceof GuestFailure || error instanceof GuestExit) return error.message;
  if (error instanceof WebAssembly.RuntimeError) return `the policy trapped: ${error.message}`;
  if (error instanceof RangeError) return `the policy exhausted the stack or its memory: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

function post(message: FromThread): void {
  port.postMessage(message);
}
