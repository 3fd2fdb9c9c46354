/**
 * What the operator asks of this node, as it stands on the FileIntegrityNodeStatus.
 *
 * @module
 */
import { pathGlob } from '../../../shared/regex/glob.ts';
import type { FileIntegrityNodeStatus } from '../api.ts';
import type { ByteString } from '../entry.ts';
import { type NodeRequest, requestAnnotationPrefix } from '../node-result.ts';
import { hostPath } from './findings.ts';

/** The requests on a FileIntegrityNodeStatus, by their ids; what is none is left out. */
export function requestsOf(status: FileIntegrityNodeStatus | undefined): NodeRequest[] {
  const requests: NodeRequest[] = [];
  for (const [name, value] of Object.entries(status?.metadata.annotations ?? {})) {
    if (!name.startsWith(requestAnnotationPrefix)) continue;
    const request = requestOf(value);
    if (request?.id === name.slice(requestAnnotationPrefix.length)) requests.push(request);
  }
  return requests.sort((a, b) => (a.id < b.id ? -1 : 1));
}

function requestOf(json: string): NodeRequest | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  const { kind, id, by, path, author, reason } = (value ?? {}) as Record<string, unknown>;
  if (typeof id !== 'string' || !/^[0-9a-f]{1,64}$/.test(id)) return undefined;
  if (kind === 're-init') return { kind, id, by: typeof by === 'string' ? by : '' };
  if (kind !== 'accept' || typeof path !== 'string') return undefined;
  if (typeof author !== 'string' || typeof reason !== 'string') return undefined;
  return { kind, id, path, author, reason };
}

/**
 * Of these paths those that a glob over host paths fits, sorted by their bytes; an empty one fits all. A glob that is none fits
 * nothing: who asks with it learns it from the command.
 */
export function pathsThatFit(glob: string, paths: Iterable<ByteString>, prefix: ByteString): ByteString[] {
  const fits = glob === '' ? () => true : globOf(glob);
  return [...paths].filter((path) => fits(hostPath(path, prefix))).sort((a, b) => (a < b ? -1 : 1));
}

function globOf(glob: string): (path: string) => boolean {
  try {
    return pathGlob(glob, 'path');
  } catch {
    return () => false;
  }
}
