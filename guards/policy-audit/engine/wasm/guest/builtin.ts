/** A builtin of Rego. */

/** `undefined` for an error: the calling expression is then undefined. */
export type Builtin = (args: readonly unknown[], say: (text: string) => void) => unknown;
