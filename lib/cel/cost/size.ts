/** How large a value can become, and how much it costs to read one (cel-go `checker/cost.go`). */

/** Characters of a string, bytes, items of a list, entries of a map. */
export interface Size {
  readonly min: number;
  readonly max: number;
}

/**
 * The size of an unbounded value. Costs stop growing here, as those of Kubernetes do at the end of 64 bits.
 */
export const unbounded = 2 ** 64;

export const unknown: Size = { min: 0, max: unbounded };
export const exactly = (size: number): Size => ({ min: size, max: size });

export const sum = (...costs: readonly number[]): number =>
  Math.min(
    unbounded,
    costs.reduce((total, cost) => total + cost, 0),
  );
export const product = (a: number, b: number): number => Math.min(unbounded, a * b);

export const join = (a: Size, b: Size): Size => ({ min: sum(a.min, b.min), max: sum(a.max, b.max) });
export const times = (a: Size, b: Size): Size => ({ min: product(a.min, b.min), max: product(a.max, b.max) });
export const either = (a: Size, b: Size): Size => ({
  min: Math.min(a.min, b.min),
  max: Math.max(a.max, b.max),
});

/** The cost of work on each part of a value. */
export const perPart = (size: number, factor: number): number =>
  Math.min(unbounded, Math.ceil(size * factor));

const perCharacter = 0.1;
const perPatternCharacter = 0.25;

/** Reading a value from end to end, `passes` times. */
export const traversal = (size: Size, passes = 1): number => perPart(size.max, passes * perCharacter);

/** Searching with a regular expression, which is a cost even for an empty text. */
export const search = (text: Size, pattern: Size): number =>
  product(traversal(join(text, exactly(1))), perPart(pattern.max, perPatternCharacter));
