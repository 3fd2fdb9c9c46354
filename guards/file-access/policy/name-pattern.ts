/**
 * The pattern of `containerName`: a name, a regular expression, or a glob.
 *
 * Regular expressions and globs run on an engine whose time grows linearly with the name. JavaScript's own would let
 * one policy with `(a+)+$` stop the agent of every node.
 */
import { Regex, RegexSyntaxError } from '../../../lib/regex/regex.ts';

/** Limit of steps for one character of a name; `[a-z]{1,63}` takes 126. */
const MAX_INSTRUCTIONS = 1000;

/** A compiled pattern. */
export interface NamePattern {
  test(name: string): boolean;
}

const everyName: NamePattern = { test: () => true };

/**
 * Compiles a pattern: the prefixes `regex:` and `glob:`, which spaces may follow, say what it is. Without a prefix, it
 * is a name or, if it contains a character that names of containers cannot have, a regular expression (RE2's syntax).
 * It must match the whole name. An empty pattern matches every name.
 *
 * @returns the pattern; in `why` the reason if it is invalid.
 */
export function compileNamePattern(text: string): NamePattern | { readonly why: string } {
  const [, prefix, rest = ''] = /^(?:(regex|glob): *)?(.*)$/s.exec(text) ?? [];
  const expression = prefix === 'glob' ? globExpression(rest) : rest;
  if (typeof expression !== 'string') return expression;
  if (expression === '' || expression === '.*') return everyName;
  // Most patterns are just a name, and need not be compiled.
  const [, literal] = /^\^?([A-Za-z0-9-]+)\$?$/.exec(expression) ?? [];
  if (literal !== undefined) return { test: (name) => name === literal };
  try {
    const steps = new Regex(expression).size;
    if (steps > MAX_INSTRUCTIONS) {
      return {
        why: `with its repetitions expanded it has ${steps} steps; the limit is ${MAX_INSTRUCTIONS}`,
      };
    }
    // The expression was compiled alone first: `a)|(b` would be valid only between these parentheses.
    return { test: regexTest(new Regex(`^(?:${expression})$`)) };
  } catch (error) {
    if (error instanceof RegexSyntaxError) return { why: error.message };
    throw error;
  }
}

/** Limit of cached results for each pattern: the same few names recur. */
const MAX_KEPT = 64;

/**
 * Tests a regular expression on few and short names. `Regex.test` would build an automaton, which takes longer than it
 * saves (50 ms for a new name and 1,000 patterns) and needs 600 bytes for each state.
 */
function regexTest(regex: Regex): NamePattern['test'] {
  const kept = new Map<string, boolean>();

  return (name) => {
    const known = kept.get(name);
    if (known !== undefined) return known;
    const matches = regex.find(name) !== undefined;
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(name, matches);
    return matches;
  };
}

/**
 * Converts a glob to a regular expression: `*`, `?`, `[a-c]`, `[!a-c]`, `{web,api}`, and `\\` before a
 * literal character.
 */
function globExpression(glob: string): string | { readonly why: string } {
  let out = '';
  let depth = 0;
  for (let at = 0; at < glob.length; at++) {
    const character = glob.charAt(at);
    if (character === '*') out += '.*';
    else if (character === '?') out += '.';
    else if (character === '[') {
      // As in a shell, a ] directly after the [ is a member.
      const end = glob.indexOf(']', at + (/^[!^]/.test(glob.slice(at + 1)) ? 3 : 2));
      if (end < 0) return { why: 'a [ without a matching ]' };
      const members = glob.slice(at + 1, end);
      out += `[${members.replace(/^[!^]/, '^').replace(/(?!^\^)[\\[\]^&]/g, '\\$&')}]`;
      at = end;
    } else if (character === '{') {
      depth += 1;
      out += '(?:';
    } else if (character === '}' && depth > 0) {
      depth -= 1;
      out += ')';
    } else if (character === ',' && depth > 0) out += '|';
    else if (character === '\\') {
      at += 1;
      if (at === glob.length) return { why: 'a \\ at its end' };
      out += quoted(glob.charAt(at));
    } else out += quoted(character);
  }
  return depth > 0 ? { why: 'a { without a matching }' } : `(?s)^(?:${out})$`;
}

function quoted(character: string): string {
  return /[\\^$.|?*+()[\]{}]/.test(character) ? `\\${character}` : character;
}
