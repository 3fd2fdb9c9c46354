/** Runs policies on objects without a cluster, for `rampart policy run` and CI. */
import { builtinResources } from '../../../lib/apiserver/builtin/builtin.ts';
import type { Resource } from '../../../lib/apiserver/resources/resource.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { compileMatchConditions } from '../engine/cel/match-conditions.ts';
import type { World } from '../engine/cel/cluster.ts';
import { EvaluationError, type Evaluator, type ObjectModel, type Verdict } from '../engine/evaluator.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../policies/open-evaluator.ts';
import { exceptionFor, type Exceptions, noExceptions } from '../exceptions/exception.ts';
import { matchPolicy } from '../policies/match.ts';
import { modelOf } from '../policies/object-model.ts';
import type { Policy } from '../policies/policy.ts';
import { diffJson, type PatchOperation } from '../server/json-diff.ts';
import type { NamedPolicy } from './policy-source.ts';
import type { Subject, Subjects } from './subjects.ts';

export interface RunResult {
  readonly policy: string;
  readonly subject: Subject;
  /** `skip`: the policy does not apply to it. */
  readonly result: 'error' | 'fail' | 'pass' | 'skip';
  readonly message: string | undefined;
  readonly severity: string | undefined;
  readonly code: number | undefined;
  readonly causes: NonNullable<Verdict['causes']>;
  readonly warnings: readonly string[];
  /** Changes that the policy would make to the object. */
  readonly patch: readonly PatchOperation[];
}

export interface Run {
  readonly results: readonly RunResult[];
  /** Errors when files were read or policies opened, as text. */
  readonly problems: readonly string[];
}

/** 0 all pass, 1 something fails, 2 an evaluation failed. */
export function exitCodeOf({ results, problems }: Run): number {
  if (problems.length > 0 || results.some(({ result }) => result === 'error')) return 2;
  return results.some(({ result }) => result === 'fail') ? 1 : 0;
}

export interface RunOptions extends OpenEvaluatorOptions {
  readonly deadlineMs?: number;
  /** For match conditions and, if `hasCluster`, for the labels of namespaces that are not among the manifests. */
  readonly world?: World;
  readonly hasCluster?: boolean;
  readonly exceptions?: Exceptions;
}

/** A policy that cannot be opened is a problem, but does not affect others. */
export async function runPolicies(
  policies: readonly NamedPolicy[],
  { subjects, problems, namespaceLabels }: Subjects,
  options: RunOptions,
): Promise<Run> {
  const results: RunResult[] = [];
  const said = [...problems];
  for (const named of policies) {
    options.signal?.throwIfAborted();
    try {
      await using evaluator = await openNamed(named, options);
      for (const subject of subjects) {
        results.push(await judge(named, subject, { evaluator, namespaceLabels, options }));
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof Error)) throw error;
      said.push(`${named.id}: ${error.message}`);
    }
  }
  return { results, problems: said };
}

/** Opens a policy; the caller disposes it. @throws {Error} why it cannot be evaluated */
export async function openNamed(named: NamedPolicy, options: OpenEvaluatorOptions): Promise<Evaluator> {
  const evaluator = await openEvaluator(named.program, options);
  try {
    const { valid, message = 'no reason' } = await evaluator.validateSettings();
    if (!valid) throw new Error(`its settings are invalid: ${message}`);
    return evaluator;
  } catch (error) {
    await evaluator[Symbol.asyncDispose]();
    throw error;
  }
}

export interface Judging {
  readonly evaluator: Evaluator;
  readonly namespaceLabels: Subjects['namespaceLabels'];
  readonly options: Pick<RunOptions, 'deadlineMs' | 'exceptions' | 'hasCluster' | 'signal' | 'world'>;
}

/** The result of one policy for one object. @throws the signal's reason */
export async function judge(named: NamedPolicy, subject: Subject, judging: Judging): Promise<RunResult> {
  const { evaluator, options } = judging;
  const { signal, deadlineMs } = options;
  const { request } = subject;
  const base = {
    policy: named.id,
    subject,
    severity: named.policy?.severity,
    message: undefined,
    code: undefined,
    causes: [],
    warnings: [],
    patch: [],
  };
  try {
    const irrelevant = await irrelevance(named, subject, judging);
    if (irrelevant !== undefined) return { ...base, result: 'skip', message: irrelevant };
    const verdict = await evaluator.evaluate(request, {
      signal,
      deadlineMs,
      model: objectModelOf(subject),
    });
    const { allowed, message, code, causes = [], warnings = [], mutated } = verdict;
    return {
      ...base,
      result: allowed ? 'pass' : 'fail',
      message: allowed ? message : (named.policy?.message ?? message),
      code,
      causes:
        named.policy?.message !== undefined && message !== undefined
          ? [{ field: '', message }, ...causes]
          : causes,
      warnings,
      patch: mutated === undefined ? [] : diffJson(request.object ?? null, mutated),
    };
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof EvaluationError)) throw error;
    return { ...base, result: 'error', message: error.message };
  }
}

/**
 * The model of the object's kind, which tells a policy's changes from fields that an API server would fill in. Undefined for an
 * unknown kind.
 */
function objectModelOf({ kind: { group, version, kind }, model }: Subject): ObjectModel | undefined {
  const isKind = (one: Resource): boolean =>
    one.group === group && one.version === version && one.kind === kind;
  const found = model ?? builtinResources().flat().find(isKind)?.model;
  if (found === undefined) return undefined;
  const { applyType, complete } = modelOf({ model: found });
  return { applyType, complete: (object) => complete(structuredClone(object)) };
}

/** Why a policy does not apply; undefined if it does. */
async function irrelevance(
  { policy }: NamedPolicy,
  { request, kind, equivalents }: Subject,
  { namespaceLabels, options }: Judging,
): Promise<string | undefined> {
  if (policy === undefined) return undefined;
  const { group, version, resource, isNamespaced } = kind;
  const namespace =
    kind.kind === 'Namespace' && group === '' ? (request.name ?? '') : (request.namespace ?? '');
  const match = matchPolicy(policy, {
    group,
    version,
    resource,
    operation: request.operation,
    subresource: request.subResource ?? '',
    isNamespaced,
    namespace,
    name: request.name ?? '',
    equivalents: equivalents ?? [],
    anyVersion: equivalents !== undefined,
    labels: labelsOf(request.object),
    oldLabels: labelsOf(request.oldObject),
    namespaceLabels:
      namespace === ''
        ? undefined
        : {
            ...(namespaceLabels.get(namespace) ?? (await labelsInCluster(policy, namespace, options))),
            'kubernetes.io/metadata.name': namespace,
          },
  });
  if (typeof match === 'string') return `not matched: ${match}`;
  const target = {
    ...{ group, kind: kind.kind, namespace: isNamespaced ? namespace : '' },
    name: request.name ?? '',
    labels: labelsOf(request.object ?? request.oldObject) ?? {},
  };
  const exception = exceptionFor(options.exceptions ?? noExceptions, policy.origin, target, Date.now());
  if (exception !== undefined) return exception.message;
  if (policy.matchConditions.length === 0) return undefined;
  const conditions = compileMatchConditions(policy.matchConditions, options.world);
  if (conditions.problems.length > 0) throw new EvaluationError('expression', conditions.problems.join('; '));
  const found = await conditions.match(request, options.signal && { signal: options.signal });
  if (found.matched) return undefined;
  if (found.error !== undefined && !policy.ignoresFailures)
    throw new EvaluationError('expression', found.error);
  return 'not matched: matchConditions';
}

/** @throws {EvaluationError} if the cluster does not answer. */
async function labelsInCluster(
  { constraints }: Policy,
  name: string,
  { hasCluster = false, world, signal = new AbortController().signal }: Judging['options'],
): Promise<Readonly<Record<string, string>> | undefined> {
  if (!hasCluster || constraints.every(({ namespaceSelector }) => namespaceSelector === undefined))
    return undefined;
  try {
    return labelsOf(await world?.cluster?.get({ apiVersion: 'v1', kind: 'Namespace', name }, signal));
  } catch (error) {
    signal.throwIfAborted();
    throw new EvaluationError('trap', `cannot read the Namespace ${name}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function labelsOf(object: Record<string, unknown> | null | undefined): Record<string, string> | undefined {
  if (object === null || object === undefined) return undefined;
  const { labels } = (object['metadata'] ?? {}) as { labels?: Record<string, string> };
  return labels ?? {};
}
