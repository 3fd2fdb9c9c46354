/** The program of a policy, whatever resource or file it comes from. */
import type { KindName } from './host-calls/cluster-reader.ts';

/** A module with its settings. */
export interface ModuleProgram {
  readonly type: 'module';
  /** `registry://...`, `https://...`, `file://...` */
  readonly module: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly contextAware: readonly KindName[];
  /** The host capabilities that the policy may use: `oci/*`. Undefined: all. */
  readonly hostCapabilities?: readonly string[] | undefined;
  /** Undefined: the default of the runtime. */
  readonly deadlineMs: number | undefined;
}

/** CEL, as in a ValidatingAdmissionPolicy. */
export interface ExpressionProgram {
  readonly type: 'expressions';
  readonly settings: Readonly<Record<string, unknown>>;
}

/** Several modules combined by one expression. */
export interface GroupProgram {
  readonly type: 'group';
  readonly expression: string;
  readonly message: string;
  readonly members: ReadonlyMap<string, ModuleProgram>;
}

export type PolicyProgram = ExpressionProgram | GroupProgram | ModuleProgram;

/**
 * Whether a module is `cel-policy`, whatever its registry: our own engine runs its settings.
 *
 * @example
 * isCelModule('registry://registry.example/policies/cel-policy:v1.0.0'); // true
 */
export function isCelModule(module: string): boolean {
  const [withoutDigest = ''] = module.split('@');
  return /(?:^|\/)cel-policy(?::[^/:]*)?$/.test(withoutDigest);
}
