/**
 * Reads option values with their types, for the `parse` function of a guard. A name is the camel-case form that commander derives from the
 * flag. A value of another type is a fault of the program: commander has already refused invalid input.
 */
import type { OptionValues } from './guard.ts';

/**
 * For an option with a default.
 *
 * @throws {TypeError}
 */
export function text(values: OptionValues, name: string): string {
  return optionalText(values, name) ?? wrong(values, name, 'a text');
}

/** @throws {TypeError} */
export function optionalText(values: OptionValues, name: string): string | undefined {
  const value = values[name];
  return value === undefined || typeof value === 'string' ? value : wrong(values, name, 'a text');
}

/**
 * For an option that may be given several times.
 *
 * @throws {TypeError}
 * @example
 * parse: (values) => ({ doors: texts(values, 'door') }), // --door <path>, repeatable: true
 */
export function texts(values: OptionValues, name: string): readonly string[] {
  const value = values[name];
  const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
  return isList ? value : wrong(values, name, 'a list of texts');
}

/**
 * For an option with a default.
 *
 * @throws {TypeError}
 * @example
 * parse: (values) => ({ intervalS: number(values, 'doorInterval') }), // --door-interval <s>
 */
export function number(values: OptionValues, name: string): number {
  return optionalNumber(values, name) ?? wrong(values, name, 'a number');
}

/** @throws {TypeError} */
export function optionalNumber(values: OptionValues, name: string): number | undefined {
  const value = values[name];
  return value === undefined || typeof value === 'number' ? value : wrong(values, name, 'a number');
}

/**
 * For an option with `choices` and a default.
 *
 * @throws {TypeError}
 * @example
 * parse: (values) => ({ mode: choice(values, 'doorMode', ['watch', 'lock']) }), // --door-mode <mode>
 */
export function choice<T extends string>(values: OptionValues, name: string, choices: readonly T[]): T {
  return choices.find((one) => one === values[name]) ?? wrong(values, name, `one of ${choices.join(', ')}`);
}

/** Whether a flag without a value was given. */
export function isGiven(values: OptionValues, name: string): boolean {
  return values[name] === true;
}

function wrong(values: OptionValues, name: string, wanted: string): never {
  throw new TypeError(`option ${name} is ${JSON.stringify(values[name])}, not ${wanted}`);
}
