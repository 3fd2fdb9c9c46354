/**
 * What a guard has to say of writes, where the API server is in the same process. In a cluster, it registers webhooks itself.
 */
import type { ResourceModel } from '../lib/apiserver/resources/resource.ts';
import type { JsonObject } from '../lib/json/json.ts';
import type { ResourceType } from '../lib/kube/object/object.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'DELETE' | 'UPDATE';
  readonly resource: ResourceType & { readonly model: ResourceModel };
  readonly subresource: { readonly name: string } | undefined;
  readonly namespace: string;
  /** '' where it is to be generated. */
  readonly name: string;
  readonly user: { readonly name: string; readonly groups: readonly string[] };
  readonly dryRun: boolean;
  /** For Warning headers; add to it. */
  readonly warnings: string[];
}

/**
 * Both are called for each attempt of a write, with objects that they leave as they are: `object` as it would be stored
 * (`undefined` for a deletion), `old` as it is (`undefined` for a creation). What they throw is the answer; it should be an
 * `ApiError` of lib/apiserver. A promise only where there is something to wait for: writes are many.
 */
export interface Admission {
  /**
   * Before the object is held to the rules of its kind. What is returned, if anything, is stored in place of `object`: a whole
   * object that shares nothing with it.
   */
  admit?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Changed | Promise<Changed>;
  /** After it. */
  validate?(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): void | Promise<void>;
}

/** What an admission has made of the object, if it has changed it. */
export type Changed = JsonObject | undefined | void;

/** Of the API server, for a guard whose descriptor has `admits`: until the guard is asked, writes wait. */
export interface AdmissionChain {
  /** Asks it for each write, until what is returned is disposed. Then writes wait again. */
  use(admission: Admission): Disposable;
}

/** For all guards, by their names. */
export interface GuardAdmissions {
  use(guard: string, admission: Admission): Disposable;
  /** It will not come: nothing waits for it any more. */
  giveUp(guard: string): void;
}
