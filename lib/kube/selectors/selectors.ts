/**
 * Label selectors: text or object -> requirements -> does an object with these labels match. Field
 * selectors are in `field-selectors.ts`, the syntax of keys and values in `label-names.ts`.
 *
 * The grammar and the wording of the refusals are those of the Kubernetes API server
 * (k8s.io/apimachinery pkg/labels), because clients and people know them. Selectors are plain values:
 * they hold no handle and may be shared.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { labelKeyProblems, labelValueProblems } from './label-names.ts';

/** A selector that cannot be understood. `code` is `INPUT`; the message is what an API server answers. */
export class SelectorError extends RampartError {
  constructor(message: string) {
    super(errorCodes.INPUT, { what: message });
    this.name = 'SelectorError';
  }
}

/** The operators of a requirement, as written in a selector's text. */
const labelOperators = ['in', 'notin', '=', '==', '!=', '>', '<', 'exists', '!'] as const;
type LabelOperator = (typeof labelOperators)[number];

/** One condition on one label. Values are sorted and without repetition. */
interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  readonly values: readonly string[];
}

export type Labels = Readonly<Record<string, string>>;

/** All requirements must hold; none at all holds for every object. */
export interface LabelSelector {
  /** Sorted by key. */
  readonly requirements: readonly LabelRequirement[];
  /** A selector that was not given at all (`null` in an object) selects nothing. */
  readonly selectsNothing: boolean;
}

const binaryOperators = 'in, notin, =, ==, !=, gt, lt';
/** Reads `app=web,tier in (a, b),!legacy`. @throws {SelectorError} with the message the API server gives. */
export function parseLabelSelector(text: string): LabelSelector {
  const reader = new TokenReader(text);
  const requirements: LabelRequirement[] = [];
  for (;;) {
    const token = reader.peek();
    if (token.kind === 'end') return selectorOf(requirements);
    if (token.kind !== 'word' && token.text !== '!') {
      throw new SelectorError(`found '${token.text}', expected: !, identifier, or 'end of string'`);
    }
    requirements.push(readRequirement(reader));
    const after = reader.next();
    if (after.kind === 'end') return selectorOf(requirements);
    if (after.text !== ',' || after.kind === 'word') {
      throw new SelectorError(`found '${after.text}', expected: ',' or 'end of string'`);
    }
    const following = reader.peek();
    if (following.kind !== 'word' && following.text !== '!') {
      throw new SelectorError(`found '${following.text}', expected: identifier after ','`);
    }
  }
}

/** The `matchLabels` / `matchExpressions` form, as in objects. */
export interface LabelSelectorObject {
  readonly matchLabels?: Labels | null;
  readonly matchExpressions?:
    | readonly {
        readonly key: string;
        readonly operator: string;
        readonly values?: readonly string[] | null;
      }[]
    | null;
}

const objectOperators: ReadonlyMap<unknown, LabelOperator> = new Map([
  ['In', 'in'],
  ['NotIn', 'notin'],
  ['Exists', 'exists'],
  ['DoesNotExist', '!'],
]);

/**
 * Reads the object form. Without a selector (`null`, `undefined`) nothing is selected; `{}` selects everything.
 *
 * @throws {SelectorError} for anything that does not have this form, whatever its type.
 */
export function labelSelectorOf(object: LabelSelectorObject | null | undefined): LabelSelector {
  if (object === null || object === undefined) return { requirements: [], selectsNothing: true };
  const { matchLabels, matchExpressions } = fieldsOf(object, 'a label selector');
  const requirements: LabelRequirement[] = [];
  for (const [key, value] of Object.entries(fieldsOf(matchLabels ?? {}, 'matchLabels'))) {
    requirements.push(requirementOf(key, '=', [stringOf(value, 'a value of matchLabels')]));
  }
  if (matchExpressions !== null && matchExpressions !== undefined && !Array.isArray(matchExpressions)) {
    throw new SelectorError('matchExpressions must be a list');
  }
  for (const item of (matchExpressions ?? []) as readonly unknown[]) {
    const { key, operator, values } = fieldsOf(item, 'an item of matchExpressions');
    const known = objectOperators.get(operator);
    if (known === undefined) {
      const shown =
        typeof operator === 'string' ? JSON.stringify(operator) : `a value of type ${typeof operator}`;
      throw new SelectorError(`${shown} is not a valid label selector operator`);
    }
    if (values !== null && values !== undefined && !Array.isArray(values)) {
      throw new SelectorError('values of matchExpressions must be a list');
    }
    const texts = ((values ?? []) as readonly unknown[]).map((value) => stringOf(value, 'a value'));
    requirements.push(requirementOf(stringOf(key, 'key'), known, texts));
  }
  return selectorOf(requirements);
}

const noLabels: Labels = {};

export function labelsMatch(selector: LabelSelector, labels: Labels | null | undefined): boolean {
  if (selector.selectsNothing) return false;
  // Called for each pod of a cluster, many times: a loop allocates nothing.
  const { requirements } = selector;
  for (let at = 0; at < requirements.length; at++) {
    if (!holds(requirements[at] as LabelRequirement, labels ?? noLabels)) return false;
  }
  return true;
}

/** The canonical text: parsing it gives the same selector. */
export function labelSelectorText(selector: LabelSelector): string {
  return selector.requirements.map(requirementText).join(',');
}

function requirementText({ key, operator, values }: LabelRequirement): string {
  if (operator === 'exists') return key;
  if (operator === '!') return `!${key}`;
  if (operator === 'in' || operator === 'notin') return `${key} ${operator} (${values.join(',')})`;
  return `${key}${operator}${values[0] ?? ''}`;
}

function holds({ key, operator, values }: LabelRequirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'exists':
      return value !== undefined;
    case '!':
      return value === undefined;
    case 'in':
    case '=':
    case '==':
      return value !== undefined && values.includes(value);
    case 'notin':
    case '!=':
      return value === undefined || !values.includes(value);
    case '>':
    case '<': {
      const [left, right] = [integerOf(value), integerOf(values[0])];
      if (left === undefined || right === undefined) return false;
      return operator === '>' ? left > right : left < right;
    }
  }
}

const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

function integerOf(text: string | undefined): bigint | undefined {
  // The length is limited first: the cost of BigInt grows with its square.
  if (text === undefined || text.length > 100 || !/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return value < int64.min || value > int64.max ? undefined : value;
}

function selectorOf(requirements: LabelRequirement[]): LabelSelector {
  // Code units order, like the server's byte order for the characters that keys may have.
  const sorted = requirements.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  // A copy takes less memory than the list that was filled, which has spare room.
  return { requirements: sorted.slice(), selectsNothing: false };
}

function requirementOf(key: string, operator: LabelOperator, values: readonly string[]): LabelRequirement {
  const problems: string[] = [];
  const refuse = (field: string, value: string | readonly string[] | undefined, why: string) =>
    problems.push(`${field}: Invalid value: ${JSON.stringify(value)}: ${why}`);
  const ofKey = labelKeyProblems(key);
  if (ofKey.length > 0) refuse('key', key, ofKey.join('; '));
  if ((operator === 'in' || operator === 'notin') && values.length === 0) {
    refuse('values', values, "for 'in', 'notin' operators, values set can't be empty");
  }
  if ((operator === 'exists' || operator === '!') && values.length > 0) {
    refuse('values', values, 'values set must be empty for exists and does not exist');
  }
  if ((operator === '>' || operator === '<') && integerOf(values[0]) === undefined) {
    refuse('values[0]', values[0], "for 'Gt', 'Lt' operators, the value must be an integer");
  }
  for (const [index, value] of values.entries()) {
    const ofValue = labelValueProblems(value);
    if (ofValue.length > 0) refuse(`values[${index}][${key}]`, value, ofValue.join('; '));
  }
  if (problems.length > 0) {
    throw new SelectorError(problems.length === 1 ? (problems[0] ?? '') : `[${problems.join(', ')}]`);
  }
  return { key, operator, values: [...new Set(values)].toSorted() };
}

function readRequirement(reader: TokenReader): LabelRequirement {
  try {
    return readRequirementParts(reader);
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    throw new SelectorError(`unable to parse requirement: ${error.message}`);
  }
}

function readRequirementParts(reader: TokenReader): LabelRequirement {
  let token = reader.next();
  const absent = token.kind === 'symbol' && token.text === '!';
  if (absent) token = reader.next();
  if (token.kind !== 'word') throw new SelectorError(`found '${token.text}', expected: identifier`);
  const key = token.text;
  const problems = labelKeyProblems(key);
  // "<nil>" is the path that the API server prints for a selector outside of an object.
  if (problems.length > 0)
    throw new SelectorError(`<nil>: Invalid value: ${JSON.stringify(key)}: ${problems.join('; ')}`);
  const after = reader.peek();
  if (absent) return requirementOf(key, '!', []);
  if (after.kind === 'end' || (after.kind === 'symbol' && after.text === ',')) {
    return requirementOf(key, 'exists', []);
  }
  const operator = readOperator(reader);
  const set = operator === 'in' || operator === 'notin';
  return requirementOf(key, operator, set ? readValues(reader) : [readExactValue(reader)]);
}

function readOperator(reader: TokenReader): Exclude<LabelOperator, 'exists' | '!'> {
  const { kind, text } = reader.next();
  if (kind === 'word' && (text === 'in' || text === 'notin')) return text;
  if (kind === 'symbol') {
    if (text === '=' || text === '==' || text === '!=' || text === '>' || text === '<') return text;
  }
  throw new SelectorError(`found '${text}', expected: ${binaryOperators}`);
}

function readExactValue(reader: TokenReader): string {
  const token = reader.peek();
  if (token.kind === 'end' || (token.kind === 'symbol' && token.text === ',')) return '';
  if (token.kind !== 'word') throw new SelectorError(`found '${token.text}', expected: identifier`);
  return reader.next().text;
}

/** `(a,b)`: between commas a value may be missing, which is the empty value. */
function readValues(reader: TokenReader): string[] {
  const open = reader.next();
  if (open.kind !== 'symbol' || open.text !== '(')
    throw new SelectorError(`found '${open.text}' expected: '('`);
  const first = reader.peek();
  if (first.kind !== 'word' && first.text !== ',' && first.text !== ')') {
    throw new SelectorError(`found '${first.text}', expected: ',', ')' or identifier`);
  }
  const values: string[] = [];
  for (;;) {
    const value = reader.peek().kind === 'word' ? reader.next().text : '';
    values.push(value);
    const token = reader.next();
    if (token.kind === 'symbol' && token.text === ')') return values;
    if (token.kind === 'symbol' && token.text === ',') continue;
    throw new SelectorError(
      `found '${token.text}', expected: ${value === '' ? "',', or identifier" : "',' or ')'"}`,
    );
  }
}

function stringOf(value: unknown, what: string): string {
  if (typeof value !== 'string') throw new SelectorError(`${what} must be a string, not ${typeof value}`);
  return value;
}

function fieldsOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SelectorError(`${what} must be an object`);
  }
  return value as Readonly<Record<string, unknown>>;
}

/** A word is a key, a value, or the operator `in` or `notin`. */
interface Token {
  readonly kind: 'word' | 'symbol' | 'end';
  readonly text: string;
}

const end: Token = { kind: 'end', text: '' };
const tokenExpression = /[ \t\r\n]*(?:(?<symbol>==|!=|[=!(),<>])|(?<word>[^ \t\r\n=!(),<>]+))/y;

/** Cuts a selector into words and symbols, with one token of look-ahead. */
class TokenReader {
  readonly #text: string;
  #at = 0;
  #ahead: Token | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  peek(): Token {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  next(): Token {
    const token = this.peek();
    this.#ahead = undefined;
    return token;
  }

  #read(): Token {
    tokenExpression.lastIndex = this.#at;
    const match = tokenExpression.exec(this.#text);
    if (match === null) return end;
    this.#at = tokenExpression.lastIndex;
    const symbol = match.groups?.['symbol'];
    return symbol === undefined
      ? { kind: 'word', text: match.groups?.['word'] ?? '' }
      : { kind: 'symbol', text: symbol };
  }
}
