/** Between HTTP and the verbs: a request, understood and decoded, and its answer before it has a form. */
import type { Item, ItemChange } from '../resources/item.ts';
import type { Resource, Subresource, Verb } from '../resources/resource.ts';

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** All that they may do. Default: everything. */
  readonly rules?: readonly AccessRule[];
}

/** As RBAC has it, without bindings. `*` stands for all. */
export interface AccessRule {
  readonly apiGroups: readonly string[];
  /** With subresources: `pods/log`. */
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Default: objects of every name, and collections. */
  readonly resourceNames?: readonly string[] | undefined;
  /** In which namespace. Default: in all, and for what is in none. */
  readonly namespace?: string | undefined;
}

export const patchMediaTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
] as const;
export type PatchMediaType = (typeof patchMediaTypes)[number];
/** A CustomResourceDefinition does not define how lists are merged. */
export const customPatchMediaTypes = patchMediaTypes.filter(
  (type) => type !== 'application/strategic-merge-patch+json',
);

export interface Body {
  /** The decoded JSON or YAML; anything. */
  readonly value: unknown;
  /** Duplicate fields, as strict field validation names them: `duplicate field "spec.a"`. */
  readonly duplicates: readonly string[];
}

export interface ResourceRequest {
  readonly verb: Verb;
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  /** '' for cluster-scoped objects, and for a collection over all namespaces. */
  readonly namespace: string;
  /** '' for collections. */
  readonly name: string;
  /** Not examined yet: the verbs read it and refuse what makes no sense. */
  readonly query: URLSearchParams;
  readonly body: Body | undefined;
  /** Only for a patch. */
  readonly patchType: PatchMediaType | undefined;
  readonly user: User;
  /** A whole list may be answered as `texts`: its objects are requested in their stored form. */
  readonly takesTexts?: boolean;
  /** For the name of the field manager if the query has none. */
  readonly userAgent: string | undefined;
  /** For the Warning headers of the answer; the verbs add to it. */
  readonly warnings: string[];
  /** Aborted when the client has gone or the server stops. A write that was begun is finished all the same. */
  readonly signal: AbortSignal;
}

export interface ItemList {
  readonly resource: Resource;
  readonly items: readonly Item[];
  readonly version: bigint;
  readonly continue: string | undefined;
  /** `undefined` if it is not known, as with selectors. */
  readonly remaining: number | undefined;
}

/** All objects of a kind in their stored form: for lists that need no parsing. */
export interface ItemTexts {
  readonly resource: Resource;
  readonly version: bigint;
  /** JSON in UTF-8 with a comma between two objects; read when it is asked for, once. Reading may throw `ExpiredError`. */
  readonly parts: Iterable<Uint8Array>;
}

export type WatchEvent =
  | ItemChange
  /** All changes up to this version were sent. `initialEventsEnd`: all objects that existed when the watch began were sent. */
  | { readonly type: 'BOOKMARK'; readonly version: bigint; readonly initialEventsEnd: boolean };

export interface ItemWatch {
  readonly resource: Resource;
  /**
   * Batches, never empty; ends when the time of the watch is up, the signal is aborted, or its resource is no
   * longer served. Throws an `ApiError` for an ERROR event.
   */
  readonly events: AsyncIterable<readonly WatchEvent[]>;
}

/** A text that may have no end. */
export interface TextStream {
  readonly contentType: string;
  /**
   * Read once; ends also when the signal of the request is aborted. An error ends the answer in the middle,
   * so that the reader knows that it is incomplete.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
}

export type ResourceAnswer =
  | { readonly kind: 'item'; readonly code: 200 | 201 | 202; readonly item: Item }
  | { readonly kind: 'list'; readonly list: ItemList }
  | { readonly kind: 'texts'; readonly list: ItemTexts }
  | { readonly kind: 'watch'; readonly watch: ItemWatch }
  | { readonly kind: 'stream'; readonly stream: TextStream }
  /** A Status of success, as some deletions answer. */
  | { readonly kind: 'status'; readonly code: 200 | 202; readonly body: object };
