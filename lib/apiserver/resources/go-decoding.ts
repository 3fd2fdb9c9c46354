/** The messages of Go's decoder for values of the wrong type (sigs.k8s.io/json). */

/** The error for a value of the wrong type. The message is for the client. */
export class GoTypeError extends TypeError {
  override readonly name: string = 'GoTypeError';
}

/** Go's name for the type of a JSON value. */
export function goName(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'number';
  if (typeof value === 'boolean') return 'bool';
  return value === null ? 'null' : typeof value;
}
