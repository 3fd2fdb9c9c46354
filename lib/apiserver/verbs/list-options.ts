/**
 * `ListOptions` of meta/v1, for lists, watches and deletions of collections. Combinations are refused as in
 * k8s.io/apimachinery `pkg/apis/meta/internalversion/validation` and `defaults.go`.
 */
import { type Cause, fieldError } from '../schema/field-error.ts';
import { booleanOf, integerOf, refuseOptions } from './query.ts';
import type { ResourceRequest } from './request.ts';

export interface ListOptions {
  /** 0 for all. */
  readonly limit: number;
  readonly continue: string;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
}

export interface WatchOptions {
  readonly resourceVersion: string;
  readonly allowBookmarks: boolean;
  /** Whether the existing objects come first. */
  readonly sendInitialEvents: boolean;
  readonly timeoutSeconds: number | undefined;
}

const noOptions: ListOptions = { limit: 0, continue: '', resourceVersion: '', resourceVersionMatch: '' };

/** @throws {ApiError} 400, 422 */
export function listOptions({ query }: ResourceRequest): ListOptions {
  if (query.size === 0) return noOptions;
  const limit = integerOf(query, 'limit') ?? 0;
  const token = query.get('continue') ?? '';
  const { resourceVersion, resourceVersionMatch } = versionsOf(query);
  const causes: Cause[] = [];
  if (resourceVersionMatch !== '') {
    if (resourceVersion === '') causes.push(matchForbidden('unless resourceVersion is provided'));
    if (token !== '') causes.push(matchForbidden('when continue is provided'));
    if (resourceVersionMatch !== 'Exact' && resourceVersionMatch !== 'NotOlderThan') {
      causes.push(
        fieldError.notSupported('resourceVersionMatch', resourceVersionMatch, ['Exact', 'NotOlderThan', '']),
      );
    }
    if (resourceVersionMatch === 'Exact' && resourceVersion === '0') {
      causes.push(
        fieldError.forbidden(
          'resourceVersionMatch',
          'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
      );
    }
  }
  if (query.has('sendInitialEvents')) {
    causes.push(fieldError.forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  }
  refuseOptions('ListOptions', causes);
  return {
    limit: Math.min(Math.max(limit, 0), Number.MAX_SAFE_INTEGER),
    continue: token,
    resourceVersion,
    resourceVersionMatch,
  };
}

/** @throws {ApiError} 400, 422 */
export function watchOptions({ query }: ResourceRequest): WatchOptions {
  const { resourceVersion, resourceVersionMatch } = versionsOf(query);
  const sent = booleanOf(query, 'sendInitialEvents');
  const causes: Cause[] = [];
  if (sent !== undefined && resourceVersionMatch !== 'NotOlderThan') {
    const why = 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan';
    causes.push(fieldError.forbidden('resourceVersionMatch', why));
  }
  if (resourceVersionMatch !== '') {
    if (sent === undefined) {
      causes.push(matchForbidden('for watch unless sendInitialEvents is provided'));
    }
    if (resourceVersionMatch !== 'NotOlderThan') {
      causes.push(fieldError.notSupported('resourceVersionMatch', resourceVersionMatch, ['NotOlderThan']));
    }
    if ((query.get('continue') ?? '') !== '') causes.push(matchForbidden('when continue is provided'));
  }
  refuseOptions('ListOptions', causes);
  return {
    resourceVersion,
    allowBookmarks: booleanOf(query, 'allowWatchBookmarks') === true,
    // Watches without a version have always begun with the existing objects.
    sendInitialEvents: sent ?? (resourceVersion === '' || resourceVersion === '0'),
    timeoutSeconds: integerOf(query, 'timeoutSeconds'),
  };
}

function versionsOf(query: URLSearchParams): Pick<ListOptions, 'resourceVersion' | 'resourceVersionMatch'> {
  return {
    resourceVersion: query.get('resourceVersion') ?? '',
    resourceVersionMatch: query.get('resourceVersionMatch') ?? '',
  };
}

function matchForbidden(why: string): Cause {
  return fieldError.forbidden('resourceVersionMatch', `resourceVersionMatch is forbidden ${why}`);
}
