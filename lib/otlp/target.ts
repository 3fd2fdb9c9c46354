/**
 * Where logs are sent: an option, and the environment variables of OpenTelemetry.
 *
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */

import { validateHeaderName, validateHeaderValue } from '../net/node-http.ts';
import { errorCodes, messageOf, RampartError } from '../errors/errors.ts';

export interface OtlpTarget {
  readonly url: URL;
  /** May be secret. */
  readonly headers: Readonly<Record<string, string>>;
  /** PEM: authorities to trust instead of the system's. */
  readonly certificateFile?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const prefix = 'OTEL_EXPORTER_OTLP_';

/**
 * Settings for logs precede those for all signals, and an option precedes both. An empty variable counts as
 * unset.
 *
 * @param endpoint - Value of the option: like OTEL_EXPORTER_OTLP_ENDPOINT, a base that `/v1/logs` is added
 * to.
 * @returns undefined if no receiver is configured.
 * @throws {RampartError} `INPUT` for an unusable setting.
 */
export function otlpTarget(endpoint: string | undefined, environment: Environment): OtlpTarget | undefined {
  const variable = (name: string): string | undefined => environment[`${prefix}${name}`]?.trim() || undefined;
  const ofLogs = (name: string): string | undefined => variable(`LOGS_${name}`) ?? variable(name);
  const url = urlOf(endpoint, variable);
  if (url === undefined) return undefined;
  if (ofLogs('PROTOCOL') === 'grpc') {
    throw refused(
      `${prefix}PROTOCOL is grpc, and logs are sent as JSON over HTTP`,
      `Set it to http/json, and name the port of OTLP/HTTP, 4318 by default`,
    );
  }
  const certificateFile = ofLogs('CERTIFICATE');
  return {
    url,
    headers: parseHeaders(ofLogs('HEADERS') ?? ''),
    ...(certificateFile !== undefined && { certificateFile }),
  };
}

function urlOf(
  endpoint: string | undefined,
  variable: (name: string) => string | undefined,
): URL | undefined {
  if (endpoint !== undefined) return withPath(parseUrl(endpoint, '--otlp-endpoint'));
  const whole = variable('LOGS_ENDPOINT');
  if (whole !== undefined) return parseUrl(whole, `${prefix}LOGS_ENDPOINT`);
  const base = variable('ENDPOINT');
  return base === undefined ? undefined : withPath(parseUrl(base, `${prefix}ENDPOINT`));
}

function withPath(url: URL): URL {
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/logs`;
  return url;
}

function parseUrl(text: string, name: string): URL {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw refused(`${name} is not a URL of http or https`, 'Write http://HOST:4318 or https://HOST:4318');
  }
  if (url.username !== '' || url.password !== '') {
    throw refused(
      `${name} contains a user name or password`,
      `Set ${prefix}HEADERS to authorization=Basic%20...`,
    );
  }
  return url;
}

/** Parses `key1=value1,key2=value2`, percent-encoded, like W3C Baggage without properties. */
function parseHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const entry of text.split(',')) {
    if (entry.trim() === '') continue;
    const at = entry.indexOf('=');
    const name = entry.slice(0, Math.max(0, at)).trim().toLowerCase();
    try {
      validateHeaderName(name);
      const value = decodeURIComponent(entry.slice(at + 1).trim());
      validateHeaderValue(name, value);
      headers[name] = value;
    } catch {
      // Neither the name nor the error is shown: without an equals sign, the whole may be the secret.
      throw refused(
        `${prefix}HEADERS cannot be used`,
        'Write NAME=VALUE,NAME=VALUE, with values encoded as in URLs',
      );
    }
  }
  return headers;
}

function refused(why: string, next: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: 'cannot send logs by OTLP', why, next });
}

/** @throws {RampartError} `INPUT` */
export function certificateError(path: string, error: unknown): RampartError {
  return refused(
    `${prefix}CERTIFICATE ${path} cannot be used: ${messageOf(error)}`,
    'Name a file with PEM certificates',
  );
}
