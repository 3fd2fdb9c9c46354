/** Determines for each file the attributes that the configurations of a scan request. */
import { type AttributeSet, checksums, setOf } from '../model/attributes.ts';
import type { ByteString, FileType } from '../model/entry.ts';
import { Selection } from '../aide-conf/selection.ts';
import { type PlainConf, selectable } from './tasks.ts';

/** The attributes for a file of this type, by configuration; undefined if no configuration selects it. */
export type AskedOf = (type: FileType) => readonly AttributeSet[] | undefined;

const growing = setOf('growing');

export function unionOf(sets: readonly AttributeSet[]): AttributeSet {
  let union = 0;
  // Called several times for each file, so it avoids an iterator.
  for (let at = 0; at < sets.length; at++) {
    const set = sets[at] ?? -1;
    if (set !== -1) union |= set;
  }
  return union;
}

/** Whether a file with these attributes may be appended to while it is read, without affecting the result. */
export function mayGrow(set: AttributeSet): boolean {
  return set === -1 || (set & checksums) === 0 || (set & growing) !== 0;
}

/** The attributes for all regular files in a directory; `by name` if they depend on the names. */
export type FilesAsked = readonly AttributeSet[] | 'none' | 'by name';

/** The selection of one configuration. Its rules have paths without its `root_prefix`. */
class ConfSelection {
  readonly #selection: Selection;
  readonly #prefix: ByteString;

  constructor(conf: PlainConf) {
    this.#selection = new Selection(selectable(conf));
    this.#prefix = Buffer.from(conf.rootPrefix, 'utf8').toString('latin1');
  }

  /** The attributes of a path; -1 if it is not selected. */
  attributes(path: ByteString, type: FileType): AttributeSet {
    const within = this.#within(path);
    return within === undefined ? -1 : (this.#selection.select(within, type)?.attributes ?? -1);
  }

  /** The attributes of all regular files in a directory; -1 if they are not selected, undefined if it depends on their names. */
  ofFiles(directory: ByteString): AttributeSet | undefined {
    const within = this.#within(directory);
    const decision = within === undefined ? undefined : this.#selection.selectAll(within, 'f');
    return decision === 'none' ? -1 : decision?.attributes;
  }

  descends(path: ByteString): boolean {
    const within = this.#within(path);
    if (within !== undefined) return this.#selection.descend(within);
    return path === '/' || this.#prefix.startsWith(`${path}/`);
  }

  #within(path: ByteString): ByteString | undefined {
    const prefix = this.#prefix;
    if (prefix === '') return path;
    if (!path.startsWith(prefix)) return undefined;
    if (path.length === prefix.length) return '/';
    return path[prefix.length] === '/' ? path.slice(prefix.length) : undefined;
  }
}

/** The selections of all configurations. Holds only memory. */
export class Selected {
  readonly #confs: readonly ConfSelection[];

  constructor(confs: readonly PlainConf[]) {
    this.#confs = confs.map((conf) => new ConfSelection(conf));
  }

  get count(): number {
    return this.#confs.length;
  }

  /** The attributes by configuration, -1 for one that does not select the file; undefined if no configuration does. */
  attributes(path: ByteString, type: FileType): readonly AttributeSet[] | undefined {
    const only = this.#confs[0];
    if (this.#confs.length === 1 && only !== undefined) {
      const set = only.attributes(path, type);
      return set === -1 ? undefined : [set];
    }
    const sets = this.#confs.map((conf) => conf.attributes(path, type));
    return sets.some((set) => set !== -1) ? sets : undefined;
  }

  /**
   * The attributes that all regular files in a directory have; `by name` if they depend on the file's name, `none` if no configuration
   * selects any.
   */
  ofFiles(directory: ByteString): FilesAsked {
    const sets: AttributeSet[] = [];
    for (const conf of this.#confs) {
      const set = conf.ofFiles(directory === '' ? '/' : directory);
      if (set === undefined) return 'by name';
      sets.push(set);
    }
    return sets.some((set) => set !== -1) ? sets : 'none';
  }

  /** Whether any configuration has to read a directory. */
  descends(path: ByteString): boolean {
    return this.#confs.some((conf) => conf.descends(path));
  }

  /** Whether the configuration with this index has to read a directory. */
  descendsOf(at: number, path: ByteString): boolean {
    return this.#confs[at]?.descends(path) ?? false;
  }
}
