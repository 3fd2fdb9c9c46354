/** A PolicyException as policies are asked about it: which policies, which objects, until when. Pure. */
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
  /** As `kind/name`. */
  readonly policies: readonly string[];
  /** Infinity: without an end. */
  readonly untilMs: number;
  /** The message in results. */
  readonly message: string;
  /** Unchanged as long as the exception is. */
  readonly version: string;
  /** Whether it is for objects of a kind. */
  matchesKind(kind: Pick<ExceptionTarget, 'group' | 'kind'>): boolean;
  matches(target: ExceptionTarget): boolean;
}

/** An object. */
export interface ExceptionTarget {
  readonly group: string;
  readonly kind: string;
  /** '' if it is cluster-scoped, as a Namespace is. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
}

/** Keyed by `kind/name` of the policy. */
export type Exceptions = ReadonlyMap<string, readonly Exception[]>;

export const noExceptions: Exceptions = new Map();

/** @throws {RampartError} `INPUT` for globs, selectors and times that cannot be read */
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

/** Why it cannot be read, beyond what its definition checks. */
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

/** The exception by which a policy does not apply to an object now, the same one of several each time. */
export function exceptionFor(
  exceptions: Exceptions,
  { kind, name }: Pick<PolicyOrigin, 'kind' | 'name'>,
  target: ExceptionTarget,
  nowMs: number,
): Exception | undefined {
  if (exceptions.size === 0) return undefined;
  return exceptions.get(`${kind}/${name}`)?.find((one) => nowMs < one.untilMs && one.matches(target));
}

/** Whether any of the tests matches; undefined tests match everything. */
function hasAny(tests: readonly Test[] | undefined, text: string): boolean {
  return tests === undefined || tests.some((test) => test(text));
}
