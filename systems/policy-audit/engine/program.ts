/** What runs for a policy, whichever kind of resource or file names it. */
import type { AskedOfCluster } from './evaluator.ts';

/** A kind that a policy may ask the cluster for. */
export type ContextAwareResource = Pick<AskedOfCluster, 'apiVersion' | 'kind'>;

/** A module with its settings. */
export interface ModuleProgram {
  readonly type: 'module';
  /** `registry://...`, `https://...`, `file://...` */
  readonly module: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly contextAware: readonly ContextAwareResource[];
  /** What it may call of the host: `oci/*`. Undefined: everything. */
  readonly hostCapabilities?: readonly string[] | undefined;
  /** Undefined: the default of the runtime. */
  readonly deadlineMs: number | undefined;
}

/** CEL as a ValidatingAdmissionPolicy has it. */
export interface ExpressionProgram {
  readonly type: 'expressions';
  readonly settings: Readonly<Record<string, unknown>>;
}

/** Several modules under one expression. */
export interface GroupProgram {
  readonly type: 'group';
  readonly expression: string;
  readonly message: string;
  readonly members: ReadonlyMap<string, ModuleProgram>;
}

export type PolicyProgram = ExpressionProgram | GroupProgram | ModuleProgram;

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
