/**
 * fast-check, with its runs scaled by the depth of the tests and its chances from their seed. `numRuns` is
 * the number at depth 1; the given `examples` always run.
 */
import {
  type Arbitrary,
  assert as assertUnscaled,
  configureGlobal,
  type IAsyncProperty,
  integer,
  type IProperty,
  type Parameters,
  string as stringOf,
  type StringConstraints,
} from 'fast-check';

import { scaled, seed } from './depth.fixture.ts';

export * from 'fast-check';

/** As fast-check has it. */
const NUM_RUNS = 100;

configureGlobal({ seed });

interface Asserted<Ts> extends Parameters<Ts> {
  /** However small the depth is: where few of the runs come to what the property is about. */
  readonly min?: number;
}

export function assert<Ts>(property: IAsyncProperty<Ts>, parameters?: Asserted<Ts>): Promise<void>;
export function assert<Ts>(property: IProperty<Ts>, parameters?: Asserted<Ts>): void;
export function assert<Ts>(
  property: IAsyncProperty<Ts> | IProperty<Ts>,
  { min, ...parameters }: Asserted<Ts> = {},
): Promise<void> | void {
  const { numRuns = NUM_RUNS, examples = [] } = parameters;
  return assertUnscaled(property as IProperty<Ts>, {
    ...parameters,
    numRuns: scaled(numRuns, min) + examples.length,
  });
}

const SURROGATES = 0xd800;
const AFTER_SURROGATES = 0xe000;

/** Any character but a lone surrogate. That of fast-check makes a map of a million first, to find out whether it could shrink a text. */
export const anyCharacter: Arbitrary<string> = integer({
  min: 0,
  max: 0x10ffff - (AFTER_SURROGATES - SURROGATES),
}).map((code) => String.fromCodePoint(code < SURROGATES ? code : code + AFTER_SURROGATES - SURROGATES));

/** As fast-check's, with {@link anyCharacter} for `binary`. */
export function string({ unit, ...more }: StringConstraints = {}): Arbitrary<string> {
  return stringOf({ ...more, ...(unit !== undefined && { unit: unit === 'binary' ? anyCharacter : unit }) });
}
