/**
 * The database of dpkg on a node, as far as it can be trusted: its content when the baseline was made, and what dpkg
 * has written since while the files were watched. What other or unknown processes wrote explains no change.
 *
 * If another process writes to `status` or `diversions`, or replaces dpkg, it can claim anything about any package: no
 * change is explained until the next baseline. If it writes to the files of one package, only that package is
 * distrusted, until dpkg writes them again.
 */
import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { ByteString } from '../model/entry.ts';
import {
  type Diversion,
  maxPackages,
  type PackageStanza,
  readDiversions,
  readList,
  readStatus,
  readSums,
} from './dpkg-format.ts';
import type { Explanation } from '../model/explanation.ts';
import type { Hand } from '../model/hand.ts';
import type { NodeFiles } from './node-files.ts';
import { hashOf, type PackageRecord, PathSet, recordOf } from './package-record.ts';

const database = '/var/lib/dpkg';
const info = `${database}/info`;
export const dpkgPaths = {
  program: '/usr/bin/dpkg',
  status: `${database}/status`,
  diversions: `${database}/diversions`,
  /** Actions of dpkg that are not in `status` yet: dpkg merges them at the end of this run, or during the next one. */
  updates: `${database}/updates`,
  info,
} as const;
/** Directories that have to be watched, including those on the way to them. */
export const dpkgDirectories: ReadonlySet<ByteString> = new Set([
  ...['/', '/usr', '/usr/bin', '/var', '/var/lib', database, info, dpkgPaths.updates],
]);
/** Number of packages that are read in one turn of the event loop, which takes some milliseconds. */
const atOnce = 20;
/** Directories that are links into /usr on systems with merged /usr; packages have files in either place. */
const mergeable = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'libo32'];

/** The state that is kept on disk, signed, between two runs of the agent. */
export interface PackageSnapshot {
  readonly program: string;
  readonly diversions: string;
  /** Why no change is explained; undefined if the following state is trusted. */
  readonly broken?: string | undefined;
  /**
   * Versions when the baseline was made; a package that was not installed is absent. Keyed by the name of the package's
   * files in info/.
   */
  readonly versions: Readonly<Record<string, string>>;
  /** Digests of the packages' files when they were last read, with the same keys. */
  readonly digests: Readonly<Record<string, string>>;
  readonly distrusted: readonly string[];
}

/** What an explanation of a change needs to know, besides the path. */
export interface ExplainedFile {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly type: string | undefined;
  readonly md5: string | undefined;
}

interface State {
  readonly program: string;
  readonly diversionsDigest: string;
  readonly diversions: readonly Diversion[];
  readonly records: ReadonlyMap<string, PackageRecord>;
}

export class DpkgDatabase {
  readonly #files: NodeFiles;
  #broken: string | undefined;
  #program = '';
  #diversionsDigest = '';
  #diversions: readonly Diversion[] = [];
  #records = new Map<string, PackageRecord>();
  readonly #distrusted = new Set<string>();
  /** Versions of packages when the baseline was made. */
  #versions = new Map<string, string>();
  /** Packages that were installed when the database was first read, with their paths at that time. */
  readonly #before = new Map<string, PackageRecord>();
  /** Updates that were accepted into the baseline: dpkg may still change files for them later, such as conffiles. */
  readonly #accepted = new Map<string, { readonly from: string | undefined; readonly to: string }>();
  #aliases: readonly string[] = [];
  readonly #dirty = new Set<string>();
  #isStatusDirty = false;
  /** Whether an unseen process wrote files that concern all packages: their new content is not trusted. */
  #isDoubted = false;
  /** Whether dpkg is still running: the versions in `status` may not fit the other files yet. */
  #isInMotion = false;

  private constructor(files: NodeFiles) {
    this.#files = files;
  }

  /**
   * Reads the current state, for a new baseline. Undefined if the node has no database of dpkg. @throws {RampartError}
   * LIMIT, SYSTEM
   */
  static async read(files: NodeFiles): Promise<DpkgDatabase | undefined> {
    const made = new DpkgDatabase(files);
    const state = await made.#readAll();
    if (state === undefined) return undefined;
    made.#take(state);
    for (const [name, record] of state.records) made.#versions.set(name, record.stanza.version);
    return made;
  }

  /**
   * Continues from the state of an earlier run: changes that were made in between are not trusted, because they were
   * not seen.
   */
  static async resume(files: NodeFiles, snapshot: PackageSnapshot): Promise<DpkgDatabase | undefined> {
    const made = await DpkgDatabase.read(files);
    if (made === undefined) return undefined;
    made.#versions = new Map(Object.entries(snapshot.versions));
    made.#broken = snapshot.broken;
    for (const name of snapshot.distrusted) made.#distrusted.add(name);
    made.#compare(snapshot.program, snapshot.diversions, new Map(Object.entries(snapshot.digests)));
    return made;
  }

  get snapshot(): PackageSnapshot {
    const digests = [...this.#records].map(([name, { digest }]) => [name, digest] as const);
    return {
      ...{ program: this.#program, diversions: this.#diversionsDigest, broken: this.#broken },
      versions: Object.fromEntries(this.#versions),
      digests: Object.fromEntries(digests),
      distrusted: [...this.#distrusted],
    };
  }

  /** Why no change is explained; undefined if changes are explained. */
  get broken(): string | undefined {
    return this.#broken;
  }

  /** Whether dpkg's files were written, and have to be read again. */
  get isDirty(): boolean {
    return this.#isStatusDirty || this.#dirty.size > 0;
  }

  /**
   * Call when a path of the node was changed.
   *
   * @param isDiverter whether only dpkg-divert changed it
   */
  changed(path: ByteString, hand: Hand | undefined, isDiverter: boolean): void {
    if (hand === undefined) return;
    if (isOfAll(path)) {
      const isRight = hand !== 'others' || (isDiverter && path === dpkgPaths.diversions);
      if (!isRight) return this.#break(`${path} was changed by another process than dpkg`);
      this.#isStatusDirty = true;
      if (hand === 'unseen') this.#isDoubted = true;
      return;
    }
    if (!path.startsWith(`${info}/`)) return;
    const [, name, kind] = /^(.+)\.(md5sums|list)$/.exec(path.slice(info.length + 1)) ?? [];
    if (name === undefined) return;
    if (hand !== 'packages') this.#distrusted.add(name);
    else if (kind === 'md5sums') this.#distrusted.delete(name);
    if (this.#dirty.size < maxPackages) this.#dirty.add(name);
  }

  /** Reads what was written since the last call. @throws {RampartError} LIMIT, SYSTEM */
  async refresh(): Promise<void> {
    if (!this.isDirty) return;
    const names = new Set(this.#dirty);
    this.#dirty.clear();
    this.#isStatusDirty = false;
    const isDoubted = this.#isDoubted;
    this.#isDoubted = false;
    const [program, diversionsDigest] = [this.#program, this.#diversionsDigest];
    const status = readStatus(this.#files.text(dpkgPaths.status) ?? '');
    const diversions = this.#files.text(dpkgPaths.diversions) ?? '';
    this.#diversionsDigest = hash('sha256', diversions);
    this.#diversions = readDiversions(diversions);
    this.#program = (await this.#files.sums(dpkgPaths.program))?.sha256 ?? '';
    const records = new Map<string, PackageRecord>();
    let count = 0;
    for (const [name, stanza] of status) {
      const known = this.#records.get(name);
      const isSame = known !== undefined && !names.has(name) && isSameStanza(known.stanza, stanza);
      records.set(name, isSame ? known : this.#recordOf(stanza));
      if (!isSame && ++count % atOnce === 0) await nextTurn();
    }
    const digests = new Map([...this.#records].map(([name, { digest }]) => [name, digest]));
    this.#records = records;
    this.#isInMotion = this.#hasJournal();
    if (isDoubted) this.#compare(program, diversionsDigest, digests);
  }

  #hasJournal(): boolean {
    return this.#files.names(dpkgPaths.updates).some((name) => /^\d+$/.test(name));
  }

  /**
   * Call when changes may have been missed: whatever differs from the known state is not trusted.
   *
   * @throws {RampartError} LIMIT, SYSTEM
   */
  async verify(): Promise<void> {
    const [program, diversions] = [this.#program, this.#diversionsDigest];
    const digests = new Map([...this.#records].map(([name, { digest }]) => [name, digest]));
    const state = await this.#readAll();
    if (state === undefined) return this.#break(`${database} is gone`);
    this.#take(state);
    this.#compare(program, diversions, digests);
  }

  /** The update that caused a change by dpkg; undefined if that does not follow from the database. */
  explain(path: ByteString, file: ExplainedFile): Explanation | undefined {
    if (this.#broken !== undefined || this.isDirty || this.#isInMotion) return undefined;
    const names = this.#namesOf(path);
    return file.kind === 'removed' ? this.#removal(names) : this.#content(names, file);
  }

  /** Call when these updates have become part of the baseline. */
  accept(packages: Iterable<string>): void {
    for (const name of packages) {
      for (const [infoName, { stanza }] of [...this.#before, ...this.#records]) {
        if (stanza.name !== name) continue;
        const [from, to] = [this.#versions.get(infoName), this.#records.get(infoName)?.stanza.version];
        if (from !== to && to !== undefined) this.#accepted.set(infoName, { from, to });
        if (to === undefined) this.#versions.delete(infoName);
        else this.#versions.set(infoName, to);
      }
    }
  }

  /**
   * Explains a file that exists now. If several packages own the path, as with a directory, one with a new version is
   * preferred.
   */
  #content(names: readonly OwnedName[], { type, md5 }: ExplainedFile): Explanation | undefined {
    let same: Explanation | undefined;
    for (const { path, hash: wanted, allows } of names) {
      for (const [infoName, record] of this.#records) {
        if (this.#distrusted.has(infoName) || !allows(record.stanza.name) || !record.paths.hasHash(wanted))
          continue;
        // The database has checksums of regular files only. For links and directories the name has to suffice: dpkg
        // creates them from the package.
        const isRight =
          type === 'f' ? md5 !== undefined && this.#sumOf(record, path) === md5 : type !== undefined;
        if (!isRight) continue;
        const { name, version } = record.stanza;
        const found = { package: name, from: this.#versionBefore(infoName, version), to: version };
        if (found.from !== version) return found;
        same ??= found;
      }
    }
    return same;
  }

  #removal(names: readonly OwnedName[]): Explanation | undefined {
    const isListed = (record: PackageRecord): boolean =>
      names.some(({ hash: one }) => record.paths.hasHash(one));
    for (const record of this.#records.values()) if (isListed(record)) return undefined;
    for (const [infoName, record] of this.#before) {
      if (!isListed(record) || this.#distrusted.has(infoName)) continue;
      const to = this.#records.get(infoName)?.stanza.version;
      const from = this.#versionBefore(infoName, to) ?? record.stanza.version;
      return { package: record.stanza.name, from, to };
    }
    return undefined;
  }

  /** The version before the update to `to`, even if part of that update was already accepted. */
  #versionBefore(infoName: string, to: string | undefined): string | undefined {
    const known = this.#versions.get(infoName);
    const accepted = this.#accepted.get(infoName);
    return known === to && accepted?.to === to ? accepted?.from : known;
  }

  #sumOf({ stanza, sumsDigest }: PackageRecord, path: ByteString): string | undefined {
    const ofConffile = stanza.conffiles.get(path);
    if (ofConffile !== undefined) return ofConffile;
    const text = this.#files.text(`${info}/${stanza.infoName}.md5sums`) ?? '';
    // The digest shows whether the file still has the content that was read from dpkg.
    return hash('sha256', text) === sumsDigest ? this.#sumsIn(text, sumsDigest).get(path) : undefined;
  }

  /** Checksums of the package that was last asked for: the files of one package are asked for in a row. */
  #lastSums: { readonly digest: string; readonly sums: ReadonlyMap<ByteString, string> } | undefined;

  #sumsIn(text: string, digest: string): ReadonlyMap<ByteString, string> {
    if (this.#lastSums?.digest !== digest) this.#lastSums = { digest, sums: readSums(text) };
    return this.#lastSums.sums;
  }

  /** The names under which packages may list a path, and for each name which packages may. */
  #namesOf(path: ByteString): OwnedName[] {
    const paths = [path];
    for (const name of this.#aliases)
      if (path.startsWith(`/usr/${name}/`)) paths.push(path.slice('/usr'.length));
    const found: OwnedName[] = [];
    for (const one of paths) {
      const diverted = this.#diversions.find(({ from }) => from === one);
      const here = this.#diversions.find(({ to }) => to === one);
      // If a file is diverted, only the file of the diverting package is at its path.
      found.push({
        path: one,
        hash: hashOf(one),
        allows: (name) => diverted === undefined || diverted.by === name,
      });
      if (here !== undefined)
        found.push({ path: here.from, hash: hashOf(here.from), allows: (name) => here.by !== name });
    }
    return found;
  }

  #compare(program: string, diversions: string, digests: ReadonlyMap<string, string>): void {
    if (program !== this.#program) this.#break(`${dpkgPaths.program} was changed, and nobody saw by whom`);
    if (diversions !== this.#diversionsDigest)
      this.#break(`${dpkgPaths.diversions} was changed, and nobody saw by whom`);
    for (const [name, { digest }] of this.#records)
      if (digests.get(name) !== digest) this.#distrusted.add(name);
    for (const name of digests.keys()) if (!this.#records.has(name)) this.#distrusted.add(name);
  }

  #break(why: string): void {
    this.#broken ??= why;
  }

  #take({ program, diversionsDigest, diversions, records }: State): void {
    [this.#program, this.#diversionsDigest, this.#diversions] = [program, diversionsDigest, diversions];
    this.#records = new Map(records);
    this.#isInMotion = this.#hasJournal();
    for (const [name, record] of records) if (!this.#before.has(name)) this.#before.set(name, record);
    this.#aliases = mergeable.filter((name) => {
      const target = this.#files.linkTarget(`/${name}`);
      return target === `usr/${name}` || target === `/usr/${name}`;
    });
  }

  async #readAll(): Promise<State | undefined> {
    const text = this.#files.text(dpkgPaths.status);
    const program = (await this.#files.sums(dpkgPaths.program))?.sha256;
    if (text === undefined || program === undefined) return undefined;
    const records = new Map<string, PackageRecord>();
    let count = 0;
    for (const [name, stanza] of readStatus(text)) {
      records.set(name, this.#recordOf(stanza));
      if (++count % atOnce === 0) await nextTurn();
    }
    const diversions = this.#files.text(dpkgPaths.diversions) ?? '';
    return {
      ...{ program, records },
      diversionsDigest: hash('sha256', diversions),
      diversions: readDiversions(diversions),
    };
  }

  #recordOf(stanza: PackageStanza): PackageRecord {
    const list = this.#files.text(`${info}/${stanza.infoName}.list`) ?? '';
    const sums = this.#files.text(`${info}/${stanza.infoName}.md5sums`) ?? '';
    return recordOf(stanza, list, sums, new PathSet(readList(list)));
  }
}

/** Whether the file contains data about all packages. */
function isOfAll(path: ByteString): boolean {
  const { program, status, diversions, updates } = dpkgPaths;
  return path === program || path === status || path === diversions || path.startsWith(`${updates}/`);
}

interface OwnedName {
  readonly path: ByteString;
  readonly hash: number;
  readonly allows: (packageName: string) => boolean;
}

function isSameStanza(one: PackageStanza, other: PackageStanza): boolean {
  const text = ({ version, conffiles }: PackageStanza): string => JSON.stringify([version, ...conffiles]);
  return text(one) === text(other);
}
