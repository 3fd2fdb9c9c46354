/** Why the module of a policy cannot be had or run: named by its URI, as a group has several. */
import { RampartError } from '../../../lib/errors/errors.ts';

export class ModuleError extends RampartError {
  /** Its URI, as the policy has it. */
  readonly module: string;

  constructor(module: string, cause: RampartError) {
    // Many messages already contain the reference.
    const isNamed = cause.message.includes(module.replace(/^registry:\/\//, ''));
    super(cause.code, { what: isNamed ? cause.message : `${module}: ${cause.message}`, cause });
    this.module = module;
  }
}

/** The same error with the URI of the module; an error that is not about a module is unchanged. */
export function aboutModule(module: string, error: unknown): unknown {
  return error instanceof RampartError ? new ModuleError(module, error) : error;
}
