/** The files of dpkg's database (deb-md5sums(5), deb-conffiles(5), dpkg(1)), as text of one character a byte. Pure. */
import type { ByteString } from '../model/entry.ts';

export interface PackageStanza {
  /** `libc6` */
  readonly name: string;
  /** The name of its files in info/: `libc6:amd64` where several architectures may be installed at once. */
  readonly infoName: string;
  readonly version: string;
  /** MD5 by path, as the package had them. */
  readonly conffiles: ReadonlyMap<ByteString, string>;
}

/** States in which all files of a version exist. In others, a package is half unpacked, or removed. */
const unpacked: ReadonlySet<string> = new Set([
  ...['unpacked', 'half-configured', 'triggers-awaited', 'triggers-pending', 'installed'],
]);

/** More are not read: a database of Debian with all its packages has 65,000. */
export const maxPackages = 100_000;

/** The unpacked packages of /var/lib/dpkg/status. Stanzas that are not of a package are skipped. */
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
    // Other fields are dropped: descriptions are most of the file.
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
    // `newconffile` stands for a sum while it is being installed; `obsolete`, `remove-on-upgrade` follow it.
    const [, path, sum] = /^ (\/.*?) ([0-9a-f]{32})( [a-z-]+)*$/.exec(line) ?? [];
    if (path !== undefined && sum !== undefined) found.set(path, sum);
  }
  return found;
}

/** MD5 by path of an md5sums file; its paths begin without a slash. */
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
  /** The package whose file stays where it is; `:` for none. */
  readonly by: string;
}

export function readDiversions(text: string): Diversion[] {
  const lines = text.split('\n');
  const found: Diversion[] = [];
  for (let at = 0; at + 2 < lines.length; at += 3)
    found.push({ from: lines[at] ?? '', to: lines[at + 1] ?? '', by: lines[at + 2] ?? '' });
  return found;
}
