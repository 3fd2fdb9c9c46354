/**
 * Opens the evaluator of a policy: the engine's own CEL for `cel-policy` and for expressions, a thread for
 * WebAssembly, or both, combined by the expression of a group.
 */
import type { CredentialsSource } from '../../../lib/oci/registry.ts';
import type { Modules } from '../modules/modules.ts';
import { accessOf, type ClusterReader, clusterOf } from '../engine/cel/cluster.ts';
import { openCelEvaluator } from '../engine/cel/open.ts';
import type {
  EvaluateOptions,
  Evaluator,
  HostCalls,
  PolicyRequest,
  SettingsVerdict,
  Verdict,
} from '../engine/evaluator.ts';
import { openGroupEvaluator } from '../engine/group/open.ts';
import type { KindName } from '../engine/host-calls/cluster-reader.ts';
import { aboutModule } from '../modules/module-error.ts';
import { isCelModule, type ModuleProgram, type PolicyProgram } from '../engine/program.ts';
import { readPolicyMetadata } from '../engine/wasm/metadata.ts';
import { openWasmEvaluator, type WasmLimits } from '../engine/wasm/open.ts';
import type { PolicyPool } from '../engine/wasm/pool.ts';

export interface OpenEvaluatorOptions {
  readonly modules: Pick<Modules, 'fetch'>;
  /** Returns the host calls of a policy that may read these kinds. In a group, called for each member. */
  readonly hostCalls: (allowed: readonly KindName[], program?: ModuleProgram) => HostCalls;
  /**
   * Read by expressions of ValidatingAdmissionPolicies, which may read the objects that they name. Default:
   * `hostCalls`, with no kinds allowed.
   */
  readonly cluster?: ClusterReader;
  readonly pullSecret?: CredentialsSource | undefined;
  readonly limits?: WasmLimits;
  /** The pool of threads for WebAssembly. Default: one pool for the entire process. */
  readonly pool?: PolicyPool;
  /** Aborts the opening. */
  readonly signal?: AbortSignal;
}

/** A policy that can be evaluated, and the code that it runs. */
export interface OpenedEvaluator extends Evaluator {
  /** Digests of the modules, keyed by member in a group, otherwise by ''. Modules that the engine runs itself are omitted. */
  readonly digests: ReadonlyMap<string, string>;
}

/**
 * Opens a policy. This also works with settings that the policy rejects: `validateSettings` reports that. The
 * caller disposes the result.
 *
 * @throws {RampartError} like `Modules.fetch`; `INPUT` if a module is not a policy
 * @throws {EvaluationError} `memory`
 * @example
 * await using policy = await openEvaluator(program, { modules, hostCalls: () => hostCalls, signal });
 * const { valid, message } = await policy.validateSettings();
 */
export async function openEvaluator(
  program: PolicyProgram,
  options: OpenEvaluatorOptions,
): Promise<OpenedEvaluator> {
  const digests = new Map<string, string>();
  if (program.type === 'expressions') {
    const hostCalls = options.hostCalls([]);
    const world = { cluster: options.cluster ?? clusterOf(hostCalls), access: accessOf(hostCalls) };
    const dialect = 'validating-admission-policy';
    return new Opened(openCelEvaluator(program.settings, { dialect, ...world }), digests, undefined);
  }
  if (program.type === 'module') {
    const { evaluator, digest } = await openModule(program, options);
    if (digest !== undefined) digests.set('', digest);
    return new Opened(evaluator, digests, program.deadlineMs);
  }
  // If a member cannot be opened, the evaluators that are already open are closed.
  await using opened = new AsyncDisposableStack();
  const members = new Map<string, Evaluator>();
  const mutating = new Set<string>();
  for (const [name, member] of program.members) {
    const { evaluator, digest, mutates } = await openModule(member, options);
    members.set(name, opened.use(new Opened(evaluator, digests, member.deadlineMs)));
    if (digest !== undefined) digests.set(name, digest);
    if (mutates) mutating.add(name);
  }
  const { expression, message } = program;
  const group = openGroupEvaluator({ expression, message, members, mutating });
  opened.move();
  return new Opened(group, digests, undefined);
}

async function openModule(
  program: ModuleProgram,
  options: OpenEvaluatorOptions,
): Promise<{ readonly evaluator: Evaluator; readonly digest?: string; readonly mutates: boolean }> {
  const hostCalls = options.hostCalls(program.contextAware, program);
  if (isCelModule(program.module)) {
    return {
      evaluator: openCelEvaluator(program.settings, {
        cluster: clusterOf(hostCalls),
        access: accessOf(hostCalls),
      }),
      mutates: false,
    };
  }
  try {
    const { bytes, digest } = await options.modules.fetch(program.module, {
      pullSecret: options.pullSecret,
      signal: options.signal,
    });
    const evaluator = await openWasmEvaluator({
      module: bytes,
      settings: program.settings,
      hostCalls,
      limits: options.limits,
      pool: options.pool,
    });
    return { evaluator, digest, mutates: readPolicyMetadata(bytes)?.mutating === true };
  } catch (error) {
    options.signal?.throwIfAborted();
    throw aboutModule(program.module, error);
  }
}

/** Adds what is known since the policy was opened. The policy's own time limit replaces that of the caller, as upstream. */
class Opened implements OpenedEvaluator {
  readonly runtime: Evaluator['runtime'];
  readonly digests: ReadonlyMap<string, string>;
  readonly #evaluator: Evaluator;
  readonly #deadlineMs: number | undefined;

  constructor(evaluator: Evaluator, digests: ReadonlyMap<string, string>, deadlineMs: number | undefined) {
    this.runtime = evaluator.runtime;
    this.digests = digests;
    this.#evaluator = evaluator;
    this.#deadlineMs = deadlineMs;
  }

  validateSettings(options?: EvaluateOptions): Promise<SettingsVerdict> {
    return this.#evaluator.validateSettings(this.#bounded(options));
  }

  evaluate(request: PolicyRequest, options?: EvaluateOptions): Promise<Verdict> {
    return this.#evaluator.evaluate(request, this.#bounded(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve(this.#evaluator[Symbol.asyncDispose]());
  }

  #bounded(options: EvaluateOptions = {}): EvaluateOptions {
    return this.#deadlineMs === undefined ? options : { ...options, deadlineMs: this.#deadlineMs };
  }
}
