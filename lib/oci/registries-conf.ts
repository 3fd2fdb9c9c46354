/**
 * registries.conf of containers-registries.conf(5), version 2: where an artifact is fetched from instead of the host in its
 * name, and which registries may be accessed without a valid certificate.
 */
import { parse, TomlError, type TomlTable, type TomlValue } from 'smol-toml';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { formatReference, type Reference } from './reference.ts';

export interface Endpoint {
  readonly registry: string;
  readonly repository: string;
  readonly insecure: boolean;
}

interface Location {
  /** `registry.example/team`: replaces the prefix of the name. */
  readonly location: string;
  readonly insecure: boolean;
}

interface Mirror extends Location {
  readonly pulls: 'all' | 'digest-only' | 'tag-only';
}

interface Entry extends Location {
  readonly prefix: string;
  readonly blocked: boolean;
  readonly mirrors: readonly Mirror[];
}

export interface RegistriesConf {
  readonly entries: readonly Entry[];
}

export const noRegistriesConf: RegistriesConf = { entries: [] };

const knownOfEntry: ReadonlySet<string> = new Set([
  'prefix',
  'location',
  'insecure',
  'blocked',
  'mirror',
  'mirror-by-digest-only',
]);
const knownOfMirror: ReadonlySet<string> = new Set(['location', 'insecure', 'pull-from-mirror']);
/** Keys for short names and helpers, which do not matter here: references are complete, and credentials are given. */
const ignored: ReadonlySet<string> = new Set([
  'unqualified-search-registries',
  'short-name-mode',
  'credential-helpers',
  'aliases',
  'registry',
]);

const MAX_DEPTH = 32;

/** @param what - Where the text comes from, for messages. @throws {RampartError} `INPUT` */
export function parseRegistriesConf(text: string, what: string): RegistriesConf {
  const root = parseToml(text, what);
  if ('registries' in root) {
    throw unusable(what, 'it has version 1 ([registries.search] and the like)', 'Use [[registry]] tables');
  }
  for (const key of Object.keys(root)) if (!ignored.has(key)) throw unusable(what, `unknown key "${key}"`);
  const entries = tables(root['registry'], `${what}: registry`).map((table) => entryOf(table, what));
  return { entries };
}

/** @throws {RampartError} `INPUT`, with the line */
function parseToml(text: string, what: string): TomlTable {
  try {
    return parse(text, { maxDepth: MAX_DEPTH });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The parser's message continues with an excerpt.
    const [why = ''] = error.message.replace('Invalid TOML document: ', '').split('\n');
    throw unusable(`${what}, line ${error.line}`, why);
  }
}

/** The endpoints to fetch an artifact from, in the order in which to try them. @throws {RampartError} `INPUT` for a blocked registry. */
export function endpointsOf(reference: Reference, conf: RegistriesConf): Endpoint[] {
  const { registry, repository } = reference;
  const name = `${registry}/${repository}`;
  const matching = conf.entries.filter(({ prefix }) => matchLength(prefix, registry, name) > 0);
  const [entry] = matching.toSorted((a, b) => b.prefix.length - a.prefix.length);
  if (entry === undefined) return [{ registry, repository, insecure: false }];
  if (entry.blocked) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot fetch ${formatReference(reference)}`,
      why: `registries.conf blocks ${entry.prefix}`,
    });
  }
  const matched = matchLength(entry.prefix, registry, name);
  const wanted = reference.digest === undefined ? 'tag-only' : 'digest-only';
  return [...entry.mirrors.filter(({ pulls }) => pulls === 'all' || pulls === wanted), entry].map(
    ({ location, insecure }) => {
      const whole = location === '' ? name : `${location}${name.slice(matched)}`;
      const slash = whole.indexOf('/');
      return { registry: whole.slice(0, slash), repository: whole.slice(slash + 1), insecure };
    },
  );
}

/** How many characters of the name a prefix matches; 0 if it does not match. `*.example.com` stands for a host. */
function matchLength(prefix: string, registry: string, name: string): number {
  if (prefix.startsWith('*.')) return registry.endsWith(prefix.slice(1)) ? registry.length : 0;
  return name === prefix || name.startsWith(`${prefix}/`) ? prefix.length : 0;
}

function entryOf(table: TomlTable, what: string): Entry {
  refuseUnknown(table, knownOfEntry, `${what}: registry`);
  const location = stringOf(table, 'location', what);
  const prefix = stringOf(table, 'prefix', what) || location;
  if (prefix === '') throw unusable(what, 'a [[registry]] has neither "prefix" nor "location"');
  if (location === '' && !prefix.startsWith('*.')) {
    throw unusable(what, `[[registry]] ${prefix} has no "location"`);
  }
  const digestOnly = flag(table, 'mirror-by-digest-only', what);
  const mirrors = tables(table['mirror'], `${what}: mirror`).map((mirror): Mirror => {
    refuseUnknown(mirror, knownOfMirror, `${what}: mirror`);
    const pulls = stringOf(mirror, 'pull-from-mirror', what) || (digestOnly ? 'digest-only' : 'all');
    if (pulls !== 'all' && pulls !== 'digest-only' && pulls !== 'tag-only') {
      throw unusable(
        what,
        `pull-from-mirror ${JSON.stringify(pulls)} is not one of all, digest-only, tag-only`,
      );
    }
    const own = stringOf(mirror, 'location', what);
    if (own === '') throw unusable(what, `a mirror of ${prefix} has no "location"`);
    return { location: own, insecure: flag(mirror, 'insecure', what), pulls };
  });
  return {
    prefix,
    location,
    insecure: flag(table, 'insecure', what),
    blocked: flag(table, 'blocked', what),
    mirrors,
  };
}

function refuseUnknown(table: TomlTable, known: ReadonlySet<string>, what: string): void {
  for (const key of Object.keys(table)) if (!known.has(key)) throw unusable(what, `unknown key "${key}"`);
}

function tables(value: TomlValue | undefined, what: string): TomlTable[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((each) => typeof each === 'object' && !Array.isArray(each))) {
    return value as TomlTable[];
  }
  throw unusable(what, 'it must be an array of tables');
}

function stringOf(table: TomlTable, key: string, what: string): string {
  const value = table[key] ?? '';
  if (typeof value === 'string') return value.replace(/\/+$/, '');
  throw unusable(what, `"${key}" must be a string`);
}

function flag(table: TomlTable, key: string, what: string): boolean {
  const value = table[key] ?? false;
  if (typeof value === 'boolean') return value;
  throw unusable(what, `"${key}" must be true or false`);
}

function unusable(what: string, why: string, next?: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what, why, next });
}
