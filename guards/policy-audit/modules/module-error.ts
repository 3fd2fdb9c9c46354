/**
 * An error about the module of a policy, which cannot be fetched or run. It contains the module's URI, since a
 * group has several modules.
 */
import { RampartError } from '../../../lib/errors/errors.ts';

export class ModuleError extends RampartError {
  /** The module's URI as written in the policy. */
  readonly module: string;

  constructor(module: string, cause: RampartError) {
    // Many messages already contain the reference.
    const isNamed = cause.message.includes(module.replace(/^registry:\/\//, ''));
    super(cause.code, { what: isNamed ? cause.message : `${module}: ${cause.message}`, cause });
    this.module = module;
  }
}

/** A RampartError as one that names the module; any other error is returned unchanged. */
export function aboutModule(module: string, error: unknown): unknown {
  return error instanceof RampartError ? new ModuleError(module, error) : error;
}
