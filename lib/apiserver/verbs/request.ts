/** The interface between HTTP and the verbs: parsed and decoded requests, and answers before they are rendered. */
import type { Item, ItemChange } from '../resources/item.ts';
import type { Resource, Subresource, Verb } from '../resources/resource.ts';

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** The only things that the user may do. Default: everything. */
  readonly rules?: readonly AccessRule[];
}

/** A rule as in RBAC, without bindings. `*` means all. */
export interface AccessRule {
  readonly apiGroups: readonly string[];
  /** Plural names, or subresources such as `pods/log`. */
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Default: objects of every name, and collections. */
  readonly resourceNames?: readonly string[] | undefined;
  /** The namespace to which the rule applies. Default: all namespaces and cluster-scoped objects. */
  readonly namespace?: string | undefined;
}

export const patchMediaTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
] as const;
export type PatchMediaType = (typeof patchMediaTypes)[number];
/** Without strategic merge patch: a CustomResourceDefinition does not define how it merges lists. */
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
  /** Not checked yet: the verbs read it and refuse invalid parameters. */
  readonly query: URLSearchParams;
  readonly body: Body | undefined;
  /** Only for a patch. */
  readonly patchType: PatchMediaType | undefined;
  readonly user: User;
  /** Whether a whole list may be answered as `texts`, because the objects are requested in their stored form. */
  readonly takesTexts?: boolean;
  /** Determines the field manager if the query does not name one. */
  readonly userAgent: string | undefined;
  /** Texts for the answer's Warning headers, to which the verbs add. */
  readonly warnings: string[];
  /** Aborted when the client disconnects or the server stops. A write that has begun is still finished. */
  readonly signal: AbortSignal;
}

export interface ItemList {
  readonly resource: Resource;
  readonly items: readonly Item[];
  readonly version: bigint;
  readonly continue: string | undefined;
  /** Number of objects on later pages; `undefined` if unknown, as with selectors. */
  readonly remaining: number | undefined;
}

/** All objects of a kind as stored texts, for lists that need no parsing. */
export interface ItemTexts {
  readonly resource: Resource;
  readonly version: bigint;
  /** The objects as JSON in UTF-8, separated by commas. Read on demand, only once; reading may throw `ExpiredError`. */
  readonly parts: Iterable<Uint8Array>;
}

export type WatchEvent =
  | ItemChange
  /** All changes up to this version were sent. `initialEventsEnd`: all objects that existed when the watch began were sent. */
  | { readonly type: 'BOOKMARK'; readonly version: bigint; readonly initialEventsEnd: boolean };

export interface ItemWatch {
  readonly resource: Resource;
  /**
   * Batches of events, never empty. Ends when the time of the watch is up, the signal is aborted, or its kind is no
   * longer served. Throws an `ApiError` for an ERROR event.
   */
  readonly events: AsyncIterable<readonly WatchEvent[]>;
}

/** A text that may never end, such as a followed log. */
export interface TextStream {
  readonly contentType: string;
  /**
   * Read only once; also ends when the signal of the request is aborted. After an error the connection is broken off, so
   * that the reader knows that the text is incomplete.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
}

export type ResourceAnswer =
  | { readonly kind: 'item'; readonly code: 200 | 201 | 202; readonly item: Item }
  | { readonly kind: 'list'; readonly list: ItemList }
  | { readonly kind: 'texts'; readonly list: ItemTexts }
  | { readonly kind: 'watch'; readonly watch: ItemWatch }
  | { readonly kind: 'stream'; readonly stream: TextStream }
  /** A Status of success, as after some deletions. */
  | { readonly kind: 'status'; readonly code: 200 | 202; readonly body: object };
