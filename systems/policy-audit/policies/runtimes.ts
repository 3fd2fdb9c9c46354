/**
 * What runs policies: CEL natively, modules by WebAssembly, groups of them by their expression.
 *
 * @module
 */
import type { ClusterReader } from '../engine/cel/cluster.ts';
import { openCelEvaluator } from '../engine/cel/open.ts';
import type { Evaluator, HostCalls } from '../engine/evaluator.ts';
import { openGroupEvaluator } from '../engine/group/open.ts';
import { openWasmEvaluator } from '../engine/wasm/open.ts';
import type { Modules } from '../modules/modules.ts';
import type { Runtimes } from './open-policy.ts';
import type { ModuleProgram, Policy } from './policy.ts';

export interface RuntimesOptions {
  readonly modules: Pick<Modules, 'fetch'>;
  readonly cluster: ClusterReader;
  /** What a module may ask the host for: by the policy that it belongs to, and what that grants. */
  readonly hostCalls: (policy: Policy, program: ModuleProgram) => HostCalls;
}

export function runtimesOf({ modules, cluster, hostCalls }: RuntimesOptions): Runtimes {
  const openModule = async (
    policy: Policy,
    program: ModuleProgram,
    signal: AbortSignal,
  ): Promise<Evaluator> => {
    const settings = { ...program.settings };
    if (isCelModule(program.module)) return openCelEvaluator(settings, { cluster });
    const { bytes } = await modules.fetch(program.module, { signal });
    const { deadlineMs } = program;
    return openWasmEvaluator({
      module: bytes,
      settings,
      hostCalls: hostCalls(policy, program),
      ...(deadlineMs !== undefined && { limits: { deadlineMs } }),
    });
  };
  return {
    cluster,
    async open(policy, signal) {
      const { program } = policy;
      if (program.type === 'expressions') {
        return openCelEvaluator({ ...program.settings }, { dialect: 'validating-admission-policy', cluster });
      }
      if (program.type === 'module') return openModule(policy, program, signal);
      const members = new Map<string, Evaluator>();
      try {
        for (const [name, member] of program.members) {
          members.set(name, await openModule(policy, member, signal));
        }
      } catch (error) {
        await Promise.all([...members.values()].map((member) => member[Symbol.asyncDispose]()));
        throw error;
      }
      return openGroupEvaluator({ expression: program.expression, message: program.message, members });
    },
  };
}

/**
 * Whether a module is `cel-policy`, whichever registry it is said to come from: what it takes as settings our own engine runs.
 *
 * @example
 * isCelModule('registry://registry.example/policies/cel-policy:v1.0.0'); // true
 */
export function isCelModule(module: string): boolean {
  const [withoutDigest = ''] = module.split('@');
  return /(?:^|\/)cel-policy(?::[^/:]*)?$/.test(withoutDigest);
}
