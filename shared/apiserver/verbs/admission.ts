/**
 * Who may object to a write, besides the rules of its kind.
 *
 * @module
 */
import type { Resource, Subresource } from '../resources/resource.ts';
import type { JsonObject } from '../schema/json.ts';
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
  /** Before the object is held to the rules of its kind. */
  admit?(
    request: AdmissionRequest,
    object: JsonObject | undefined,
    old: JsonObject | undefined,
  ): void | Promise<void>;
  /** After it. */
  validate?(
    request: AdmissionRequest,
    object: JsonObject | undefined,
    old: JsonObject | undefined,
  ): void | Promise<void>;
}

/** Asks all, in order. A promise only where there is something to wait for: writes are many. */
export function askAll(
  admissions: readonly Admission[],
  stage: 'admit' | 'validate',
  request: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): Promise<void> | undefined {
  for (const [index, admission] of admissions.entries()) {
    const waiting = admission[stage]?.(request, object, old);
    if (waiting === undefined) continue;
    const rest = admissions.slice(index + 1);
    return waiting.then(() => askAll(rest, stage, request, object, old));
  }
  return undefined;
}
