/**
 * Which pods a policy may match, depending on their namespaces.
 *
 * The author of a policy sees the accesses in all pods that it matches, with arguments of processes, and can have files
 * created there. So a tenant's policy is confined to its own namespace, in which its author has rights.
 */
import { systemNamespace } from '../../../guard/guard.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { words } from '../../../lib/cli/options.ts';
import { kiveDataNamespace } from '../api.ts';

/** Namespaces of Kive and of Rampart: only administrators write there. */
export const systemNamespaces: readonly string[] = [kiveDataNamespace, systemNamespace];

const everyNamespace = '*';
/** A label as in RFC 1123. */
const namespaceName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export class PolicyScope {
  readonly #wide: ReadonlySet<string>;

  /**
   * @param namespaces - Namespaces whose policies match pods of all namespaces, besides the system namespaces; `*`
   *   means every namespace.
   */
  constructor(namespaces: readonly string[] = []) {
    this.#wide = new Set([...systemNamespaces, ...namespaces]);
  }

  /** Whether policies of this namespace match pods of all namespaces. */
  isWide(policyNamespace: string): boolean {
    return this.#wide.has(policyNamespace) || this.#wide.has(everyNamespace);
  }

  /**
   * Whether policies of this namespace match files of the node itself: only those of the system namespaces do, and no
   * option changes that.
   */
  allowsHost(policyNamespace: string): boolean {
    return systemNamespaces.includes(policyNamespace);
  }

  allows(policyNamespace: string, podNamespace: string): boolean {
    return policyNamespace === podNamespace || this.isWide(policyNamespace);
  }
}

/** The scope without `--kive-policy-namespaces`. */
export const defaultScope: PolicyScope = new PolicyScope();
export const unlimitedScope: PolicyScope = new PolicyScope([everyNamespace]);

/**
 * Value of `--kive-policy-namespaces`: each text is a name, or several separated by commas.
 *
 * @throws {RampartError} `INPUT` for an invalid name of a namespace.
 */
export function parsePolicyNamespaces(texts: readonly string[]): PolicyScope {
  const names = texts.flatMap(words);
  for (const name of names) {
    if (name === everyNamespace || namespaceName.test(name)) continue;
    throw new RampartError(errorCodes.INPUT, {
      what: 'cannot use --kive-policy-namespaces',
      why: `${JSON.stringify(name)} is not the name of a namespace`,
      next: 'Write namespaces, separated by commas, or * for every namespace',
    });
  }
  return new PolicyScope(names);
}
