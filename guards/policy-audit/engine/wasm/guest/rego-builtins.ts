/**
 * Builtins of Rego that its WebAssembly modules leave to the host, as in Open Policy Agent
 * (https://www.openpolicyagent.org/docs/policy-reference). They run in the policy's thread, within its deadline.
 */
import { randomInt, randomUUID } from 'node:crypto';
import { Semver } from '../../../../../lib/cel/semver.ts';
import {
  type Builtin,
  type BuiltinContext,
  BuiltinError,
  integerAt,
  membersAt,
  ofTexts,
  operandError,
  textAt,
} from './builtin.ts';
import { encodingBuiltins } from './rego-encoding.ts';
import { netBuiltins } from './rego-net.ts';
import { objectBuiltins } from './rego-object.ts';
import { regexBuiltins } from './rego-regex.ts';
import { goFormat } from './rego-sprintf.ts';
import { timeBuiltins } from './rego-time.ts';
import { unitBuiltins } from './rego-units.ts';
import { shownValue } from './rego-value.ts';

function print([values]: readonly unknown[], { say }: BuiltinContext): true {
  const parts = (Array.isArray(values) ? values : [values]) as unknown[];
  say(parts.map(printed).join(' '));
  return true;
}

/** An operand of `print` is passed as a set of its values, which is empty if the operand is undefined. */
function printed(operand: unknown): string {
  const values = operand instanceof Set || Array.isArray(operand) ? [...(operand as unknown[])] : [operand];
  if (values.length === 0) return '<undefined>';
  return values.map((value) => (typeof value === 'string' ? value : shownValue(value))).join(' ');
}

export const builtins: Readonly<Record<string, Builtin>> = {
  trace([note], { say }) {
    if (typeof note === 'string') say(note);
    return true;
  },
  print,
  'internal.print': print,
  sprintf: (args) => {
    const values = args[1];
    if (!Array.isArray(values)) throw operandError(1, 'array', values);
    return goFormat(textAt(args, 0), values);
  },
  'glob.quote_meta': ofTexts((text = '') => text.replaceAll(/[*?\\[\]{}]/g, String.raw`\$&`)),
  'semver.is_valid': ([version]) => typeof version === 'string' && semverOf(version) !== undefined,
  'semver.compare': (args) => {
    const [left, right] = [0, 1].map((at) => {
      const version = semverOf(textAt(args, at));
      if (version === undefined)
        throw new BuiltinError(
          `operand ${at + 1} must be a semantic version but is ${JSON.stringify(args[at])}`,
        );
      return version;
    }) as [Semver, Semver];
    return Number(left.compareTo(right));
  },
  indexof_n: ofTexts((text = '', part = '') => {
    if (part === '') throw new BuiltinError('the text to search for is empty');
    const found: number[] = [];
    for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
      found.push(lengthOf(text.slice(0, at)));
    }
    return found;
  }),
  'strings.count': ofTexts((text = '', part = '') =>
    part === '' ? lengthOf(text) + 1 : text.split(part).length - 1,
  ),
  'strings.reverse': ofTexts((text = '') => Array.from(text).toReversed().join('')),
  'strings.any_prefix_match': (args) => anyMatch(args, (text, part) => text.startsWith(part)),
  'strings.any_suffix_match': (args) => anyMatch(args, (text, part) => text.endsWith(part)),
  'numbers.range_step': (args) => {
    const [from, to, step] = [0, 1, 2].map((at) => integerAt(args, at)) as [bigint, bigint, bigint];
    if (step <= 0n) throw new BuiltinError('the step must be positive');
    const numbers: bigint[] = [];
    if (from <= to) for (let at = from; at <= to; at += step) numbers.push(at);
    else for (let at = from; at >= to; at -= step) numbers.push(at);
    return numbers;
  },
  'uuid.rfc4122': ([key], { kept }) => keptValue(kept, `uuid ${shownValue(key)}`, randomUUID),
  'rand.intn': (args, { kept }) => {
    const size = Math.abs(Number(integerAt(args, 1)));
    const key = `rand ${JSON.stringify(textAt(args, 0))} ${size}`;
    return size === 0 ? 0 : keptValue(kept, key, () => randomInt(size));
  },
  ...regexBuiltins,
  ...encodingBuiltins,
  ...objectBuiltins,
  ...netBuiltins,
  ...unitBuiltins,
  ...timeBuiltins,
};

/** Calls with equal operands have the same result within an evaluation. */
function keptValue(kept: BuiltinContext['kept'], key: string, make: () => unknown): unknown {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

/** Length in code points, as in Go. */
function lengthOf(text: string): number {
  return Array.from(text).length;
}

/** Whether the test is true for any pair of a text and a part; each operand is one string or several. */
function anyMatch(args: readonly unknown[], test: (text: string, part: string) => boolean): boolean {
  const [texts = [], parts = []] = [0, 1].map((at) => {
    const members = typeof args[at] === 'string' ? [args[at]] : membersAt(args, at);
    return members.map((_, index) => textAt(members, index));
  });
  return texts.some((text) => parts.some((part) => test(text, part)));
}

/** Strict, as on semver.org: no leading `v` or zeros. */
function semverOf(text: string): Semver | undefined {
  const version = Semver.parse(text);
  return typeof version === 'string' ? undefined : version;
}
