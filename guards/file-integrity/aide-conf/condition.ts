/** Parses the conditions of `@@if` and of its older forms. */
import { LineError, type Line } from './line.ts';
import { fault, type Position } from './source.ts';
import type { Condition } from './syntax.ts';

/** The old conditions, each with its replacement in `@@if`. */
export const oldConditions: ReadonlyMap<string, string> = new Map([
  ['@@ifdef', '@@if defined'],
  ['@@ifndef', '@@if not defined'],
  ['@@ifhost', '@@if hostname'],
  ['@@ifnhost', '@@if not hostname'],
]);

/** Parses the operand of `@@ifdef` and the like. */
export function parseOldCondition(line: Line, word: string): Condition {
  const what = word.endsWith('host') ? fault`the name of a host` : fault`the name of a variable`;
  const text = line.needText(what, `Write ${word} and one name`);
  const condition: Condition = { test: word.endsWith('host') ? 'hostname' : 'defined', text };
  return word.startsWith('@@ifn') ? { test: 'not', condition } : condition;
}

/** Parses the operand of `@@if`. */
export function parseCondition(line: Line): Condition {
  line.skipBlanks();
  const next = 'Write not, defined NAME, hostname NAME, exists PATH or VERSION version_ge VERSION';
  const word = line.take(/^(?:not|defined|hostname|exists)(?=[ \t]|$)/);
  if (word === 'not') return { test: 'not', condition: parseCondition(line) };
  if (word === 'defined' || word === 'hostname' || word === 'exists') {
    return {
      test: word,
      text: line.needText(fault`the argument of ${{ text: word, kind: 'the condition' }}`, next),
    };
  }
  const left = line.needText(fault`the condition`, next);
  line.skipBlanks();
  if (line.take(/^version_ge(?=[ \t])/) === undefined)
    throw new LineError(left.at, fault`this is not a condition`, next);
  return { test: 'version_ge', left, right: line.needText(fault`the version`, next) };
}

export const unread: Condition = {
  test: 'not',
  condition: { test: 'defined', text: { at: nowhere(), parts: [] } },
};

function nowhere(): Position {
  return { source: { file: '', text: '', isBytes: false }, line: 0, column: 0, offset: 0, end: 0 };
}
