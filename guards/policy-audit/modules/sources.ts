/**
 * `sources.yml` of Kubewarden: for each host, whether it may be accessed insecurely, which authorities sign its
 * certificate, and which proxy is used.
 */
import { readFileSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';

import { isObject } from '../../../lib/json/json.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type ProxySettings, proxyUrl } from '../../../lib/net/proxy.ts';
import { readYaml, refuseUnknown, unusable } from '../../../lib/files/yaml-file.ts';

export interface Sources {
  /** Hosts, with or without their port. */
  readonly insecure: readonly string[];
  /** Certificate authorities by host, as PEM. */
  readonly authorities: Readonly<Record<string, readonly string[]>>;
  /** Proxies that replace those in the environment. */
  readonly proxies?: ProxySettings;
}

export const noSources: Sources = { insecure: [], authorities: {} };

/** @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT` */
export function readSourcesFile(path: string): Sources {
  return parseSources(readYaml(path), path);
}

/** Converts `insecureSources` and `sourceAuthorities` of a PolicyServer to `sources.yml`. */
export function sourcesDocument({
  insecureSources = [],
  sourceAuthorities = {},
}: {
  readonly insecureSources?: readonly string[] | undefined;
  readonly sourceAuthorities?: Readonly<Record<string, readonly string[]>> | undefined;
}): object {
  const authorities = Object.entries(sourceAuthorities).map(([host, pems]) => [
    host,
    pems.map((data) => ({ type: 'Data', data })),
  ]);
  return {
    ...(insecureSources.length > 0 && { insecure_sources: insecureSources }),
    ...(authorities.length > 0 && { source_authorities: Object.fromEntries(authorities) as object }),
  };
}

/** Combines both; if `other` has proxies, they replace those of `one`. */
export function joined(one: Sources, other: Sources): Sources {
  const hosts = [...Object.keys(one.authorities), ...Object.keys(other.authorities)];
  const authorities = hosts.map((host) => [
    host,
    [...(one.authorities[host] ?? []), ...(other.authorities[host] ?? [])],
  ]);
  const proxies = other.proxies ?? one.proxies;
  return {
    insecure: [...one.insecure, ...other.insecure],
    authorities: Object.fromEntries(authorities) as Sources['authorities'],
    ...(proxies && { proxies }),
  };
}

/** @param what - Where the document comes from, for messages. @throws {RampartError} `INPUT`; `SYSTEM` for an unreadable certificate */
export function parseSources(document: unknown, what: string): Sources {
  if (document === null || document === undefined) return noSources;
  if (!isObject(document)) throw unusable(what, 'it is not a mapping');
  refuseUnknown(document, ['insecure_sources', 'source_authorities', 'proxies'], what);
  const insecure = document['insecure_sources'] ?? [];
  if (!Array.isArray(insecure) || !insecure.every((host) => typeof host === 'string')) {
    throw unusable(what, 'insecure_sources is not a list of hosts');
  }
  const given = document['source_authorities'] ?? {};
  if (!isObject(given)) throw unusable(what, 'source_authorities is not a mapping of hosts');
  const authorities = Object.fromEntries(
    Object.entries(given).map(([host, list]) => {
      if (!Array.isArray(list)) throw unusable(what, `source_authorities of ${host} is not a list`);
      return [host, list.map((one: unknown) => authorityOf(one, host, what))];
    }),
  );
  const proxies = document['proxies'] ?? undefined;
  return { insecure, authorities, ...(proxies !== undefined && { proxies: proxiesIn(proxies, what) }) };
}

function proxiesIn(given: unknown, what: string): ProxySettings {
  if (!isObject(given)) throw unusable(what, 'proxies is not a mapping');
  refuseUnknown(given, ['http_proxy', 'https_proxy', 'no_proxy'], `proxies in ${what}`);
  const [http, https, none] = ['http_proxy', 'https_proxy', 'no_proxy'].map((name) => {
    const value = given[name] ?? undefined;
    if (value !== undefined && typeof value !== 'string') throw unusable(what, `${name} is not a text`);
    return value;
  });
  for (const one of [http, https]) if (one !== undefined && one !== '') proxyUrl(one);
  return { http, https, none };
}

function authorityOf(entry: unknown, host: string, what: string): string {
  const { type, data, path } = isObject(entry) ? entry : {};
  let pem: string;
  if (type === 'Data' && typeof data === 'string') pem = data;
  else if (type === 'Path' && typeof path === 'string') pem = readAuthority(path, host, what);
  else
    throw unusable(
      what,
      `an authority of ${host} is neither {type: Data, data: PEM} nor {type: Path, path: FILE}`,
    );
  try {
    new X509Certificate(pem);
  } catch (error) {
    throw unusable(what, `an authority of ${host} is not a PEM certificate (${(error as Error).message})`);
  }
  return pem;
}

function readAuthority(path: string, host: string, what: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `${what} cannot be used`,
      why: `the authority of ${host} cannot be read: ${(error as Error).message}`,
      cause: error,
    });
  }
}
