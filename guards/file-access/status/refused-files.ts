/** Files that the sensor does not take, because its maps are full: what the agent says of them, and how status reads it. */
import { type GuardFacts, MAX_FACT_LENGTH } from '../../../guard/agent-lease-names.ts';
import { messageOf } from '../../../lib/errors/errors.ts';

export interface RefusedFiles {
  readonly count: number;
  /** Reason of the first of them. */
  readonly why: string;
  /** `namespace/name` of the policies that ask for them; undefined: too many to list, so it may be any. */
  readonly policies: ReadonlySet<string> | undefined;
}

interface Refused<P> {
  readonly planned: P;
  readonly error: unknown;
}

/** @param policyOf - `namespace/name` of the policy that asks for it */
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

/** Undefined: none. */
export function readRefused({ refused, refusedWhy, refusedOf }: GuardFacts = {}): RefusedFiles | undefined {
  if (typeof refused !== 'number' || refused === 0) return undefined;
  return {
    count: refused,
    why: typeof refusedWhy === 'string' ? refusedWhy : '',
    policies: typeof refusedOf === 'string' ? new Set(refusedOf.split(' ')) : undefined,
  };
}
