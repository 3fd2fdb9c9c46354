/** The tasks of scan threads, and their results. */
import type { AideConf, Rule } from '../aide-conf/conf.ts';
import type { EncodedBlock } from '../database/entry-block.ts';
import type { ByteString, FileType, ScanProblem } from '../model/entry.ts';
import { parsePcre } from '../pcre/pcre.ts';

/**
 * Names of a directory, each with its type behind a NUL, and `name/` for what lies below a directory; in the order of the
 * paths' bytes. So 'c' comes before 'c.b', and that before 'c/'.
 */
export interface Names {
  /** From the root that is scanned: empty for the root itself, else with a slash at its start. */
  readonly directory: ByteString;
  readonly items: readonly string[];
  /** Identity of the directory, if it was open. */
  readonly identity?: DirectoryIdentity | undefined;
}

/** A piece of a tree, in the order of the paths' bytes. */
export interface Task extends Omit<Names, 'items'> {
  /** Without these: the root, its entry first. */
  readonly items?: readonly string[];
  /** The following work: in a deep tree, a few names of each directory on the way up. */
  readonly after?: readonly Names[];
  /** For the root: its entry, without contents. */
  readonly onlyRoot?: boolean;
}

/** `?`: the type is not known; `.`: neither, and what is in it, should it be a directory, is not asked for. */
export function entryItem(name: ByteString, type: FileType | '?' | '.'): string {
  return `${name}\0${type}`;
}

/** The type that {@link entryItem} was given. */
export function listedType(item: string): FileType | '?' | '.' {
  return item.charAt(item.length - 1) as FileType | '?' | '.';
}

/** The code that {@link entryItem} writes for a type. */
export function typeCode(type: FileType | '?'): number {
  return type.charCodeAt(0);
}

/** The name that {@link entryItem} was given. */
export function nameOf(item: string): ByteString {
  return item.slice(0, -2);
}

export function belowItem(name: ByteString): string {
  return `${name}/`;
}

/** In this order: blocks of entries, and problems between them. */
export type Part = EncodedBlock | readonly ScanProblem[];

export interface TaskResult {
  readonly parts: readonly (readonly Part[])[];
  /** The remaining work, in the order of the paths; it comes after `parts`. */
  readonly rest: readonly Task[];
}

/** A configuration to send to a thread, without functions. */
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

/** The part that a selection needs. */
export function selectable({ dialect, rules }: PlainConf): Pick<AideConf, 'rules' | 'dialect'> {
  return { dialect, rules: rules.map((rule) => ({ ...rule, regex: parsePcre(rule.pattern), at: nowhere })) };
}

/** Which directory it is, whatever its path. */
export interface DirectoryIdentity {
  readonly device: number;
  readonly inode: bigint;
}
