/**
 * Which pods a policy may match, by the namespaces of both.
 *
 * The author of a policy sees the accesses in all pods that it matches, with arguments, and can have files created there. So a
 * policy of a tenant is confined to the namespace in which its author has rights.
 */
import { systemNamespace } from '../../../guard/guard.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { words } from '../../../lib/cli/options.ts';
import { kiveDataNamespace } from '../api.ts';

/** Namespaces of Kive and of Rampart: only administrators write there. */
export const systemNamespaces: readonly string[] = [kiveDataNamespace, systemNamespace];

const everyNamespace = '*';
/** RFC 1123, a label. */
const namespaceName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export class PolicyScope {
  readonly #wide: ReadonlySet<string>;

  /** @param namespaces - Besides the system namespaces, those whose policies match pods of all; `*` for every one. */
  constructor(namespaces: readonly string[] = []) {
    this.#wide = new Set([...systemNamespaces, ...namespaces]);
  }

  /** Whether policies of this namespace match pods of all namespaces. */
  isWide(policyNamespace: string): boolean {
    return this.#wide.has(policyNamespace) || this.#wide.has(everyNamespace);
  }

  /** Whether policies of this namespace match files of the node itself: no option gives that to another one. */
  allowsHost(policyNamespace: string): boolean {
    return systemNamespaces.includes(policyNamespace);
  }

  allows(policyNamespace: string, podNamespace: string): boolean {
    return policyNamespace === podNamespace || this.isWide(policyNamespace);
  }
}

/** Without `--kive-policy-namespaces`. */
export const defaultScope: PolicyScope = new PolicyScope();
export const unlimitedScope: PolicyScope = new PolicyScope([everyNamespace]);

/**
 * Value of `--kive-policy-namespaces`: each text is a name, or several with commas.
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
