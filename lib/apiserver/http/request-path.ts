/**
 * Parses a path, as k8s.io/apiserver does (`pkg/endpoints/request/requestinfo.go`):
 *
 *     /api/VERSION/...  /apis/GROUP/VERSION/...  followed by one of
 *       PLURAL[/NAME[/SUBRESOURCE]]
 *       namespaces/NAMESPACE/PLURAL[/NAME[/SUBRESOURCE]]
 *       namespaces[/NAME[/status|finalize]]
 *       watch/ and then any of these: the older way to request a watch
 *
 * The path is percent-decoded before it is split, so `%2f` separates like `/`.
 */
import { apiErrors } from '../resources/api-error.ts';

/** The path of all objects of a kind, of one object, or of its subresource. */
export interface ResourcePath {
  readonly kind: 'resource';
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** '' if the path has none. */
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly isWatchPath: boolean;
}

interface PlainPath {
  readonly kind: 'plain';
  /** Decoded. */
  readonly path: string;
}

/** Limit of a path segment. Names have at most 253 characters. */
const maxSegmentLength = 512;
// eslint-disable-next-line no-control-regex -- these are what is looked for
const unprintable = /[\u0000-\u001f\u007f]/;

/**
 * @param raw from the request line, without the query.
 * @throws {ApiError} 400 when it cannot be decoded, 404 for segments that name nothing: empty ones, `.`, `..`, with
 * control characters, or overlong.
 */
export function readPath(raw: string): ResourcePath | PlainPath {
  const path = raw.includes('%') ? decodePath(raw) : raw;
  const parts = path.split('/');
  if (parts[0] !== '') throw apiErrors.badRequest('the path of the request does not begin with a slash');
  // A slash at the end has no meaning.
  let end = parts.length;
  while (end > 1 && parts[end - 1] === '') end--;
  const prefix = parts[1];
  const first = prefix === 'api' ? 2 : prefix === 'apis' ? 3 : 0;
  // A resource path has at least a version and one more segment.
  if (first === 0 || end < first + 2) return { kind: 'plain', path };
  for (let at = 2; at < end; at++) assertSegment(parts[at] as string);
  if (unprintable.test(path)) throw apiErrors.noRoute();

  const group = first === 3 ? (parts[2] as string) : '';
  const version = parts[first] as string;
  let at = first + 1;
  const isWatchPath = parts[at] === 'watch';
  if (isWatchPath && ++at === end) throw apiErrors.noRoute();

  let namespace = '';
  if (parts[at] === 'namespaces' && end > at + 2) {
    const next = parts[at + 2];
    // `status` and `finalize` are subresources of the namespace; any other segment is a kind of objects in it.
    if (next !== 'status' && next !== 'finalize') {
      namespace = parts[at + 1] as string;
      at += 2;
    }
  }
  if (end > at + 3) throw apiErrors.noRoute();
  return {
    kind: 'resource',
    group,
    version,
    plural: parts[at] as string,
    namespace,
    name: end > at + 1 ? (parts[at + 1] as string) : '',
    subresource: end > at + 2 ? (parts[at + 2] as string) : '',
    isWatchPath,
  };
}

function assertSegment(segment: string): void {
  const { length } = segment;
  if (length === 0 || length > maxSegmentLength || segment === '.' || segment === '..') {
    throw apiErrors.noRoute();
  }
}

function decodePath(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    throw apiErrors.badRequest('the path of the request is not percent-encoded UTF-8');
  }
}

/** The path and the query of a request target, which may be a whole URL (RFC 9112, 3.2.2). */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  let start = 0;
  if (target.charCodeAt(0) !== 0x2f) {
    const authority = /^https?:\/\/[^/?#]*/i.exec(target);
    if (authority !== null) start = authority[0].length;
  }
  const mark = target.indexOf('?', start);
  if (mark === -1) return { path: target.slice(start) || '/', query: '' };
  return { path: target.slice(start, mark) || '/', query: target.slice(mark + 1) };
}
