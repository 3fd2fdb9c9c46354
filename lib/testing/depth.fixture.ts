/**
 * How deep the tests go: one factor for all that a test does many times, one seed for all that it leaves to chance, and
 * tests that only repeat for depth.
 *
 *     npm test                                   a tenth, each real part once: while one waits
 *     npm run test:deep                          half, and what only repeats for depth: before a release
 *     RAMPART_TEST_DEPTH=1 npm test -- FILE      all that the test says; 5: more than that
 *     RAMPART_TEST_SEED=123 npm test -- FILE     what chance chose in the run that said 123
 *
 * The numbers in the tests are those of depth 1.
 */

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

/** Few enough to be quick, and enough to mean something. */
const MIN = 10;

/** 1 is all that the tests say; 0.5 is that of `npm run test:deep`. */
export const depth = fromEnvironment('RAMPART_TEST_DEPTH', 0.1);
if (depth <= 0) throw new RangeError(`RAMPART_TEST_DEPTH must be greater than 0, not ${depth}`);

/** Whether what only repeats for depth is done: {@link deepTest}, {@link deepSuite}, and files named `*.deep.test.ts`. */
export const isDeep: boolean = depth >= 0.5;

/** Whether this is a kernel that the tests have booted: test/kernel. */
export const inGuest: boolean = process.env['RAMPART_KERNEL'] !== undefined;

/** Emulated, everything takes some ten to fifty times as long, and what is done many times shows no more than on the machine itself. */
const GUEST_SHARE = inGuest ? 0.1 : 1;

const absent = (): Promise<void> => Promise.resolve();

/** A test of `npm run test:deep` alone. Its file or its room has a short case of the same in `npm test`. */
export const deepTest: typeof test = isDeep ? test : (absent as unknown as typeof test);

/** A suite of `npm run test:deep` alone, as {@link deepTest}. */
export const deepSuite: typeof suite = isDeep ? suite : (absent as unknown as typeof suite);

/**
 * Says that random cases came often enough to what a test is about. That is a fact about chance: only the many tries of
 * `npm run test:deep` make it certain, so below its depth it asserts nothing.
 */
export function assertReached(isReached: boolean, message: string): void {
  if (isDeep) assert.ok(isReached, message);
}

/** It belongs into the names of tests which use it: with it in RAMPART_TEST_SEED they do the same again. */
export const seed = fromEnvironment('RAMPART_TEST_SEED', Math.floor(Math.random() * 2 ** 31));

/** For a process whose environment is not this one's. */
export const depthEnvironment: Readonly<Record<string, string>> = {
  RAMPART_TEST_DEPTH: String(depth),
  RAMPART_TEST_SEED: String(seed),
};

/**
 * How often to do at this depth what is done `full` times at depth 1; also how long, for a time. {@link inGuest}, a tenth of that.
 *
 * @param min - However small the depth is. By default ten, or `full` where that is less.
 */
export function scaled(full: number, min = Math.min(full, MIN)): number {
  return Math.max(min, Math.round(full * depth * GUEST_SHARE));
}

/**
 * Those to try at this depth, in their order: all from depth 1 on; below, others with each seed.
 *
 * @param from - Makes it others than the next test of the same has.
 */
export function sampled<T>(all: readonly T[], min?: number, from = seed): T[] {
  const random = new Random(from);
  const drawn = all.map((_, at) => ({ at, lot: random.next() })).toSorted((a, b) => a.lot - b.lot);
  const chosen = new Set(drawn.slice(0, scaled(all.length, min)).map(({ at }) => at));
  return all.filter((_, at) => chosen.has(at));
}

/**
 * Every second, at every depth: with one seed these and with the next the others. For what takes minutes.
 *
 * @param from - Makes it others than the next test of the same has.
 */
export function alternate<T>(all: readonly T[], from = seed): T[] {
  return all.filter((_, at) => (from + at) % 2 === 0);
}

/** Random choices that a seed repeats (mulberry32). */
export class Random {
  #state: number;

  constructor(from: number) {
    this.#state = from | 0;
  }

  /** From 0 up to, but not, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw new Error('nothing to pick from');
    return list[this.below(list.length)] as T;
  }
}

function fromEnvironment(name: string, otherwise: number): number {
  const text = process.env[name] ?? '';
  const value = text === '' ? otherwise : Number(text);
  if (!Number.isFinite(value)) throw new RangeError(`${name} must be a number, not ${text}`);
  return value;
}
