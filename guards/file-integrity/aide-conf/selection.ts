/**
 * Decides which files a configuration selects, with which attributes, as AIDE 0.18 and 0.19 do.
 *
 * The automaton of all rules reads each path once; for files in the same directory, it reads only their names, because
 * the states of recent directories are cached. Source: AIDE, src/seltree.c (check_seltree, check_node_for_match) and
 * src/db_disk.c (scan_dir), and observed behaviour of 0.18.3.
 */
import { PatternSet, type WalkState } from '../pcre/pattern-set.ts';
import type { AideConf, Rule } from './conf.ts';
import type { Dialect } from './source.ts';
import type { AttributeSet } from '../model/attributes.ts';
import type { ByteString, FileType } from '../model/entry.ts';
import { literalPath, RuleTree, type RuleNode } from './selection-tree.ts';

export interface Decision {
  readonly attributes: AttributeSet;
  readonly rule: Rule;
}

/** `partial`: not selected, but something below may be; `pruned`: nothing below is selected, whatever other rules match. */
type Outcome = Decision | 'partial' | 'none' | 'pruned';

/** What all files of a directory have in common. */
interface Directory {
  readonly path: ByteString;
  /** The state after reading the directory's path and a slash. */
  readonly state: WalkState;
  /** Nodes that have rules, from the directory itself up to the root. */
  readonly nodes: readonly RuleNode[];
  readonly own: RuleNode | undefined;
  /** Nodes that have a negative rule which matches this directory, or one between the node and this directory. */
  readonly excluding: ReadonlySet<RuleNode>;
  /** Whether a scan reaches this directory. */
  readonly isReached: boolean;
}

/** Limit of cached directories, of some 300 bytes each; above it, the cache is cleared. */
const maxDirectories = 16_384;
const slash = 0x2f;

/**
 * Paths are absolute and have no trailing slash (except `/`), as in AIDE after `root_prefix` is applied. It holds only
 * memory, so it need not be disposed.
 */
export class Selection {
  readonly #rules: readonly Rule[];
  readonly #dialect: Dialect;
  readonly #tree: RuleTree;
  readonly #patterns: PatternSet;
  readonly #decisions: readonly Decision[];
  readonly #nodeOf: readonly RuleNode[];
  readonly #directories = new Map<ByteString, Directory>();
  #last: Directory | undefined;
  #generation = 0;

  /** @throws {RegexSizeError} if all rules together need more than 200,000 states */
  constructor(conf: Pick<AideConf, 'rules' | 'dialect'>) {
    this.#rules = conf.rules;
    this.#dialect = conf.dialect;
    this.#tree = new RuleTree(conf.rules);
    this.#patterns = new PatternSet(conf.rules.map(({ regex }) => regex));
    this.#nodeOf = conf.rules.map(({ pattern }) => this.#tree.nearest(literalPath(pattern)));
    this.#decisions = conf.rules.map((rule) => ({ attributes: rule.attributes, rule }));
  }

  /**
   * The decision of the rules about a file, like `aide --path-check`: in 0.18, it does not matter whether a scan
   * reaches the file.
   */
  decide(path: ByteString, type: FileType): Decision | undefined {
    return this.#decide(this.#directoryFor(path), path, type, this.#dialect === '0.19');
  }

  /** A scan's decision about a file: {@link decide}, unless the scan does not reach it. */
  select(path: ByteString, type: FileType): Decision | undefined {
    return this.#decide(this.#directoryFor(path), path, type, true);
  }

  /**
   * The result of {@link select} for every file of this type in a directory, if it does not depend on the
   * name; otherwise undefined. For most directories, the rules no longer depend on names.
   */
  selectAll(directory: ByteString, type: Exclude<FileType, 'd'>): Decision | 'none' | undefined {
    const inside = this.#directory(directory);
    if (!inside.isReached) return 'none';
    if (!this.#patterns.isSettled(inside.state)) return undefined;
    // If the file is not a directory, only the state matters, so any path will do.
    const outcome = this.#outcome(inside, inside.state, directory, type);
    return typeof outcome === 'string' ? 'none' : outcome;
  }

  #decide(directory: Directory, path: ByteString, type: FileType, asScan: boolean): Decision | undefined {
    if (asScan && !directory.isReached && path !== '/') return undefined;
    const outcome = this.#outcome(directory, this.#stateOf(directory, path), path, type);
    return typeof outcome === 'string' ? undefined : outcome;
  }

  /**
   * Whether a scan of the directory above has to read this one. If not, nothing below is selected. AIDE reads more
   * directories, but selects the same files.
   */
  descend(path: ByteString): boolean {
    const directory = this.#directoryFor(path);
    return path === '/'
      ? directory.isReached
      : this.#leadsOn(directory, this.#stateOf(directory, path), path);
  }

  #leadsOn(directory: Directory, here: WalkState, path: ByteString): boolean {
    const outcome = this.#outcome(directory, here, path, 'd');
    if (!this.#goesOn(path, outcome)) return false;
    const inside = path === '/' ? here : this.#patterns.walk(here, '/');
    if (this.#patterns.certain(inside).some((index) => this.#excludesBelow(index, path))) return false;
    const leads = (index: number): boolean => this.#decidesBelow(index, path);
    return this.#patterns.matches(inside).some(leads) || this.#patterns.alive(inside).some(leads);
  }

  /**
   * Whether a rule can select something below a directory, if it matches there. That depends on the directory that the
   * rule belongs to.
   */
  #decidesBelow(index: number, path: ByteString): boolean {
    const node = this.#nodeOf[index];
    const list = this.#listOf(index);
    if (node === undefined || list === 'negative') return false;
    if (node.path === path || node.path.startsWith(withSlash(path))) return true;
    return list === 'regular' && path.startsWith(withSlash(node.path));
  }

  /** Whether the rule excludes everything below a directory, if it matches there. */
  #excludesBelow(index: number, path: ByteString): boolean {
    const node = this.#nodeOf[index];
    if (node === undefined || this.#listOf(index) !== 'negative' || this.#rules[index]?.types !== undefined)
      return false;
    return node.path === path || path.startsWith(withSlash(node.path));
  }

  #listOf(index: number): keyof Pick<RuleNode, 'equals' | 'regular' | 'negative'> {
    const kind = this.#rules[index]?.kind;
    return kind === 'equals' || kind === 'regular' ? kind : 'negative';
  }

  /** Whether AIDE itself would read the directory. */
  #goesOn(path: ByteString, outcome: Outcome): boolean {
    if (path === '/' && this.#dialect === '0.18') return true;
    if (outcome === 'pruned') return false;
    if (this.#dialect === '0.19') return outcome !== 'none';
    return outcome !== 'none' || this.#tree.get(path) !== undefined;
  }

  /** The state after reading the whole path. */
  #stateOf(directory: Directory, path: ByteString): WalkState {
    return this.#patterns.walk(directory.state, path, directory.path === '/' ? 1 : directory.path.length + 1);
  }

  #outcome(directory: Directory, state: WalkState, path: ByteString, type: FileType): Outcome {
    const matched = this.#patterns.matches(state);
    // Whether a rule could match below matters only for directories.
    const isDirectory = type === 'd';
    const isNew = this.#dialect === '0.19';
    let isPartial = isDirectory && isNew && this.#tree.get(path) !== undefined;
    let decision: Decision | undefined;
    const { own, nodes } = directory;
    if (own !== undefined && own.equals.length > 0) {
      decision = this.#decisions[this.#first(own, 'equals', matched, type)];
      if (decision === undefined && isDirectory) isPartial ||= this.#couldMatch(own.equals, state);
    }
    for (let at = 0; decision === undefined && at < nodes.length; at++) {
      const node = nodes[at];
      if (node === undefined || node.regular.length === 0) continue;
      decision = this.#decisions[this.#first(node, 'regular', matched, type)];
      if (decision === undefined && isDirectory) isPartial ||= this.#couldMatch(node.regular, state);
    }
    if (decision === undefined && !(isNew && isPartial)) return isPartial ? 'partial' : 'none';
    for (let at = nodes.length - 1; at >= 0; at--) {
      const node = nodes[at];
      if (node === undefined || node.negative.length === 0) continue;
      if (!isNew && directory.excluding.has(node)) return 'pruned';
      const index = this.#first(node, 'negative', matched, type);
      if (index === -1) continue;
      const rule = this.#rules[index];
      if (!isNew) return rule?.types === undefined ? 'pruned' : 'partial';
      if (rule?.kind === 'prune') return 'pruned';
      if (decision !== undefined) return 'partial';
    }
    return decision ?? 'partial';
  }

  /** Index of the node's first rule that matches and is for this type of file; -1 if no rule does. */
  #first(
    node: RuleNode,
    list: 'equals' | 'regular' | 'negative',
    matched: readonly number[],
    type: FileType,
  ): number {
    // Iterates over the matching rules: few match a path, but a node may have many.
    for (const index of matched) {
      if (this.#nodeOf[index] !== node || this.#listOf(index) !== list) continue;
      const types = this.#rules[index]?.types;
      if (types === undefined || types.has(type)) return index;
    }
    return -1;
  }

  /** Whether a rule of the list, none of which selects this path, could match below it. */
  #couldMatch(list: readonly number[], state: WalkState): boolean {
    const [matched, alive] = [this.#patterns.matches(state), this.#patterns.alive(state)];
    return list.some((index) => matched.includes(index) || alive.includes(index));
  }

  /** The parent directory of a path. Often it is that of the previous path, which is checked without creating a string for it. */
  #directoryFor(path: ByteString): Directory {
    const last = this.#last;
    if (last !== undefined && last.path !== '/') {
      const { length } = last.path;
      if (path.charCodeAt(length) === slash && path.lastIndexOf('/') === length && path.startsWith(last.path))
        return last;
    }
    return this.#directory(directoryOf(path));
  }

  #directory(path: ByteString): Directory {
    const known = this.#directories.get(path);
    if (known !== undefined) return (this.#last = known);
    const made = this.#newDirectory(path);
    const { generation } = this.#patterns;
    if (this.#directories.size >= maxDirectories || generation !== this.#generation)
      this.#directories.clear();
    this.#generation = generation;
    this.#directories.set(path, made);
    return (this.#last = made);
  }

  #newDirectory(path: ByteString): Directory {
    const nodes: RuleNode[] = [];
    for (let node: RuleNode | undefined = this.#tree.nearest(path); node !== undefined; node = node.parent) {
      if (node.equals.length + node.regular.length + node.negative.length > 0) nodes.push(node);
    }
    const own = this.#tree.get(path);
    if (path === '/') {
      const state = this.#patterns.walk(this.#patterns.start, '/');
      const root = { path, state, nodes, own, excluding: new Set<RuleNode>(), isReached: true };
      return { ...root, isReached: this.#leadsOn(root, state, '/') };
    }
    const parent = this.#directory(directoryOf(path));
    const here = this.#stateOf(parent, path);
    let { excluding } = parent;
    const matched = this.#patterns.matches(here);
    for (const index of matched) {
      const [rule, node] = [this.#rules[index], this.#nodeOf[index]];
      if (rule?.kind !== 'negative' || rule.types !== undefined || node === undefined) continue;
      if (parent.nodes.includes(node)) excluding = new Set([...excluding, node]);
    }
    const isReached = parent.isReached && this.#leadsOn(parent, here, path);
    return { path, state: this.#patterns.walk(here, '/'), nodes, own, excluding, isReached };
  }
}

/** The parent directory of a path; the root's parent is the root. */
export function directoryOf(path: ByteString): ByteString {
  const end = path.lastIndexOf('/');
  return end <= 0 ? '/' : path.slice(0, end);
}

function withSlash(path: ByteString): ByteString {
  return path === '/' ? path : `${path}/`;
}
