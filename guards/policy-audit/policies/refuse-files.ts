/** Refuses modules that namespaced policies may not use. Pure. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { PolicyProgram } from '../engine/program.ts';

/**
 * Refuses modules in files: authors of namespaced policies may not read the files of the process that runs them.
 * @throws {RampartError} `PRIVILEGE`
 */
export function refuseFiles(program: PolicyProgram): void {
  const modules =
    program.type === 'module' ? [program] : program.type === 'group' ? [...program.members.values()] : [];
  const file = modules.find(({ module }) => /^file:/i.test(module.trim()));
  if (file === undefined) return;
  throw new RampartError(errorCodes.PRIVILEGE, {
    what: `cannot use ${file.module}`,
    why: 'namespaced policies may not read files of the process that runs them',
    next: 'Use a module from a registry, or make it a ClusterAdmissionPolicy',
  });
}
