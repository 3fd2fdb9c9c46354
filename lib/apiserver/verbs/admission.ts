/** Admission: parts of the program that may change or reject a write, in addition to the rules of its kind. */
import { type Metadata, orderedMetadata, readMetadata } from '../resources/metadata-fields.ts';
import type { Resource, Subresource } from '../resources/resource.ts';
import { fieldOf, type JsonObject } from '../../json/json.ts';
import type { User } from './request.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'DELETE' | 'UPDATE';
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  readonly namespace: string;
  /** '' if it has to be generated. */
  readonly name: string;
  readonly user: User;
  readonly dryRun: boolean;
  /** Texts for Warning headers, to which an admission may add. */
  readonly warnings: string[];
}

/**
 * Both methods are called for each attempt of a write, and must not change their arguments: `object` as it would be
 * stored (`undefined` for a deletion), `old` as stored (`undefined` for a creation). An error that they throw becomes the
 * answer; it should be an `ApiError`. When a collection is deleted, they are called for each object.
 */
export interface Admission {
  /**
   * Called before the object is validated. A returned object is stored in place of `object`: it must be complete and share
   * nothing with it. In its metadata, only changes of labels, annotations, finalizers and owners have an effect.
   */
  admit?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Changed | Promise<Changed>;
  /** Called after the object was validated. */
  validate?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): void | Promise<void>;
}

/** The object as changed by an admission; `undefined` if it changes nothing. */
export type Changed = JsonObject | undefined | void;

/** Calls `admit` of all in order, each with the result of the previous one. Like {@link askAll}, returns a promise only if needed. */
export function admitAll(
  admissions: readonly Admission[],
  request: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): Changed | Promise<Changed> {
  let changed: JsonObject | undefined;
  for (const [index, admission] of admissions.entries()) {
    const answer = admission.admit?.(request, changed ?? object, old);
    if (answer instanceof Promise) {
      const before = changed;
      return answer.then(async (later) => {
        const now = later ?? before;
        return (await admitAll(admissions.slice(index + 1), request, now ?? object, old)) ?? now;
      });
    }
    if (answer !== undefined) changed = answer;
  }
  return changed;
}

/**
 * Prepares an object that an admission has changed for storage: fills in defaults, removes unknown fields, and restores the
 * metadata that only the server sets.
 *
 * @throws {TypeError} for malformed metadata, and any error of decoding the object.
 */
export function changedObject({ model }: Resource, changed: JsonObject, before: Metadata): JsonObject {
  const { labels, annotations, finalizers, ownerReferences } = readMetadata(
    fieldOf(changed, 'metadata'),
  ).metadata;
  model.decode?.(changed);
  model.schema.applyDefaults(changed);
  model.schema.prune(changed);
  const { labels: _l, annotations: _a, finalizers: _f, ownerReferences: _o, ...kept } = before;
  changed['metadata'] = orderedMetadata({
    ...kept,
    ...(labels && { labels }),
    ...(annotations && { annotations }),
    ...(finalizers && { finalizers }),
    ...(ownerReferences && { ownerReferences }),
  });
  return changed;
}

/**
 * Calls `validate` of all, in order. Returns a promise only if one of them does, since this is called for every write.
 */
export function askAll(
  admissions: readonly Admission[],
  request: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): Promise<void> | undefined {
  for (const [index, admission] of admissions.entries()) {
    const waiting = admission.validate?.(request, object, old);
    if (waiting === undefined) continue;
    const rest = admissions.slice(index + 1);
    return waiting.then(() => askAll(rest, request, object, old));
  }
  return undefined;
}
