/** The server's refusal, with the lines that it is about. */
import { KubeError } from '../kube/client/client-errors.ts';
import { type KubeObject, objectKey } from '../kube/object/object.ts';
import type { ManifestObject } from './document.ts';
import type { Problem } from './problem.ts';

/**
 * One problem for each field that the server names, at least one.
 *
 * @param sent the object with the namespace that it is in, where that is known.
 */
export function problemsOf(source: ManifestObject, sent: KubeObject, error: unknown): Problem[] {
  const { file, document, object } = source;
  const shown = `${object.kind} ${objectKey(sent)}`;
  return reasonsOf(error).map(({ field, why }) => ({
    file,
    document,
    object: shown,
    field,
    line: source.lineOf(field ?? ''),
    why,
  }));
}

interface Reason {
  readonly field: string | undefined;
  readonly why: string;
}

function reasonsOf(error: unknown): readonly Reason[] {
  if (error instanceof KubeError) return reasonsOfStatus(error);
  const why = error instanceof Error ? error.message : String(error);
  const field = error instanceof Error && 'field' in error ? error.field : undefined;
  return [{ field: typeof field === 'string' ? field : undefined, why }];
}

function reasonsOfStatus(error: KubeError): readonly Reason[] {
  const causes = error.details?.causes ?? [];
  const named = causes.filter(({ field }) => field !== undefined && field !== '' && field !== '<nil>');
  if (named.length > 0) {
    return named.map(({ field, message }) => ({ field, why: message ?? error.reason }));
  }
  // `strict decoding error: unknown field "spec.a", unknown field "spec.b"`, each worth a line.
  const unknown = [...error.message.matchAll(/(unknown|duplicate) field "([^"]+)"/g)];
  if (unknown.length > 0) return unknown.map(([, what, field]) => ({ field, why: `${what} field` }));
  // `failed to create typed patch object (default/a; v1, Kind=A): .spec.traps: expected list, got &{...}`.
  const [, typed, reason] = /typed patch object \([^)]*\): \.([^\s:]+): (.*)$/.exec(error.message) ?? [];
  if (typed !== undefined) return [{ field: typed, why: reason ?? error.message }];
  return [{ field: undefined, why: error.message }];
}
