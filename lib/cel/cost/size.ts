/** How large a value can become, and what it costs to read it (cel-go `checker/cost.go`). */

/** The least and the most characters of a string, bytes, items of a list or entries of a map. */
export interface Size {
  readonly min: number;
  readonly max: number;
}

/**
 * The size of an unbounded value. Costs are capped here, as Kubernetes caps them at the limit of 64 bits.
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

/** Cost of reading a value from end to end, `passes` times. */
export const traversal = (size: Size, passes = 1): number => perPart(size.max, passes * perCharacter);

/** Cost of a search with a regular expression, which is not 0 even for an empty text. */
export const search = (text: Size, pattern: Size): number =>
  product(traversal(join(text, exactly(1))), perPart(pattern.max, perPatternCharacter));
