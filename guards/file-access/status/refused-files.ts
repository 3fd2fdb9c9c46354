/** Files that the sensor refuses because its maps are full: how the agent publishes them, and how status reads that. */
import { type GuardFacts, MAX_FACT_LENGTH } from '../../../guard/agent-lease-names.ts';
import { messageOf } from '../../../lib/errors/errors.ts';

export interface RefusedFiles {
  readonly count: number;
  /** Why the first of these files was refused. */
  readonly why: string;
  /**
   * `namespace/name` of the policies that name these files; undefined if they are too many to list, so that it may be
   * any policy.
   */
  readonly policies: ReadonlySet<string> | undefined;
}

interface Refused<P> {
  readonly planned: P;
  readonly error: unknown;
}

/** @param policyOf - Returns `namespace/name` of the policy that names the file. */
export function refusedFacts<P>(
  refused: readonly Refused<P>[],
  policyOf: (planned: P) => string,
): GuardFacts {
  const [first] = refused;
  if (first === undefined) return {};
  const policies = [...new Set(refused.map(({ planned }) => policyOf(planned)))].join(' ');
  return {
    refused: refused.length,
    refusedWhy: messageOf(first.error).slice(0, MAX_FACT_LENGTH),
    ...(policies.length <= MAX_FACT_LENGTH && { refusedOf: policies }),
  };
}

/** Undefined if no file is refused. */
export function readRefused({ refused, refusedWhy, refusedOf }: GuardFacts = {}): RefusedFiles | undefined {
  if (typeof refused !== 'number' || refused === 0) return undefined;
  return {
    count: refused,
    why: typeof refusedWhy === 'string' ? refusedWhy : '',
    policies: typeof refusedOf === 'string' ? new Set(refusedOf.split(' ')) : undefined,
  };
}
