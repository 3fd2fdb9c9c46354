/** What may reject a write, besides the rules of its kind. */
import { type Metadata, orderedMetadata, readMetadata } from '../resources/metadata-fields.ts';
import type { Resource, Subresource } from '../resources/resource.ts';
import { fieldOf, type JsonObject } from '../../json/json.ts';
import type { User } from './request.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'DELETE' | 'UPDATE';
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  readonly namespace: string;
  /** '' where it is to be generated. */
  readonly name: string;
  readonly user: User;
  readonly dryRun: boolean;
  /** For Warning headers; add to it. */
  readonly warnings: string[];
}

/**
 * Both are called for each attempt of a write, with objects that they leave as they are: `object` as it would be
 * stored (`undefined` for a deletion), `old` as it is (`undefined` for a creation). What they throw is the answer; it
 * should be an `ApiError`. For a collection that is deleted, they are asked for each object.
 */
export interface Admission {
  /**
   * Before the object is held to the rules of its kind. What is returned, if anything, is stored in place of `object`: a whole
   * object that shares nothing with it. Of its metadata, labels, annotations, finalizers and owners count.
   */
  admit?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Changed | Promise<Changed>;
  /** After it. */
  validate?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): void | Promise<void>;
}

/** What an admission has made of the object, if it has changed it. */
export type Changed = JsonObject | undefined | void;

/** Asks all for `admit`, in order, each with what the one before has made of the object. As quick as {@link askAll}. */
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
 * What an admission has made of an object, as one that can be stored: with defaults, without what its kind does not know, and
 * with the metadata that only the server sets as it was.
 *
 * @throws {TypeError} for metadata that are none, and what decoding the object throws.
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

/** Asks all for `validate`, in order. A promise only where there is something to wait for: writes are many. */
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
