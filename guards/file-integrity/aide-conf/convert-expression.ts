/** Rewrites attribute arithmetic so that it uses only approved checksums. */
import { describeAttributes, otherChecksums, refusedChecksums } from '../model/attributes.ts';
import { settled, type Groups, type Value } from './expression.ts';
import type { Expression, Term } from './syntax.ts';

/** The checksums that AIDE's own groups expand to. */
const expansions: ReadonlyMap<string, readonly string[]> = new Map([
  ['R', ['L', 's', 'm', 'c', 'sha256']],
  ['H', ['sha256', 'sha512']],
]);

const approved: ReadonlySet<string> = new Set(['sha256', 'sha512']);

export interface ConvertedExpression {
  /** The text to write in its place; `undefined` if it can stay. */
  readonly text: string | undefined;
  /** The original meaning, including the checksums that are not approved. */
  readonly meant: Value;
  readonly converted: Value;
}

/**
 * @param meant the value of each group before the conversion
 * @param converted the value of each group after the conversion
 * @param rename the new names of groups whose value changes
 */
export function convertExpression(
  expression: Expression,
  meant: Groups,
  converted: Groups,
  rename: ReadonlyMap<string, string>,
): ConvertedExpression {
  let isUnknown = false;
  const value = meant.evaluate(expression, () => {
    isUnknown = true;
  });
  const wanted: Value = { set: settled(value), foreign: 0 };
  const isForeign = ({ name }: Term): boolean =>
    !meant.isOwn(name) && (refusedChecksums.has(name) || otherChecksums.has(name) || expansions.has(name));
  const replaced = expression.terms.flatMap((term): readonly Term[] => {
    if (!isForeign(term)) return [term];
    // A file never has an unapproved checksum after the conversion, so there is nothing to subtract.
    if (term.operator === '-' && !expansions.has(term.name)) return [];
    return (expansions.get(term.name) ?? ['sha256']).map((name) => ({ ...term, name }));
  });
  const isRight = (terms: readonly Term[]): boolean =>
    terms.length > 0 &&
    terms[0]?.operator === '+' &&
    (isUnknown || converted.evaluate({ ...expression, terms }, () => undefined).set === wanted.set);
  if (!expression.terms.some(isForeign) && isRight(expression.terms)) {
    const text = expression.terms.some(({ name }) => rename.has(name))
      ? write(expression.terms, rename)
      : undefined;
    return { text, meant: value, converted: wanted };
  }
  // `others` leaves out the sha256 added for an unapproved checksum, if another term already has an approved one.
  // Groups are expanded only if necessary: a group may have another meaning in the other branch of a condition.
  const others = replaced.filter((term) => expression.terms.includes(term) || !approved.has(term.name));
  const right = [replaced, others].find(isRight);
  const text = right === undefined ? describeAttributes(wanted.set) || 'E' : write(right, rename);
  return { text, meant: value, converted: wanted };
}

function write(terms: readonly Term[], rename: ReadonlyMap<string, string>): string {
  return terms
    .map(({ operator, name }, at) => `${at === 0 ? '' : operator}${rename.get(name) ?? name}`)
    .join('');
}
