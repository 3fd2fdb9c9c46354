/** Which interfaces `interfacesDiscoveryConfig` of bpfman-operator v0.6 selects. */
import { Regex, RegexSyntaxError } from '../../../lib/regex/regex.ts';
import type { InterfacesDiscovery } from '../application-schema.ts';

/** A network namespace of the node. */
export interface DiscoveredNetwork {
  /** Such as `/run/netns/blue`; undefined for the node's own. */
  readonly path: string | undefined;
  readonly interfaces: readonly string[];
}

export type InterfaceFilter = (name: string) => boolean;

/** Limit of steps that a pattern may take for one character of a name. */
const MAX_STEPS = 1000;

/** @returns what is wrong with the configuration, beginning with the field; undefined if it is valid. */
export function interfaceFilter({
  excludeInterfaces,
  allowedInterfaces = [],
}: InterfacesDiscovery): InterfaceFilter | string {
  const excluded = new Set(excludeInterfaces);
  const names = new Set<string>();
  const patterns: Regex[] = [];
  for (const [index, allowed] of allowedInterfaces.entries()) {
    const [, pattern] = /^\/(.*)\/$/s.exec(allowed) ?? [];
    if (pattern === undefined) {
      names.add(allowed);
      continue;
    }
    const compiled = compile(pattern);
    if (typeof compiled === 'string') {
      return `interfacesDiscoveryConfig.allowedInterfaces[${index}] is not a regular expression: ${compiled}`;
    }
    patterns.push(compiled);
  }
  const isAll = allowedInterfaces.length === 0;
  return (name) =>
    !excluded.has(name) && (isAll || names.has(name) || patterns.some((pattern) => pattern.test(name)));
}

function compile(pattern: string): Regex | string {
  try {
    const regex = new Regex(pattern);
    return regex.size > MAX_STEPS ? `it has ${regex.size} steps; the limit is ${MAX_STEPS}` : regex;
  } catch (error) {
    if (error instanceof RegexSyntaxError) return error.message;
    throw error;
  }
}
