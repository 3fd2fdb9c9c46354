/** Moves paths, regular expressions for paths, and includes into the directory where the host's root is mounted. */
import { fault, type Position, type ProblemList } from './source.ts';
import type { IncludeStatement, Statement, Text } from './syntax.ts';

/** Whether a path, or an expression for one, is already in the mounted root. */
export function isInside(written: string, root: string): boolean {
  return [root, escaped(root)].some(
    (start) =>
      written.startsWith(start) &&
      (written.length === start.length || '/$('.includes(written[start.length] ?? '')),
  );
}

/**
 * Moves an expression into the mounted root: `/etc/.*` becomes `/hostroot/etc/.*`. An expression that is already there
 * is unchanged.
 */
export function insideRoot(written: string, root: string): string {
  if (isInside(written, root)) return written;
  // The mounted root itself has no trailing slash.
  return escaped(root) + (written === '/$' ? '$' : written);
}

/**
 * Whether a path begins with a macro whose value is a directory in the mounted root. That is always so for DBDIR and
 * LOGDIR if they are defined: the conversion redefines them.
 */
export function leadsToHost(
  written: string,
  source: string,
  statements: readonly Statement[],
  root: string,
): boolean {
  const macro = /^@@\{([A-Za-z0-9_]+)\}/.exec(written)?.[1];
  const defines = statements.filter((each) => each.kind === 'define').filter(({ name }) => name === macro);
  if (macro === 'DBDIR' || macro === 'LOGDIR') return defines.length > 0;
  const isOfHost = (value: Text | undefined): boolean =>
    value !== undefined && isInside(source.slice(value.at.offset, value.at.end), root);
  return defines.length > 0 && defines.every(({ value }) => isOfHost(value));
}

/** Escapes a path with backslashes as aide.conf requires. */
export function writtenPath(path: string): string {
  return path.replace(/[\\@ ]/g, String.raw`\$&`);
}

/** Converts a path to the regular expression that matches it, escaped for aide.conf. */
export function escaped(path: string): string {
  return writtenPath(path.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
}

/**
 * Included rules are for the host too, so they get the root as their prefix. Only the form of `@@include` with a
 * directory can express that: `@@include /etc/aide.d/x` becomes `@@include /hostroot/etc/aide.d ^x$ /hostroot`.
 *
 * @returns `undefined` if nothing has to change, or if it is impossible, which is reported
 */
export function convertInclude(
  statement: IncludeStatement,
  source: string,
  root: string,
  hasRootPrefix: boolean,
  problems: ProblemList,
): { readonly at: Position; readonly text: string } | undefined {
  const { at, executes, path, pattern, prefix } = statement;
  const written = ({ at: { offset, end } }: Text): string => source.slice(offset, end);
  const place = written(path);
  const word = executes ? '@@x_include' : '@@include';
  if (!place.startsWith('/')) {
    const next = 'Write an absolute path; the rules in it must apply to the host';
    problems.error(path.at, fault`the location of '${place}' on the host is unknown`, next);
    return undefined;
  }
  const inside = isInside(place, root) ? place : writtenPath(root) + place;
  // With root_prefix the rules of the included file need no change.
  if (hasRootPrefix) {
    const rest = source.slice(path.at.end, at.end);
    return { at, text: `${word} ${inside}${rest}` };
  }
  const before = prefix === undefined ? '' : written(prefix);
  const rulePrefix = before === '' ? escaped(root) : insideRoot(before, root);
  if (pattern !== undefined) return { at, text: `${word} ${inside} ${written(pattern)} ${rulePrefix}` };
  const slash = inside.lastIndexOf('/');
  const name = inside.slice(slash + 1);
  if (name === '' || path.parts.some((part) => 'variable' in part)) {
    const next = `Write '${word} DIRECTORY REGEX' instead`;
    problems.error(path.at, fault`'${place}' cannot be split into a directory and a file`, next);
    return undefined;
  }
  const expression = `^${escaped(name.replace(/\\([\\@ ])/g, '$1'))}$`;
  return { at, text: `${word} ${inside.slice(0, slash)} ${expression} ${rulePrefix}` };
}
