/**
 * Lets a guard reject or change writes, if the API server is in the same process. In a cluster, the guard registers
 * webhooks itself.
 */
import type { ResourceModel } from '../lib/apiserver/resources/resource.ts';
import type { JsonObject } from '../lib/json/json.ts';
import type { ResourceType } from '../lib/kube/object/object.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'DELETE' | 'UPDATE';
  readonly resource: ResourceType & { readonly model: ResourceModel };
  readonly subresource: { readonly name: string } | undefined;
  readonly namespace: string;
  /** '' if it has to be generated. */
  readonly name: string;
  readonly user: { readonly name: string; readonly groups: readonly string[] };
  readonly dryRun: boolean;
  /** The texts of Warning headers in the response; append to it. */
  readonly warnings: string[];
}

/**
 * Both methods are called for each attempt to write, and must not change their arguments: `object` as it would be
 * stored (`undefined` for a deletion), `old` as stored (`undefined` for a creation). An error that they throw
 * is the answer; it should be an `ApiError` of lib/apiserver. Return a promise only if you have to wait for
 * something: this is called for every write.
 *
 * @example
 * const noDoors: Admission = {
 *   validate({ resource, name }, object) {
 *     if (resource.plural === 'doors' && object !== undefined) throw apiErrors.forbidden(resource, name, 'doors are not allowed');
 *   },
 * };
 */
export interface Admission {
  /**
   * Called before the object is validated. A returned object is stored in place of `object`: it must be
   * complete and share nothing with it.
   */
  admit?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Changed | Promise<Changed>;
  /** Called after the object was validated. */
  validate?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): void | Promise<void>;
}

/** The object that `admit` returns in place of the given one; undefined: the given one stays. */
export type Changed = JsonObject | undefined | void;

/**
 * The part of the API server that a guard whose descriptor has `admits` uses: writes wait until the guard has registered.
 *
 * @example
 * using _asked = context.admission?.use(noDoors);
 */
export interface AdmissionChain {
  /** Calls the admission for each write, until the result is disposed. After that, writes wait again. */
  use(admission: Admission): Disposable;
}

/** The admissions of all guards, by the guards' names. */
export interface GuardAdmissions {
  use(guard: string, admission: Admission): Disposable;
  /** The guard will not register: writes no longer wait for it. */
  giveUp(guard: string): void;
}
