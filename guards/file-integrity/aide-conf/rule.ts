/** Evaluates one rule: its regular expression, its file types, its attributes. */
import { parsePcre, PcreSyntaxError, PcreUnsupportedError } from '../pcre/pcre.ts';
import type { RegexNode } from '../pcre/program.ts';
import { checksums, otherChecksums, refusedChecksums, setOf } from '../model/attributes.ts';
import { fileTypes, type ByteString, type FileType } from '../model/entry.ts';
import { literalPath } from './selection-tree.ts';
import type { Rule } from './conf.ts';
import type { Reading } from './reading.ts';
import { ignoredAttributes, settled } from './expression.ts';
import { fault, type Fault, type Position, type ProblemList } from './source.ts';
import type { Expression, Restriction, RuleStatement } from './syntax.ts';

/** The rule; `undefined` if it is invalid, which is reported. */
export function ruleOf(statement: RuleStatement, prefix: ByteString, reading: Reading): Rule | undefined {
  const { problems } = reading;
  const { type: kind, path, restriction, expression, at } = statement;
  const pattern = prefix + reading.bytes(path);
  const types = typesOf(restriction, problems);
  let attributes = 0;
  if (expression !== undefined) {
    const value = reading.value(expression);
    attributes = settled(value);
    const compressed = setOf('compressed');
    if ((attributes & compressed) !== 0 && (attributes & checksums) === 0) {
      problems.warn(
        expression.at,
        fault`'compressed' has no effect without a checksum`,
        'Add one, or remove it',
      );
    }
  }
  if (reading.dialect === '0.18' && kind === 'prune') {
    problems.error(
      at,
      fault`a rule with '-' requires AIDE 0.19`,
      "Write '!' instead, which prunes in AIDE 0.18",
    );
    return undefined;
  }
  const regex = regexOf(pattern, path.at, problems, fault`the rule`);
  if (regex === undefined || types === 'wrong') return undefined;
  if (literalPath(pattern).includes('//')) {
    problems.error(path.at, fault`there are two slashes in a row`, 'Write one slash');
    return undefined;
  }
  // AIDE accepts two slashes if they are the last ones before a special character.
  if (/^[^(^$?*[\\]*\/\//.test(pattern)) {
    problems.warn(path.at, fault`there are two slashes in a row: no path matches`, 'Write one slash');
  }
  return { kind, pattern, regex, types, attributes, at };
}

/** Parses a regular expression; `undefined` if PCRE2 or our engine refuses it, which is reported. */
export function regexOf(
  pattern: ByteString,
  at: Position,
  problems: ProblemList,
  what: Fault,
): RegexNode | undefined {
  try {
    return parsePcre(pattern);
  } catch (error) {
    if (error instanceof PcreUnsupportedError) {
      problems.error(
        at,
        fault`${what} has ${error.message} at character ${error.at + 1}`,
        "Rewrite it without that, or use provider 'aide', which supports it",
      );
    } else if (error instanceof PcreSyntaxError) {
      problems.error(
        at,
        fault`${what} is not a regular expression: ${error.message} (character ${error.at + 1})`,
        'Correct it; \\\\ before a character makes it literal',
      );
    } else throw error;
    return undefined;
  }
}

function typesOf(
  restriction: Restriction | undefined,
  problems: ProblemList,
): ReadonlySet<FileType> | undefined | 'wrong' {
  if (restriction === undefined) return undefined;
  if (restriction.fileSystem !== undefined) {
    problems.error(
      restriction.at,
      fault`the rule is restricted to the file system '${restriction.fileSystem}'`,
      "Remove it, or use provider 'aide' with AIDE 0.19, which supports it",
    );
    return 'wrong';
  }
  const types = new Set<FileType>();
  let isWrong = false;
  for (const { at, name } of restriction.types) {
    const type = fileTypes.find((known) => known === name);
    if (type !== undefined) types.add(type);
    // 0 means any type; together with other types it has no effect.
    else if (name !== '0') {
      isWrong = true;
      const isSolaris = name === 'D' || name === 'P';
      problems.error(
        at,
        isSolaris ? fault`file type '${name}' exists only on Solaris` : fault`'${name}' is not a file type`,
        'Write f, d, l, c, b, p, s or 0 (any) with commas between them, then a blank and the attributes',
      );
    }
  }
  if (isWrong) return 'wrong';
  return types.size === 0 ? undefined : types;
}

/** Warns about names that have another meaning here than in AIDE. */
export function warnOfAttributes(expression: Expression, { problems, groups }: Reading): void {
  for (const { at, name, operator } of expression.terms) {
    if (operator === '-' || groups.isOwn(name)) continue;
    if (refusedChecksums.has(name)) {
      problems.warn(
        at,
        fault`FIPS 140-3 does not approve '${name}': sha256 is used instead`,
        'Write sha256 or sha512',
      );
    } else if (otherChecksums.has(name)) {
      problems.warn(
        at,
        fault`'${name}' is not calculated here: sha256 is used instead`,
        'Write sha256 or sha512',
      );
    } else if (ignoredAttributes.has(name)) {
      problems.warn(at, fault`'${name}' is not compared here`, "Remove it, or use provider 'aide'");
    } else if (name === 'S') {
      problems.warn(at, fault`'S' is deprecated, and AIDE 0.20 will refuse it`, "Write 'growing+s' instead");
    }
  }
}
