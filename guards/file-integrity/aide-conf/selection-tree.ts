/** The rules, grouped by directory as in AIDE: of all rules that match a file, those of the deepest directory have precedence. */
import type { Rule } from './conf.ts';
import type { ByteString } from '../model/entry.ts';

export interface RuleNode {
  readonly path: ByteString;
  readonly parent: RuleNode | undefined;
  readonly depth: number;
  /** Indexes of this directory's rules, in the order of the configuration. */
  readonly equals: number[];
  readonly regular: number[];
  readonly negative: number[];
}

/** The rules of a configuration in a tree of directories. */
export class RuleTree {
  readonly root: RuleNode = nodeOf('/', undefined);
  readonly #nodes = new Map<ByteString, RuleNode>([['/', this.root]]);

  #longest = 1;

  constructor(rules: readonly Rule[]) {
    for (const [index, rule] of rules.entries()) {
      const node = this.#create(literalPath(rule.pattern));
      if (rule.kind === 'equals') node.equals.push(index);
      else if (rule.kind === 'regular') node.regular.push(index);
      else node.negative.push(index);
    }
  }

  /** The node of a directory; undefined if neither it nor any directory below it has rules. */
  get(path: ByteString): RuleNode | undefined {
    return this.#nodes.get(path);
  }

  /** The node of `directory` or else of its nearest ancestor that has one. */
  nearest(directory: ByteString): RuleNode {
    // No node has a longer path, so the rest is cut off: a directory may be a thousand levels deep.
    let path = directory;
    if (path.length > this.#longest) path = path.slice(0, Math.max(1, path.lastIndexOf('/', this.#longest)));
    for (;;) {
      const node = this.#nodes.get(path);
      if (node !== undefined) return node;
      const slash = path.lastIndexOf('/');
      if (slash <= 0) return this.root;
      path = path.slice(0, slash);
    }
  }

  #create(path: ByteString): RuleNode {
    const known = this.#nodes.get(path);
    if (known !== undefined) return known;
    const slash = path.lastIndexOf('/');
    const node = nodeOf(path, slash <= 0 ? this.root : this.#create(path.slice(0, slash)));
    this.#nodes.set(path, node);
    this.#longest = Math.max(this.#longest, path.length);
    return node;
  }
}

function nodeOf(path: ByteString, parent: RuleNode | undefined): RuleNode {
  const depth = parent === undefined ? 0 : parent.depth + 1;
  return { path, parent, depth, equals: [], regular: [], negative: [] };
}

/**
 * The directory that a rule belongs to: the part before the first special character, up to the last slash. Computed as
 * AIDE does: `.`, `+`, `{` and `|` count as literal characters, and an escape becomes the character after its
 * backslash.
 */
export function literalPath(pattern: ByteString): ByteString {
  let path = '/';
  let last = 1;
  for (let at = 1; at < pattern.length; at++) {
    const character = pattern[at] ?? '';
    if ('(^$?*['.includes(character)) break;
    if (character === '\\') {
      at++;
      path += pattern[at] ?? '';
      continue;
    }
    if (character === '/') last = path.length;
    path += character;
  }
  return path.slice(0, last);
}
