/** The rules for programs of namespaced kinds, and the failures of programs that violate them. */
import type { AttachType } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { isAllowedHelper } from './allowed.ts';

export interface TenantRules {
  /** Names of helpers and kernel functions that are allowed in addition to the default list. */
  readonly helpers: ReadonlySet<string>;
  /** Limit for the maps of all programs of one namespace on this node, in bytes. */
  readonly mapMemoryBytes: number;
}

export const defaultMapMemoryMiB = 128;

export const defaultTenantRules: TenantRules = {
  helpers: new Set(),
  mapMemoryBytes: defaultMapMemoryMiB * 1024 * 1024,
};

/** What a program requires, by name. */
export interface Uses {
  /** Helpers. */
  readonly calls: readonly string[];
  /** Functions and variables of the kernel. */
  readonly externs: readonly string[];
}

/** @throws {ProgramFailure} `not-allowed` if a helper, kernel function or variable is not allowed */
export function checkUses({ helpers }: TenantRules, type: AttachType, { calls, externs }: Uses): void {
  const refused = [
    ...calls.filter((name) => !helpers.has(name) && !isAllowedHelper(name, type)),
    ...externs.filter((name) => !helpers.has(name)),
  ];
  if (refused.length > 0) throw usesRefused(refused, type);
}

function usesRefused(names: readonly string[], type: AttachType): ProgramFailure {
  const [first] = names;
  const options = names.map((name) => `--bpf-tenant-helpers ${name}`).join(' ');
  return notAllowed(
    'helper_not_allowed',
    `The program uses ${names.join(', ')}, which ${type} programs of namespaced kinds may not`,
    `Remove ${names.length === 1 ? String(first) : 'them'}, use a cluster-scoped kind, or ask the administrator of the cluster to start the agents with ${options}.`,
  );
}

/** The failure of a program that violates a rule. `code` is for tools: it never changes. */
export function notAllowed(code: string, what: string, next: string, mayPass = false): ProgramFailure {
  return new ProgramFailure('not-allowed', `${what} (${code}). ${next}`, mayPass);
}
