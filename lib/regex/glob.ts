/** Globs for names and for paths, as users write them. */
import { Regex, RegexSyntaxError } from './regex.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';

type TextTest = (text: string) => boolean;

/**
 * A test of a glob with `*`, `?`, `[a-c]`, `[!a-c]`, `{web,api}`, and `\` before a character that stands for itself. A glob
 * without any of these matches only the same text.
 *
 * @throws {RampartError} `INPUT`; `option` is named in it.
 */
export function nameGlob(glob: string, option: string): TextTest {
  return compile(glob, glob, '.', option);
}

/**
 * Like {@link nameGlob}, for paths: `*`, `?` and `[...]` do not match `/`, `**` matches anything, and `**` with a slash
 * matches zero or more directories. A glob without `/` matches the last name of the path.
 */
export function pathGlob(glob: string, option: string): TextTest {
  return compile(glob, glob.includes('/') ? glob : `**/${glob}`, '[^/]', option);
}

/** @param given - As the user wrote it. */
function compile(given: string, glob: string, one: string, option: string): TextTest {
  if (given === '') throw unusable(option, given, 'it is empty');
  if (!/[*?[{\\]/.test(glob)) return (text) => text === glob;
  const expression = expressionOf(glob, one);
  if (typeof expression !== 'string') throw unusable(option, given, expression.why);
  try {
    const regex = new Regex(expression);
    return (text) => regex.test(text);
  } catch (error) {
    if (error instanceof RegexSyntaxError) throw unusable(option, given, error.message);
    throw error;
  }
}

function expressionOf(glob: string, one: string): string | { readonly why: string } {
  let out = '';
  let depth = 0;
  for (let at = 0; at < glob.length; at++) {
    const character = glob.charAt(at);
    const stars = character === '*' ? (/^\*+/.exec(glob.slice(at))?.[0].length ?? 0) : 0;
    if (stars === 1) out += `${one}*`;
    else if (stars > 1) {
      at += stars - 1;
      const isDirectories = glob.charAt(at + 1) === '/' && (out === '' || out.endsWith('/'));
      if (isDirectories) at++;
      out += isDirectories ? '(?:.*/)?' : '.*';
    } else if (character === '?') out += one;
    else if (character === '[') {
      // As in a shell, a ] that comes first is a member.
      const end = glob.indexOf(']', at + (/^[!^]/.test(glob.slice(at + 1)) ? 3 : 2));
      if (end < 0) return { why: 'a [ has no matching ]' };
      const members = glob.slice(at + 1, end).replace(/(?!^\^)[\\[\]^&]/g, '\\$&');
      // A negated class matches any other character, except / in a path.
      out += /^[!^]/.test(members) ? `[^${members.slice(1)}${one === '.' ? '' : '/'}]` : `[${members}]`;
      at = end;
    } else if (character === '{') {
      depth++;
      out += '(?:';
    } else if (character === '}' && depth > 0) {
      depth--;
      out += ')';
    } else if (character === ',' && depth > 0) out += '|';
    else if (character === '\\') {
      at++;
      if (at === glob.length) return { why: 'it ends with a \\' };
      out += quoted(glob.charAt(at));
    } else out += quoted(character);
  }
  return depth > 0 ? { why: 'a { has no matching }' } : `(?s)^(?:${out})$`;
}

function quoted(character: string): string {
  return /[\\^$.|?*+()[\]{}]/.test(character) ? `\\${character}` : character;
}

function unusable(option: string, glob: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `${option} ${JSON.stringify(glob)} is invalid`,
    why,
    next: 'Quote it to protect it from the shell',
  });
}
