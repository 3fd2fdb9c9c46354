/**
 * Field selectors: `metadata.name=x,status.phase!=Running` -> terms -> does an object match.
 *
 * Which fields may be used differs from resource to resource; the caller says which, and how to read them.
 * Grammar, escaping and wording are those of the Kubernetes API server (k8s.io/apimachinery pkg/fields).
 */
import { SelectorError } from './selectors.ts';

/** One condition on one field. A field that an object does not have counts as the empty text. */
interface FieldTerm {
  readonly field: string;
  readonly operator: '=' | '!=';
  /** Without escapes. */
  readonly value: string;
}

/** All terms must hold; none at all holds for every object. */
export type FieldSelector = readonly FieldTerm[];

/**
 * Reads a field selector. In values, `\\`, `\,` and `\=` stand for the characters after the backslash.
 *
 * @param supported the fields that may be used; without it, any.
 * @throws {SelectorError} with the message the API server gives.
 */
export function parseFieldSelector(text: string, supported?: (field: string) => boolean): FieldSelector {
  const terms: FieldTerm[] = [];
  for (const part of splitTerms(text)) {
    if (part === '') continue;
    const match = /^(?<field>[^=!]*(?:!(?!=)[^=!]*)*)(?<operator>!=|==?)(?<value>[^]*)$/.exec(part);
    if (match?.groups === undefined) {
      throw new SelectorError(`invalid selector: '${text}'; can't understand '${part}'`);
    }
    const { field = '', operator, value = '' } = match.groups;
    terms.push({ field, operator: operator === '!=' ? '!=' : '=', value: unescape(value) });
  }
  for (const { field } of terms) {
    if (supported !== undefined && !supported(field)) {
      throw new SelectorError(`field label not supported: ${field}`);
    }
  }
  return terms;
}

/** Whether an object is selected; `fieldOf` gives a field's value, `undefined` or '' if it is absent. */
export function fieldsMatch(
  selector: FieldSelector,
  fieldOf: (field: string) => string | undefined,
): boolean {
  return selector.every(
    ({ field, operator, value }) => ((fieldOf(field) ?? '') === value) === (operator === '='),
  );
}

/** The value that `field` must have for any match, or undefined: to read one object in place of a list. */
export function requiredFieldValue(selector: FieldSelector, field: string): string | undefined {
  return selector.find((term) => term.field === field && term.operator === '=')?.value;
}

function splitTerms(text: string): string[] {
  const terms: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === ',') {
      terms.push(text.slice(start, at));
      start = at + 1;
    }
  }
  terms.push(text.slice(start));
  return terms;
}

function unescape(value: string): string {
  if (!/[\\,=]/.test(value)) return value;
  let plain = '';
  for (let at = 0; at < value.length; at++) {
    const character = value.charAt(at);
    if (character === '\\') {
      const escaped = value.charAt(++at);
      if (escaped === '' || !'\\,='.includes(escaped)) {
        throw new SelectorError(`invalid field selector: invalid escape sequence: \\${escaped}`);
      }
      plain += escaped;
    } else if (character === ',' || character === '=') {
      // The API server prints the character as its number.
      throw new SelectorError(
        `invalid field selector: unescaped character in value: ${character.charCodeAt(0)}`,
      );
    } else plain += character;
  }
  return plain;
}
