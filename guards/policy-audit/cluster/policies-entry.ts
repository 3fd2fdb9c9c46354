/**
 * Writes policies as `policies.yml` of a policy server: the inverse of server/policies-file.ts.
 */
import type { ModuleProgram } from '../engine/program.ts';
import type { Policy } from '../policies/policy.ts';
import type { PolicyFileOrigin } from '../server/served-policy.ts';

/**
 * @param kept - Entries of previous versions, by ID, of policies whose current version cannot run.
 * @param capabilities - The host capabilities of namespaced policies. Undefined: all.
 * @returns JSON, which is YAML; sorted by ID, so that the same policies give the same text
 */
export function policiesFileOf(
  policies: readonly Policy[],
  kept: ReadonlyMap<string, unknown>,
  capabilities: readonly string[] | undefined,
): string {
  const entries = [...kept, ...policies.map((policy) => [policy.id, entryOf(policy, capabilities)] as const)];
  return JSON.stringify(Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1))));
}

/** The entries that {@link policiesFileOf} wrote, keyed by ID; empty for any other text. */
export function entriesOf(policiesFile: string | undefined): ReadonlyMap<string, unknown> {
  try {
    return new Map(Object.entries(JSON.parse(policiesFile ?? '{}') as object));
  } catch {
    return new Map();
  }
}

function entryOf(policy: Policy, capabilities: readonly string[] | undefined): object {
  const { program, mode, isMutating, message, origin } = policy;
  const hostCapabilities = origin.namespace === undefined ? ['*'] : (capabilities ?? ['*']);
  if (program.type === 'group') {
    const members = [...program.members].map(([name, member]) => [
      name,
      moduleEntry(member, hostCapabilities),
    ]);
    return {
      origin: originOf(policy),
      policyMode: mode,
      expression: program.expression,
      message: program.message,
      policies: Object.fromEntries(members) as object,
    };
  }
  if (program.type !== 'module') throw new TypeError(`${policy.id} is not a policy of a policy server`);
  return {
    ...moduleEntry(program, hostCapabilities),
    origin: originOf(policy),
    policyMode: mode,
    allowedToMutate: isMutating,
    ...(message !== undefined && { message }),
  };
}

/** For the findings of the server, where the ID does not show which part is the namespace and which the name. */
function originOf({ origin, severity }: Policy): PolicyFileOrigin {
  const { kind, namespace = '', name } = origin;
  return { kind, namespace, name, ...(severity !== undefined && { severity }) };
}

function moduleEntry(
  { module, settings, contextAware, deadlineMs }: ModuleProgram,
  hostCapabilities: readonly string[],
): object {
  return {
    module,
    settings,
    ...(contextAware.length > 0 && { contextAwareResources: contextAware }),
    ...(deadlineMs !== undefined && { timeoutEvalSeconds: deadlineMs / 1000 }),
    hostCapabilities,
  };
}
