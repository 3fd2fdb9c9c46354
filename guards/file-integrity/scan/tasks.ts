/** The tasks of scan threads, and their results. */
import type { AideConf, Rule } from '../aide-conf/conf.ts';
import type { EncodedBlock } from '../database/entry-block.ts';
import type { ByteString, FileType, ScanProblem } from '../model/entry.ts';
import { parsePcre } from '../pcre/pcre.ts';

/**
 * Items of a directory, sorted by the bytes of paths. An item is a name followed by NUL and its type, or `name/`, which
 * stands for everything below that directory. So 'c' comes before 'c.b', and that before 'c/'.
 */
export interface Names {
  /** Path within the scanned root: empty for the root itself, otherwise with a leading slash. */
  readonly directory: ByteString;
  readonly items: readonly string[];
  /** Identity of the directory, if it was open. */
  readonly identity?: DirectoryIdentity | undefined;
}

/** A piece of the tree, in the order of the bytes of paths. */
export interface Task extends Omit<Names, 'items'> {
  /** If this is absent, the task is the root: its own entry first, then its contents. */
  readonly items?: readonly string[];
  /** Work that follows: in a deep tree, a few names of each directory on the way up. */
  readonly after?: readonly Names[];
  /** If the task is the root: only its entry, without its contents. */
  readonly onlyRoot?: boolean;
}

/**
 * The item for a name. `?`: its type is not known; `.`: not known either, and if it is a directory, its contents are
 * not wanted.
 */
export function entryItem(name: ByteString, type: FileType | '?' | '.'): string {
  return `${name}\0${type}`;
}

/** The type in an item made by {@link entryItem}. */
export function listedType(item: string): FileType | '?' | '.' {
  return item.charAt(item.length - 1) as FileType | '?' | '.';
}

/** The character code for the type in an item, see {@link entryItem}. */
export function typeCode(type: FileType | '?'): number {
  return type.charCodeAt(0);
}

/** The name in an item made by {@link entryItem}. */
export function nameOf(item: string): ByteString {
  return item.slice(0, -2);
}

export function belowItem(name: ByteString): string {
  return `${name}/`;
}

/** Blocks of entries and problems between them, in the order of paths. */
export type Part = EncodedBlock | readonly ScanProblem[];

export interface TaskResult {
  readonly parts: readonly (readonly Part[])[];
  /** The remaining work, in the order of paths; it follows after `parts`. */
  readonly rest: readonly Task[];
}

/** A configuration without functions, so that it can be sent to a thread. */
export interface PlainConf {
  readonly dialect: AideConf['dialect'];
  readonly rootPrefix: string;
  readonly rules: readonly Pick<Rule, 'kind' | 'pattern' | 'types' | 'attributes'>[];
}

export function plainConf({ dialect, rootPrefix, rules }: AideConf): PlainConf {
  return {
    dialect,
    rootPrefix,
    rules: rules.map(({ kind, pattern, types, attributes }) => ({ kind, pattern, types, attributes })),
  };
}

const nowhere: Rule['at'] = {
  source: { file: '', text: '', isBytes: false },
  ...{ line: 0, column: 0, offset: 0, end: 0 },
};

/** The part of a configuration that a Selection needs. */
export function selectable({ dialect, rules }: PlainConf): Pick<AideConf, 'rules' | 'dialect'> {
  return { dialect, rules: rules.map((rule) => ({ ...rule, regex: parsePcre(rule.pattern), at: nowhere })) };
}

/** Identifies a directory independently of its path. */
export interface DirectoryIdentity {
  readonly device: number;
  readonly inode: bigint;
}
