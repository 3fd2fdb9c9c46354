/**
 * Where this machine gets Debian from: reads apt's source lists (sources.list(5), both formats) and
 * writes an entry for another suite of the same archive. No archive is named in this repository.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';

/** One binary-package source, with the options that decide whether its signature counts. */
export interface DebianSource {
  readonly uri: string;
  readonly suites: readonly string[];
  readonly components: readonly string[];
  /** Value of `Signed-By`: paths, fingerprints or an inline key, whose further lines begin with a space. */
  readonly signedBy: string | undefined;
  /** Value of `Check-Valid-Until`, which mirrors frozen at a date set to `no`. */
  readonly checkValidUntil: string | undefined;
}

/** Splits a list field of deb822; an empty field is an empty list. */
function words(value: string | undefined): string[] {
  return (value ?? '').split(/\s+/).filter((word) => word !== '');
}

/** Parses the deb822 format of `*.sources`: stanzas of fields, continued by lines that begin with a blank. */
export function parseDeb822(text: string): DebianSource[] {
  const sources: DebianSource[] = [];
  for (const stanza of text.replaceAll('\r', '').split(/\n[ \t]*\n/)) {
    const fields = new Map<string, string>();
    let last = '';
    for (const line of stanza.split('\n')) {
      if (line.startsWith('#') || line.trim() === '') continue;
      if (/^[ \t]/.test(line)) {
        fields.set(last, `${fields.get(last) ?? ''}\n${line}`);
        continue;
      }
      const colon = line.indexOf(':');
      if (colon < 0) continue;
      last = line.slice(0, colon).trim().toLowerCase();
      fields.set(last, line.slice(colon + 1).trim());
    }
    if (!words(fields.get('types')).includes('deb')) continue;
    if (/^(no|false|0|off|without|disable)$/i.test(fields.get('enabled') ?? 'yes')) continue;
    for (const uri of words(fields.get('uris'))) {
      sources.push({
        uri,
        suites: words(fields.get('suites')),
        components: words(fields.get('components')),
        signedBy: fields.get('signed-by'),
        checkValidUntil: fields.get('check-valid-until'),
      });
    }
  }
  return sources;
}

/** Parses the one-line format of `sources.list` and `*.list`: `deb [option=value ...] uri suite component ...`. */
export function parseOneLine(text: string): DebianSource[] {
  const sources: DebianSource[] = [];
  for (const line of text.split('\n')) {
    const match = /^\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)([^#]*)/.exec(line);
    if (match === null) continue;
    const [, optionText, uri = '', suite = '', components] = match;
    const options = new Map(
      words(optionText).map((option): [string, string] => {
        const equals = option.indexOf('=');
        return [option.slice(0, equals).toLowerCase(), option.slice(equals + 1).replaceAll(',', ' ')];
      }),
    );
    sources.push({
      uri,
      suites: [suite],
      components: words(components),
      signedBy: options.get('signed-by'),
      checkValidUntil: options.get('check-valid-until'),
    });
  }
  return sources;
}

/**
 * The source of the main Debian archive: component `main` of the suite named like the installed
 * release. Third parties use that suite name too, so a source signed by Debian's own keyring wins.
 */
export function mainArchive(sources: readonly DebianSource[], codename: string): DebianSource | undefined {
  const names = new Set([codename, 'stable', 'oldstable', 'oldoldstable', 'testing']);
  const fitting = sources.filter(
    (source) => source.components.includes('main') && source.suites.some((suite) => names.has(suite)),
  );
  return fitting.find((source) => source.signedBy?.includes('debian-archive')) ?? fitting[0];
}

/** The deb822 stanza that reads only the package index of `suite` from the same archive. */
export function stanzaFor(source: DebianSource, suite: string, architecture = 'amd64'): string {
  const lines = [
    'Types: deb',
    `URIs: ${source.uri}`,
    `Suites: ${suite}`,
    'Components: main',
    `Architectures: ${architecture}`,
    'Targets: Packages',
  ];
  if (source.checkValidUntil !== undefined) lines.push(`Check-Valid-Until: ${source.checkValidUntil}`);
  if (source.signedBy !== undefined) lines.push(`Signed-By: ${source.signedBy}`);
  return `${lines.join('\n')}\n`;
}

/**
 * Reads this machine's lists below `etc` (default `/etc`) and returns the main Debian archive.
 *
 * @throws {RampartError} `UNSUPPORTED` when this is not Debian or no list names its main archive.
 */
export function findMainArchive(etc = '/etc'): DebianSource {
  return ofMachine(etc).archive;
}

/**
 * The stanzas of a release, with its updates, as this machine has those of its own: `-updates` and
 * `-security` too if it does. Archives that Debian has not signed are omitted.
 *
 * @throws {RampartError} `UNSUPPORTED` when this is not Debian or no list names its main archive.
 */
export function releaseStanzas(release: string, architecture: string, etc = '/etc'): string {
  const { archive, sources, codename } = ofMachine(etc);
  return sources
    .filter(({ components, signedBy }) => components.includes('main') && signedBy === archive.signedBy)
    .flatMap((source) =>
      ['', '-updates', '-security']
        .filter((suffix) => source.suites.includes(`${codename}${suffix}`))
        .map((suffix) => stanzaFor(source, `${release}${suffix}`, architecture)),
    )
    .join('\n');
}

interface Machine {
  readonly archive: DebianSource;
  readonly sources: readonly DebianSource[];
  readonly codename: string;
}

function ofMachine(etc: string): Machine {
  const release = existsSync(join(etc, 'os-release')) ? readFileSync(join(etc, 'os-release'), 'utf8') : '';
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}=["']?([^"'\n]*)`, 'm').exec(release)?.[1];
  const codename = field('VERSION_CODENAME');
  if (field('ID') !== 'debian' || codename === undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'cannot fetch Debian packages',
      why: `${join(etc, 'os-release')} does not say that this is a Debian release`,
      next: 'Run this on Debian 12 or later',
    });
  }
  const lists = join(etc, 'apt/sources.list.d');
  const files = (existsSync(lists) ? readdirSync(lists).toSorted() : []).map((name) => join(lists, name));
  const sources = [join(etc, 'apt/sources.list'), ...files].flatMap((path) => {
    if (path.endsWith('.sources')) return parseDeb822(readFileSync(path, 'utf8'));
    return path.endsWith('.list') && existsSync(path) ? parseOneLine(readFileSync(path, 'utf8')) : [];
  });
  const archive = mainArchive(sources, codename);
  if (archive === undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'cannot fetch Debian packages',
      why: `no entry in ${join(etc, 'apt')} names component main of suite ${codename}`,
      next: 'Add the Debian archive to the apt sources',
    });
  }
  return { archive, sources, codename };
}
