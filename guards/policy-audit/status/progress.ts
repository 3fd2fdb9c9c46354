/** What the operator is doing: how it is written to its lease, and how `rampart status` reads it. */
import type { GuardFacts } from '../../../guard/agent-lease-names.ts';
import type { PassProgress } from '../scanner/audit-pass.ts';

/** Policies whose modules are being fetched from a registry, or compiled. */
export interface Opening {
  /** RFC 3339: since when the one that has taken longest is being opened. */
  readonly since: string;
  readonly count: number;
  /** The ID of the policy that has taken longest. */
  readonly longest: string;
}

export interface Progress {
  /** The current full pass over the objects. */
  readonly pass: PassProgress | null;
  readonly opening: Opening | null;
  /** Why nothing is audited; undefined if audits are running. */
  readonly notAudited: string | undefined;
}

export function progressFacts(
  pass: PassProgress | undefined,
  opening: ReadonlyMap<string, number>,
  notAudited: string | undefined,
): GuardFacts {
  const [longest] = [...opening].toSorted(([, a], [, b]) => a - b);
  return {
    ...(notAudited !== undefined && { notAudited }),
    ...(pass && { passSince: pass.since, passNamespaces: pass.namespaces, passLeft: pass.left }),
    ...(longest && {
      openingSince: new Date(longest[1]).toISOString(),
      opening: opening.size,
      openingLongest: longest[0],
    }),
  };
}

/** Reads the parts that are understood by this release. */
export function readProgress(facts: GuardFacts = {}): Progress {
  const time = (name: string): string | undefined => {
    const value = facts[name];
    return typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? value : undefined;
  };
  const number = (name: string): number => (typeof facts[name] === 'number' ? facts[name] : 0);
  const [passSince, openingSince] = [time('passSince'), time('openingSince')];
  return {
    notAudited: typeof facts['notAudited'] === 'string' ? facts['notAudited'] : undefined,
    pass:
      passSince === undefined
        ? null
        : { since: passSince, namespaces: number('passNamespaces'), left: number('passLeft') },
    opening:
      openingSince === undefined
        ? null
        : {
            since: openingSince,
            count: number('opening'),
            longest: String(facts['openingLongest'] ?? ''),
          },
  };
}
