/** A WebAssembly policy with its settings, ready for evaluation. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import {
  type AskedOfCluster,
  type EvaluateOptions,
  EvaluationError,
  type Evaluator,
  type HostCalls,
  type JsonObject,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../evaluator.ts';
import { askedOf, type KindName } from '../host-calls/cluster-reader.ts';
import { ownBinding } from '../host-calls/host-calls.ts';
import { settingsVerdictOf, verdictOf } from './answers.ts';
import { BinaryError } from './binary.ts';
import type { AnswerOfHost, AskedOfHost, GuestPolicy, Job, Outcome } from './messages.ts';
import { inspectPolicy, type WasmRuntime } from './metadata.ts';
import { PolicyPool } from './pool.ts';
import { pageBytes, prepareModule } from './prepare.ts';
import { type CurrentData, currentData, type RegoDocument } from './rego-data.ts';
import { requestText, settingsText } from './request-text.ts';
import { answerOf } from './thread.ts';

export interface WasmLimits {
  /** Default time limit of an evaluation, including its host calls. Default: 2,000. */
  readonly deadlineMs?: number;
  /** Limit of the policy's own memory, in each thread that runs it. Default: 128 MiB. */
  readonly memoryBytes?: number;
  /** Limit of the host calls of one evaluation, including its log lines. Default: 1,000. */
  readonly hostCalls?: number;
  /** Limit of one answer, or of everything that a policy writes. Default: 16 MiB. */
  readonly answerBytes?: number;
}

export interface WasmEvaluatorOptions {
  readonly module: Uint8Array;
  readonly settings: JsonObject;
  readonly hostCalls: HostCalls;
  /** `contextAwareResources`: policies in Rego cannot query the cluster, so they get all objects of these kinds. */
  readonly resources?: readonly KindName[];
  readonly limits?: WasmLimits | undefined;
  /** Provides the threads. Default: one pool for the entire process. */
  readonly pool?: PolicyPool | undefined;
}

const defaults = {
  deadlineMs: 2000,
  memoryBytes: 128 * 2 ** 20,
  hostCalls: 1000,
  answerBytes: 16 * 2 ** 20,
} as const;

/** Identifies the next policy to the threads. */
let nextPolicy = 1;

/**
 * Compiles the module, but does not run it yet. The caller disposes of the evaluator.
 *
 * @throws {RampartError} `INPUT` if it is not a policy.
 * @throws {EvaluationError} `memory` if it starts with more memory than its limit.
 */
export async function openWasmEvaluator(options: WasmEvaluatorOptions): Promise<Evaluator> {
  const { runtime } = inspectPolicy(options.module);
  const limits = { ...defaults, ...options.limits };
  const memoryPages = Math.min(65_536, Math.floor(limits.memoryBytes / pageBytes));
  const { module, restoring, importedMemory } = await compiled(options.module, memoryPages);
  const policy: GuestPolicy = {
    id: nextPolicy++,
    runtime,
    module,
    settings: settingsText(options.settings),
    memoryPages,
    answerBytes: limits.answerBytes,
    restoring,
    importedMemory,
  };
  const { pool, release } =
    options.pool === undefined ? sharedPool() : { pool: options.pool, release: undefined };
  pool.add(policy);
  const { hostCalls, settings, resources = [] } = options;
  const isRego = runtime === 'opa' || runtime === 'gatekeeper';
  const data =
    isRego && resources.length > 0 ? currentData({ runtime, settings, resources, hostCalls }) : undefined;
  return new WasmEvaluator(policy, { pool, limits, hostCalls, resources, data, release });
}

async function compiled(
  module: Uint8Array,
  memoryPages: number,
): Promise<Pick<GuestPolicy, 'module' | 'restoring' | 'importedMemory'>> {
  try {
    const { bytes, ...prepared } = prepareModule(module, memoryPages);
    return { module: await WebAssembly.compile(bytes), ...prepared };
  } catch (error) {
    if (!(error instanceof BinaryError || error instanceof WebAssembly.CompileError)) throw error;
    throw new RampartError(errorCodes.INPUT, {
      what: 'cannot compile the policy',
      why: error.message,
      next: 'Check that the file is complete, and that it is a policy',
      cause: error,
    });
  }
}

/** The input for a policy, in the form of its runtime. */
function inputOf({ runtime, settings }: GuestPolicy, request: string): string {
  if (runtime === 'opa') return `{"request":${request}}`;
  if (runtime === 'gatekeeper') return `{"parameters":${settings},"review":${request}}`;
  return `{"request":${request},"settings":${settings}}`;
}

interface Means {
  readonly pool: PolicyPool;
  readonly limits: Required<WasmLimits>;
  readonly hostCalls: HostCalls;
  readonly resources: readonly KindName[];
  readonly data: CurrentData | undefined;
  readonly release: (() => Promise<void>) | undefined;
}

/** What one evaluation has requested from the cluster, without duplicates. */
class Asked {
  readonly #found = new Map<string, AskedOfCluster>();

  get isEmpty(): boolean {
    return this.#found.size === 0;
  }

  get all(): AskedOfCluster[] {
    return [...this.#found.values()];
  }

  add(asked: AskedOfCluster | undefined): void {
    if (asked === undefined) return;
    const { apiVersion, kind, namespace, name } = asked;
    this.#found.set(JSON.stringify([apiVersion, kind, namespace, name]), asked);
  }
}

class WasmEvaluator implements Evaluator {
  readonly runtime: WasmRuntime;
  readonly #policy: GuestPolicy;
  readonly #means: Means;
  #disposed: Promise<void> | undefined;

  constructor(policy: GuestPolicy, means: Means) {
    this.runtime = policy.runtime;
    this.#policy = policy;
    this.#means = means;
  }

  async validateSettings(options: EvaluateOptions = {}): Promise<SettingsVerdict> {
    const job = { operation: 'validate_settings', input: this.#policy.settings } as const;
    return settingsVerdictOf(await this.#run(job, new Asked(), options));
  }

  async evaluate(request: PolicyRequest, options: EvaluateOptions = {}): Promise<Verdict> {
    const { data, resources, limits } = this.#means;
    // Gatekeeper's `review` has to be an admission request.
    if (options.isRaw === true && this.runtime === 'gatekeeper')
      throw new EvaluationError('answer', 'Gatekeeper does not support raw validation requests');
    const asked = new Asked();
    let known: RegoDocument | undefined;
    if (data !== undefined) {
      for (const kind of resources) asked.add(kind);
      known = await data(timeFor(options, limits));
    }
    const job = {
      operation: 'validate',
      input: inputOf(this.#policy, requestText(request)),
      data: known,
    } as const;
    try {
      const verdict = verdictOf(this.runtime, await this.#run(job, asked, options), request);
      return asked.isEmpty ? verdict : { ...verdict, asked: asked.all };
    } catch (error) {
      if (error instanceof EvaluationError) error.asked = asked.all;
      throw error;
    }
  }

  async #run(
    job: Omit<Job, 'id' | 'policy'>,
    asked: Asked,
    { signal, deadlineMs = this.#means.limits.deadlineMs }: EvaluateOptions,
  ): Promise<string> {
    if (this.#disposed !== undefined) throw new EvaluationError('aborted', 'the policy is closed');
    if (isAborted(signal)) throw aborted(signal);
    const { pool } = this.#means;
    // Created only when needed: few policies make host calls, and creating and aborting a controller takes as long as some policies.
    let over: AbortController | undefined;
    try {
      const ask = this.#asker(asked, () => (over ??= new AbortController()).signal);
      const outcome: Outcome = await pool.run(this.#policy.id, job, ask, { deadlineMs, signal });
      if (!('why' in outcome)) return outcome.answer;
      throw isAborted(signal) ? aborted(signal) : new EvaluationError(outcome.why, outcome.message);
    } finally {
      over?.abort();
    }
  }

  /** Answers the host calls of one evaluation. */
  #asker(asked: Asked, signal: () => AbortSignal): (call: AskedOfHost) => Promise<AnswerOfHost> {
    const { limits, hostCalls } = this.#means;
    let count = 0;
    return async (call) => {
      if (++count > limits.hostCalls) {
        return {
          error: `this policy has called the host ${limits.hostCalls} times in this evaluation, which is the limit`,
        };
      }
      if (call.binding === ownBinding) return { error: `unknown binding: ${call.binding}` };
      asked.add(askedOf(call, call.payload));
      return answerOf(hostCalls, call, signal());
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposed ??= this.#means.pool.remove(this.#policy.id).then(() => this.#means.release?.());
    return this.#disposed;
  }
}

function aborted(signal: AbortSignal): EvaluationError {
  return new EvaluationError('aborted', 'the evaluation was aborted', { cause: signal.reason });
}

function isAborted(signal: AbortSignal | undefined): signal is AbortSignal {
  return signal?.aborted === true;
}

/** Limits the requests that are made before the policy runs, by the same limits as the policy. */
function timeFor({ signal, deadlineMs }: EvaluateOptions, limits: Required<WasmLimits>): AbortSignal {
  const time = AbortSignal.timeout(deadlineMs ?? limits.deadlineMs);
  return signal === undefined ? time : AbortSignal.any([signal, time]);
}

/** The pool that all policies of a process share. It exists while there are policies. */
let current: { readonly pool: PolicyPool; users: number } | undefined;

/** Each caller releases the pool once. */
function sharedPool(): { readonly pool: PolicyPool; release(): Promise<void> } {
  const own = (current ??= { pool: new PolicyPool(), users: 0 });
  own.users++;
  return {
    pool: own.pool,
    async release() {
      if (--own.users > 0) return;
      if (current === own) current = undefined;
      await own.pool[Symbol.asyncDispose]();
    },
  };
}
