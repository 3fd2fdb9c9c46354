/** The form in which a client wants objects, from the Accept header and the query. */
import { apiErrors } from '../resources/api-error.ts';
import { matches, type MediaRange, parseAccept } from './accept.ts';

export type AnswerKind = 'item' | 'list' | 'watch';

/** How much of the object each row of a Table contains (meta/v1 IncludeObjectPolicy). */
type IncludeObject = 'None' | 'Metadata' | 'Object';

/** Equal formats are the same instance, so that they can be compared with `===` and be keys. */
export interface Format {
  readonly encoding: 'json' | 'yaml';
  /** `metadata` means PartialObjectMetadata. */
  readonly shape: 'object' | 'metadata' | 'table';
  /** The version of meta.k8s.io for PartialObjectMetadata and Tables. */
  readonly metaVersion: 'v1' | 'v1beta1';
  readonly includeObject: IncludeObject;
  /** Whether to add line breaks and indentation. */
  readonly pretty: boolean;
  /** The Content-Type of the answer. */
  readonly contentType: string;
}

/** The media types that the message of a 406 names. */
export const offeredMediaTypes: readonly string[] = ['application/json', 'application/yaml'];

const formats = new Map<string, Format>();
/** Cached results, keyed by header: clients send few different ones. */
const negotiated = new Map<string, Format | undefined>();
const negotiatedLimit = 512;

/**
 * Chooses the form of an answer: JSON without an Accept header, always JSON for a watch. If the header has several media
 * ranges, the first that can be served counts, so that `application/vnd.kubernetes.protobuf, application/json` is answered
 * in JSON (apiserver `pkg/endpoints/handlers/negotiation/negotiate.go`).
 *
 * @returns `undefined` if no range can be served, which is answered with 406.
 * @throws {ApiError} 400 for an invalid `includeObject` if a Table is requested.
 */
export function negotiate(
  accept: string | undefined,
  what: AnswerKind,
  query?: URLSearchParams,
): Format | undefined {
  const include = query?.get('includeObject') ?? '';
  const pretty = isTrue(query?.get('pretty') ?? '');
  const key = `${what} ${include} ${pretty} ${accept ?? ''}`;
  if (negotiated.has(key)) return negotiated.get(key);
  const format = choose(accept ?? '', what, include, pretty);
  if (negotiated.size >= negotiatedLimit) negotiated.clear();
  if (key.length < 1024) negotiated.set(key, format);
  return format;
}

function choose(accept: string, what: AnswerKind, include: string, pretty: boolean): Format | undefined {
  if (accept.trim() === '') return formatOf({ pretty });
  for (const range of parseAccept(accept)) {
    const format = formatOfRange(range, what, include, pretty);
    if (format !== undefined) return format;
  }
  return undefined;
}

function formatOfRange(
  range: MediaRange,
  what: AnswerKind,
  include: string,
  pretty: boolean,
): Format | undefined {
  const { parameters } = range;
  const stream = parameters.get('stream') ?? '';
  const isJson = matches(range, 'application', 'json');
  if (!isJson && (what === 'watch' || stream !== '' || !matches(range, 'application', 'yaml')))
    return undefined;
  if (stream !== '' && stream !== 'watch') return undefined;
  // `sv` requests a version of the server's own group, which no server supports (AllowsServerVersion).
  if ((parameters.get('sv') ?? '') !== '') return undefined;
  const encoding = isJson ? 'json' : 'yaml';
  const wanted = { encoding, pretty: pretty || parameters.get('pretty') === '1' } as const;
  const [as, group, version] = ['as', 'g', 'v'].map((name) => parameters.get(name));
  if (as === undefined && group === undefined && version === undefined) return formatOf(wanted);
  if (group !== 'meta.k8s.io' || (version !== 'v1' && version !== 'v1beta1')) return undefined;
  if (as === 'Table') {
    return formatOf({
      ...wanted,
      shape: 'table',
      metaVersion: version,
      includeObject: includeObjectOf(include),
    });
  }
  if (as === (what === 'list' ? 'PartialObjectMetadataList' : 'PartialObjectMetadata')) {
    return formatOf({ ...wanted, shape: 'metadata', metaVersion: version });
  }
  return undefined;
}

function formatOf(parts: Partial<Format>): Format {
  const {
    encoding = 'json',
    shape = 'object',
    metaVersion = 'v1',
    includeObject = 'Metadata',
    pretty = false,
  } = parts;
  const key = `${encoding} ${shape} ${metaVersion} ${includeObject} ${pretty}`;
  let format = formats.get(key);
  if (format === undefined) {
    format = { encoding, shape, metaVersion, includeObject, pretty, contentType: `application/${encoding}` };
    formats.set(key, format);
  }
  return format;
}

function includeObjectOf(value: string): IncludeObject {
  if (value === '') return 'Metadata';
  if (value === 'None' || value === 'Metadata' || value === 'Object') return value;
  throw apiErrors.badRequest(
    `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(value)}: must be 'Metadata', 'Object', 'None', or empty`,
  );
}

/** Parses a boolean like Go's strconv.ParseBool. */
function isTrue(value: string): boolean {
  return ['1', 't', 'T', 'true', 'TRUE', 'True'].includes(value);
}
