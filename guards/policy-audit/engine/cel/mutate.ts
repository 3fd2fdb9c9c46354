/**
 * Policies that mutate: their expressions yield JSON patches or configurations, which are applied one after the
 * other (apiserver `pkg/admission/plugin/policy/mutating`).
 */
import { CelMessage } from '../../../../lib/cel/values.ts';
import { mergeApplied } from '../../../../lib/apiserver/apply/merge.ts';
import { type ApplyType, fieldType, schemaless } from '../../../../lib/apiserver/apply/type.ts';
import { problemsOf } from '../../../../lib/apiserver/apply/validate.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';
import { applyJsonPatch, FailedTest } from '../../../../lib/json/json-patch.ts';
import { cloneJson, deepEqual, fieldOf, isObject } from '../../../../lib/json/json.ts';
import { misnamedParts, toJson } from './patch-types.ts';
import { EvaluationError, type JsonObject, type ObjectModel, type PolicyRequest } from '../evaluator.ts';
import type { Asks } from './asks.ts';
import { type CreateFrame, Evaluation } from './decide.ts';
import { matchAll } from './matching.ts';
import type { ParamsFound } from './params.ts';
import type { CompiledMutation, CompiledPolicy } from './policy.ts';

export interface Mutated {
  /** The object as changed by the policy; undefined if unchanged. */
  readonly mutated: JsonObject | undefined;
  /** Mutations that failed. If the policy ignores failures, all others are still applied. */
  readonly errors: readonly { readonly why: EvaluationError['why']; readonly message: string }[];
}

/** Evaluates each expression for each parameter; each sees the changes of those before it. */
export function mutatedObject(
  policy: CompiledPolicy,
  {
    frameOf,
    request,
    asks,
    params,
    model,
  }: {
    readonly frameOf: CreateFrame;
    readonly request: PolicyRequest;
    readonly asks: Asks;
    readonly params: ParamsFound;
    readonly model: ObjectModel | undefined;
  },
): Mutated {
  const { object } = request;
  const errors: Mutated['errors'][number][] = [];
  if (policy.mutations.length === 0 || object === undefined || object === null)
    return { mutated: undefined, errors };
  let current = object;
  for (const [place, one] of params.entries()) {
    for (const [index, mutation] of policy.mutations.entries()) {
      const before = current;
      const evaluation = asks.evaluation(`mutation ${place} ${index}`, () => {
        return new Evaluation(frameOf({ ...request, object: before }, asks, one), asks);
      });
      const match = index === 0 ? matchAll(policy.matchConditions, evaluation) : undefined;
      if (match?.error !== undefined) errors.push({ why: 'expression', message: match.error });
      if (match?.matched === false) break;
      const result = evaluation.run(mutation.expression, mutation.source);
      if (result.error !== undefined) {
        errors.push({ why: result.why, message: result.error });
        continue;
      }
      try {
        current = changed(before, result.value, mutation, model);
      } catch (error) {
        if (error instanceof EvaluationError) throw error;
        errors.push({ why: 'expression', message: messageOf(error) });
      }
    }
  }
  return { mutated: deepEqual(object, current) ? undefined : current, errors };
}

/** @throws {Error} that says why the object cannot be changed like that */
function changed(
  object: JsonObject,
  value: unknown,
  { patchType, source }: CompiledMutation,
  model: ObjectModel | undefined,
): JsonObject {
  const result =
    patchType === 'JSONPatch'
      ? patched(object, value, source)
      : configured(object, value, model?.applyType ?? schemaless);
  if (result === object || deepEqual(result, object)) return object;
  const [kept] = unchangeable(object, result);
  if (kept !== undefined)
    throw new Error(`expression '${source}' changes ${kept}, which no policy may change`);
  // Cloned: what it shares with the request's object must not change.
  const completed = cloneJson(result) as JsonObject;
  model?.complete(completed);
  return completed;
}

function patched(object: JsonObject, patch: unknown, source: string): JsonObject {
  for (const operation of Array.isArray(patch) ? (patch as unknown[]) : []) {
    const [misnamed] = misnamedParts(
      operation instanceof CelMessage ? operation.fields.get('value') : undefined,
    );
    if (misnamed !== undefined) throw new Error(`type mismatch: ${misnamed}`);
  }
  try {
    return applyJsonPatch(object, toJson(patch));
  } catch (error) {
    if (error instanceof FailedTest) return object;
    const why = messageOf(error);
    throw new Error(`the patch of expression '${source}' cannot be applied: ${why}`, { cause: error });
  }
}

function configured(object: JsonObject, value: unknown, type: ApplyType): JsonObject {
  const misnamed = misnamedParts(value);
  if (misnamed.length > 0) throw new Error(`type mismatch: ${misnamed.join(', ')}`);
  const { apiVersion, kind } = object;
  const configuration = { ...(toJson(value) as JsonObject), apiVersion, kind };
  const problems = problemsOf(configuration, type);
  if (problems.length > 0)
    throw new Error(
      `error applying patch: failed to convert patch object to typed object: ${problems.join(', ')}`,
    );
  const atomic = atomicParts(configuration, type, '');
  if (atomic.length > 0)
    throw new Error(
      `error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ${atomic.join(', ')}`,
    );
  return mergeApplied(object, configuration, type) as JsonObject;
}

/** Lists and maps that a configuration would replace as a whole, which is rarely intended. */
function atomicParts(value: unknown, type: ApplyType, path: string): string[] {
  if (Array.isArray(value) && type.list !== undefined) {
    const { relation, items } = type.list;
    const own = relation === 'atomic' ? [path] : [];
    return [...own, ...value.flatMap((item, index) => atomicParts(item, items, `${path}[${index}]`))];
  }
  if (!isObject(value) || type.map === undefined) return [];
  const { map } = type;
  const own = map.atomic ? [path] : [];
  // Without a schema, maps are merged field by field, but lists are replaced.
  const isKnown = (name: string): boolean => map.fields.has(name) || map.rest === schemaless;
  return [
    ...own,
    ...Object.entries(value).flatMap(([name, field]) =>
      isKnown(name) ? atomicParts(field, fieldType(map, name), `${path}.${name}`) : [],
    ),
  ];
}

const changeable: ReadonlySet<string> = new Set(['annotations', 'finalizers', 'labels', 'ownerReferences']);

/** Fields that differ, and that policies may not change. */
function unchangeable(before: JsonObject, after: JsonObject): string[] {
  const [old, now] = [metadataOf(before), metadataOf(after)];
  const names = new Set([...Object.keys(old), ...Object.keys(now)]);
  return [
    ...['apiVersion', 'kind'].filter((name) => !deepEqual(fieldOf(before, name), fieldOf(after, name))),
    ...[...names]
      .filter((name) => !changeable.has(name) && !deepEqual(fieldOf(old, name), fieldOf(now, name)))
      .map((name) => `metadata.${name}`),
  ];
}

function metadataOf(object: JsonObject): JsonObject {
  const metadata = fieldOf(object, 'metadata');
  return isObject(metadata) ? metadata : {};
}
