/** Resolves the imports of a module. */
import { GuestFailure } from './failure.ts';
import { GuestExit, missingFunction } from './preview1.ts';

/** Resolves imports by module and name. All names of WASI can be resolved. @throws {GuestFailure} for any other unknown name. */
export function importsFor(
  imports: readonly WebAssembly.ModuleImportDescriptor[],
  { wasi, ...others }: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): WebAssembly.Imports {
  const found: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module, name } of imports) {
    const isWasi = module === 'wasi_snapshot_preview1' || module === 'wasi_unstable';
    const value = isWasi ? (wasi?.[name] ?? missingFunction) : others[module]?.[name];
    if (value === undefined) {
      throw new GuestFailure('trap', `the policy imports ${module}.${name}, which is unknown`);
    }
    (found[module] ??= {})[name] = value as WebAssembly.ImportValue;
  }
  return found;
}

/** Runs the start function of an instance, if the module has one. The main function of a command may end with `proc_exit(0)`. */
export function startBy(instance: WebAssembly.Instance, names: readonly string[]): void {
  for (const name of names) {
    const start = instance.exports[name];
    if (typeof start !== 'function') continue;
    try {
      (start as () => void)();
    } catch (error) {
      if (!(error instanceof GuestExit && error.code === 0)) throw error;
    }
  }
}

/** @throws {GuestFailure} if the module does not have it. */
export function exportedFunction<F extends (...args: never[]) => unknown>(
  instance: WebAssembly.Instance,
  name: string,
): F {
  const found = instance.exports[name];
  if (typeof found === 'function') return found as F;
  throw new GuestFailure('trap', `the policy does not export ${name}`);
}

/** `undefined` if the module does not have it. */
export function optionalFunction<F extends (...args: never[]) => unknown>(
  instance: WebAssembly.Instance,
  name: string,
): F | undefined {
  const found = instance.exports[name];
  return typeof found === 'function' ? (found as F) : undefined;
}
