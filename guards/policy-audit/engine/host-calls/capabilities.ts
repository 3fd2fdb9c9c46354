/** The host calls that a policy may make: `namespacedPoliciesCapabilities` of a PolicyServer, in Kubewarden's notation. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

/** Capabilities that can be granted, by namespace. The name of an operation may be preceded by a version. */
export const capabilities: Readonly<Record<string, readonly string[]>> = {
  cache: ['get', 'set'],
  crypto: ['v1/is_certificate_trusted'],
  kubernetes: ['can_i', 'get_resource', 'list_resources_all', 'list_resources_by_namespace'],
  net: ['v1/dns_lookup_host'],
  oci: ['v1/manifest_digest', 'v1/oci_manifest', 'v1/oci_manifest_config', 'v1/verify', 'v2/verify'],
};

const paths = Object.entries(capabilities).flatMap(([namespace, operations]) =>
  operations.map((operation) => `${namespace}/${operation}`),
);

/**
 * Granted capabilities, given as patterns: `*`, `oci/*`, `oci/v2/*`, `oci/v1/verify`.
 *
 * @example
 * new HostCapabilities(['oci/*', 'net/v1/dns_lookup_host']).allows('oci/v1/verify'); // true
 */
export class HostCapabilities {
  readonly #prefixes: readonly string[];
  readonly #exact: ReadonlySet<string>;

  /** Without patterns, nothing is granted. @throws {RampartError} `INPUT` for a pattern that matches no capability. */
  constructor(patterns: readonly string[]) {
    const trimmed = patterns.map((pattern) => pattern.trim());
    for (const pattern of trimmed) check(pattern);
    this.#prefixes = trimmed
      .filter((pattern) => pattern.endsWith('*'))
      .map((pattern) => pattern.slice(0, -1));
    this.#exact = new Set(trimmed);
  }

  /** @param path - Such as `kubernetes/get_resource`. */
  allows(path: string): boolean {
    return this.#exact.has(path) || this.#prefixes.some((prefix) => path.startsWith(prefix));
  }
}

export const everyCapability = new HostCapabilities(['*']);

function check(pattern: string): void {
  if (pattern === '*') return;
  if (pattern.includes('*') && !(pattern.endsWith('/*') && pattern.indexOf('*') === pattern.length - 1)) {
    throw unusable(pattern, '* stands for everything after a /', 'Write it as oci/*');
  }
  const begin = pattern.endsWith('*') ? pattern.slice(0, -1) : pattern;
  const known = paths.filter((path) => (pattern.endsWith('*') ? path.startsWith(begin) : path === begin));
  if (known.length > 0) return;
  const isGroup = paths.some((path) => path.startsWith(`${begin}/`));
  throw unusable(
    pattern,
    isGroup ? 'it is a group of capabilities' : 'there is no such capability',
    isGroup ? `Write ${pattern}/* for the whole group` : `Use one of: ${paths.join(', ')}`,
  );
}

function unusable(pattern: string, why: string, next: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `cannot grant the capability "${pattern}"`, why, next });
}
