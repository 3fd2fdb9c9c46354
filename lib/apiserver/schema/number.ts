/**
 * Checks bounds of numbers (kube-openapi `pkg/validation/validate/values.go`): an integer is compared as an integer,
 * with the bound truncated; a fraction is compared as a float64.
 */
import { goNumber } from '../../cel/go-text.ts';
import type { SchemaNode } from './node.ts';

interface NumberProblems {
  readonly path: string;
  invalid(value: unknown, words: string): void;
}

export function checkNumber(value: number | bigint, node: SchemaNode, problems: NumberProblems): void {
  const { minimum, maximum, multipleOf, exclusiveMinimum, exclusiveMaximum } = node.schema;
  const whole = typeof value === 'bigint' || Number.isInteger(value);
  if (node.numericFormat !== undefined) checkFormat(value, node.numericFormat, problems);
  if (multipleOf !== undefined && multipleOf !== 0 && !isMultiple(value, multipleOf, whole)) {
    problems.invalid(value, `should be a multiple of ${text(multipleOf, whole)}`);
  }
  if (minimum !== undefined) {
    const bound = whole ? Math.trunc(minimum) : minimum;
    if (value < bound || (exclusiveMinimum === true && equal(value, bound))) {
      const relation = exclusiveMinimum === true ? 'greater than' : 'greater than or equal to';
      problems.invalid(value, `should be ${relation} ${text(minimum, whole)}`);
    }
  }
  if (maximum !== undefined) {
    const bound = whole ? Math.trunc(maximum) : maximum;
    if (value > bound || (exclusiveMaximum === true && equal(value, bound))) {
      const relation = exclusiveMaximum === true ? 'less than' : 'less than or equal to';
      problems.invalid(value, `should be ${relation} ${text(maximum, whole)}`);
    }
  }
}

function equal(value: number | bigint, bound: number): boolean {
  return typeof value === 'bigint' ? Number.isInteger(bound) && value === BigInt(bound) : value === bound;
}

/** A bound for messages: if the value is an integer, the bound is printed as an int64, so without an exponent. */
function text(bound: number, whole: boolean): string {
  return whole && Math.abs(bound) < 2 ** 63 ? BigInt(Math.trunc(bound)).toString() : goNumber(bound);
}

function isMultiple(value: number | bigint, factor: number, whole: boolean): boolean {
  const divisor = Math.trunc(factor);
  if (whole && divisor !== 0) return BigInt(value) % BigInt(divisor) === 0n;
  const times = Math.abs(factor) < 1 ? (1 / factor) * Number(value) : Number(value) / factor;
  // Tolerates rounding errors of float64: 0.3 is a multiple of 0.1.
  return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

const integerRanges: ReadonlyMap<string, readonly [bigint, bigint]> = new Map([
  ['int32', [-(2n ** 31n), 2n ** 31n - 1n]],
  ['int64', [-(2n ** 63n), 2n ** 63n - 1n]],
  ['uint32', [0n, 2n ** 32n - 1n]],
  ['uint64', [0n, 2n ** 64n - 1n]],
]);

const maxFloat32 = 3.4028234663852886e38;

function checkFormat(value: number | bigint, format: string, problems: NumberProblems): void {
  const range = integerRanges.get(format);
  if (range !== undefined) {
    const whole = typeof value === 'bigint' || Number.isInteger(value);
    if (!whole || BigInt(value) < range[0] || BigInt(value) > range[1]) {
      problems.invalid(value, `must be of type integer with format ${format}`);
    }
  } else if ((format === 'float' || format === 'float32') && Math.abs(Number(value)) > maxFloat32) {
    problems.invalid(value, `must be of type number with format ${format}`);
  }
}
