import type { Attach } from '../desired.ts';

/** A key of where a program is attached individually: if the key changes, it has to be attached again. */
export function attachKeyOf(attach: Attach): string {
  return JSON.stringify(attach, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
}
