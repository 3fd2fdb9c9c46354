/** Requests to a node, as annotations of its FileIntegrityNodeStatus. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { Fields } from '../model/finding-json.ts';
import { type NodeRequest, requestAnnotationPrefix } from './node-result.ts';
export function requestAnnotation(request: NodeRequest): Record<string, string> {
  return { [`${requestAnnotationPrefix}${request.id}`]: JSON.stringify(request) };
}

/** The requests among annotations. Invalid requests, and those whose id differs from their key, are skipped. */
export function requestsOf(annotations: Readonly<Record<string, string>> | undefined): NodeRequest[] {
  return Object.entries(annotations ?? {})
    .filter(([key]) => key.startsWith(requestAnnotationPrefix))
    .map(([key, value]) => decode(key.slice(requestAnnotationPrefix.length), value))
    .filter((request) => request !== undefined)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

function decode(id: string, json: string): NodeRequest | undefined {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.DECODE, { what: `request ${id}`, why });
  try {
    const fields = Fields.parse(json, '', refuse);
    if (fields.text('id') !== id) return undefined;
    return fields.oneOf('kind', ['re-init', 'accept']) === 're-init'
      ? { kind: 're-init', id, by: fields.text('by', '') }
      : {
          kind: 'accept',
          id,
          path: fields.text('path', ''),
          ...(fields.has('seenUntilMs') && { seenUntilMs: fields.time('seenUntilMs') }),
          author: fields.text('author', ''),
          reason: fields.text('reason', ''),
        };
  } catch (error) {
    if (error instanceof RampartError && error.code === errorCodes.DECODE) return undefined;
    throw error;
  }
}
