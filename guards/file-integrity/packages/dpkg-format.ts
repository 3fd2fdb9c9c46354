/**
 * Parses the files of dpkg's database (deb-md5sums(5), deb-conffiles(5), dpkg(1)), given as text with one character for
 * each byte.
 */
import type { ByteString } from '../model/entry.ts';

export interface PackageStanza {
  /** Name of the package, such as `libc6`. */
  readonly name: string;
  /** Prefix of its files in info/: `libc6:amd64` if several architectures can be installed together. */
  readonly infoName: string;
  readonly version: string;
  /** MD5 of conffiles as in the package, keyed by path. */
  readonly conffiles: ReadonlyMap<ByteString, string>;
}

/** States in which all files of a version exist. In other states, a package is only partly unpacked, or removed. */
const unpacked: ReadonlySet<string> = new Set([
  ...['unpacked', 'half-configured', 'triggers-awaited', 'triggers-pending', 'installed'],
]);

/** Limit of packages that are read: a Debian system with all packages of the archive has 65,000. */
export const maxPackages = 100_000;

/** The unpacked packages in /var/lib/dpkg/status. Stanzas of other kinds are skipped. */
export function readStatus(text: string): Map<string, PackageStanza> {
  const found = new Map<string, PackageStanza>();
  for (const part of text.split('\n\n')) {
    const stanza = stanzaOf(part);
    if (stanza === undefined) continue;
    if (found.size >= maxPackages) break;
    found.set(stanza.infoName, stanza);
  }
  return found;
}

function stanzaOf(part: string): PackageStanza | undefined {
  const fields = new Map<string, string>();
  let name = '';
  for (const line of part.split('\n')) {
    if (line.startsWith(' ')) {
      if (name === 'conffiles') fields.set(name, `${fields.get(name) ?? ''}\n${line}`);
      continue;
    }
    const colon = line.indexOf(':');
    name = line.slice(0, Math.max(0, colon)).toLowerCase();
    // Drop all other fields: descriptions are most of the file.
    if (wanted.has(name)) fields.set(name, line.slice(colon + 1).trim());
  }
  const [packageName, version] = [fields.get('package'), fields.get('version')];
  const state = fields.get('status')?.split(' ')[2] ?? '';
  if (packageName === undefined || version === undefined || !unpacked.has(state)) return undefined;
  const isOneOfSeveral = fields.get('multi-arch') === 'same';
  return {
    name: packageName,
    infoName: isOneOfSeveral ? `${packageName}:${fields.get('architecture')}` : packageName,
    version,
    conffiles: conffilesOf(fields.get('conffiles') ?? ''),
  };
}

const wanted: ReadonlySet<string> = new Set([
  ...['package', 'version', 'status', 'architecture', 'multi-arch', 'conffiles'],
]);

function conffilesOf(text: string): Map<ByteString, string> {
  const found = new Map<ByteString, string>();
  for (const line of text.split('\n')) {
    // While a conffile is installed, `newconffile` is in the place of the checksum. `obsolete` and `remove-on-upgrade`
    // follow the checksum.
    const [, path, sum] = /^ (\/.*?) ([0-9a-f]{32})( [a-z-]+)*$/.exec(line) ?? [];
    if (path !== undefined && sum !== undefined) found.set(path, sum);
  }
  return found;
}

/** Checksums in an md5sums file, keyed by path. The file has paths without a leading slash. */
export function readSums(text: string): Map<ByteString, string> {
  const found = new Map<ByteString, string>();
  for (const line of text.split('\n')) {
    const [, sum, path] = /^([0-9a-f]{32}) [ *](.+)$/.exec(line) ?? [];
    if (sum !== undefined && path !== undefined) found.set(`/${path}`, sum);
  }
  return found;
}

/** The paths of a list file. */
export function readList(text: string): ByteString[] {
  return text.split('\n').filter((path) => path.startsWith('/') && path !== '/.');
}

export interface Diversion {
  readonly from: ByteString;
  readonly to: ByteString;
  /** The diverting package, whose own file remains at `from`; `:` for a local diversion, without a package. */
  readonly by: string;
}

export function readDiversions(text: string): Diversion[] {
  const lines = text.split('\n');
  const found: Diversion[] = [];
  for (let at = 0; at + 2 < lines.length; at += 3)
    found.push({ from: lines[at] ?? '', to: lines[at + 1] ?? '', by: lines[at + 2] ?? '' });
  return found;
}
