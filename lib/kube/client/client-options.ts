import type { Target } from '../object/object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Limit for the whole call, including retries and reading the answer. Default: 30 s, for a list 60 s. */
  readonly timeoutMs?: number | undefined;
}

interface Selection {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface ListOptions extends CallOptions, Selection {
  /** Limits the number of items; the list's `metadata.continue` requests the rest. */
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Owner of the written fields. */
  readonly fieldManager?: string | undefined;
  /** Check and answer, but change nothing. */
  readonly dryRun?: boolean;
  readonly fieldValidation?: 'Ignore' | 'Warn' | 'Strict';
  /** Request only the metadata: the rest of a large object is neither sent nor parsed. */
  readonly metadataOnly?: boolean;
}

export interface ApplyOptions extends WriteOptions {
  readonly fieldManager: string;
  /** Take over fields that another manager owns; without it, they are a conflict. */
  readonly force?: boolean;
  readonly subresource?: string;
}

export interface DeleteOptions extends CallOptions {
  readonly gracePeriodSeconds?: number;
  /** Delete only an object that still has these; any other is a conflict. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: boolean;
}

/** A patch of one of the three kinds; for server-side apply there is `apply`. */
export interface Patch {
  readonly type: 'json' | 'merge' | 'strategic';
  readonly body: unknown;
}

/** One object: its namespace if it has one, its name, perhaps a subresource. */
export type ObjectTarget = Target & { readonly name: string };
