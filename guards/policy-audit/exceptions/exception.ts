/** A PolicyException in the form in which evaluations use it: which policies, which objects, until when. Pure. */
import { systemNamespace } from '../../../guard/guard.ts';
import {
  type LabelSelector,
  labelSelectorOf,
  type Labels,
  labelsMatch,
} from '../../../lib/kube/selectors/selectors.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import type { Problem } from '../engine/cel/settings.ts';
import { nameGlob } from '../../../lib/regex/glob.ts';
import type { PolicyException } from '../api.ts';
import type { PolicyOrigin } from '../policies/policy.ts';

type Test = (text: string) => boolean;

export interface Exception {
  /** `namespace/name` */
  readonly key: string;
  /** `kind/name` of each policy. */
  readonly policies: readonly string[];
  /** Milliseconds since 1970; Infinity if the exception does not end. */
  readonly untilMs: number;
  /** The message in the results of exempted objects. */
  readonly message: string;
  /** Stays the same as long as the exception does not change. */
  readonly version: string;
  /** Whether the exception applies to objects of this kind. */
  matchesKind(kind: Pick<ExceptionTarget, 'group' | 'kind'>): boolean;
  matches(target: ExceptionTarget): boolean;
}

/** An object that may be exempted. */
export interface ExceptionTarget {
  readonly group: string;
  readonly kind: string;
  /** '' if it is cluster-scoped, as a Namespace is. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
}

/** Exceptions, keyed by `kind/name` of the policy. */
export type Exceptions = ReadonlyMap<string, readonly Exception[]>;

export const noExceptions: Exceptions = new Map();

/** @throws {RampartError} `INPUT` for globs, selectors and times that cannot be parsed */
export function readException({ metadata, spec }: PolicyException): Exception {
  const { namespace = '', name = '', uid = '', generation = 0 } = metadata;
  const { match, until, reason } = spec;
  const kinds = match.kinds.map((kind) => nameGlob(kind, 'spec.match.kinds'));
  const names = match.names?.map((one) => nameGlob(one, 'spec.match.names'));
  const namespaces = match.namespaces?.map((one) => nameGlob(one, 'spec.match.namespaces'));
  const selector: LabelSelector | undefined = match.selector && labelSelectorOf(match.selector);
  const isForAll = namespace === systemNamespace;
  const matchesKind: Exception['matchesKind'] = ({ group, kind }) =>
    hasAny(kinds, group === '' ? kind : `${group}/${kind}`);
  const ending = until === undefined ? '' : ` until ${until}`;
  return {
    key: `${namespace}/${name}`,
    policies: spec.policies.map((policy) => `${policy.kind}/${policy.name}`),
    untilMs: until === undefined ? Infinity : Date.parse(until),
    message: `excepted by PolicyException ${namespace}/${name}${ending}: ${reason}`,
    version: `${uid} ${generation}`,
    matchesKind,
    matches: (target) =>
      (isForAll || target.namespace === namespace) &&
      hasAny(namespaces, target.namespace) &&
      matchesKind(target) &&
      hasAny(names, target.name) &&
      (selector === undefined || labelsMatch(selector, target.labels)),
  };
}

/** Why the exception cannot be parsed, beyond what the API's schema checks. */
export function exceptionFaults(object: PolicyException): readonly Problem[] {
  try {
    readException(object);
    return [];
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return [{ reason: 'FieldValueInvalid', field: 'spec.match', message: `Invalid value: ${error.message}` }];
  }
}

export function exceptionsByPolicy(exceptions: Iterable<Exception>): Exceptions {
  const found = new Map<string, Exception[]>();
  for (const exception of exceptions) {
    for (const policy of exception.policies) found.set(policy, [...(found.get(policy) ?? []), exception]);
  }
  return found;
}

/** The exception that now exempts an object from a policy. If there are several, it is always the same one. */
export function exceptionFor(
  exceptions: Exceptions,
  { kind, name }: Pick<PolicyOrigin, 'kind' | 'name'>,
  target: ExceptionTarget,
  nowMs: number,
): Exception | undefined {
  if (exceptions.size === 0) return undefined;
  return exceptions.get(`${kind}/${name}`)?.find((one) => nowMs < one.untilMs && one.matches(target));
}

/** Whether one of the tests matches. Without tests, everything matches. */
function hasAny(tests: readonly Test[] | undefined, text: string): boolean {
  return tests === undefined || tests.some((test) => test(text));
}
