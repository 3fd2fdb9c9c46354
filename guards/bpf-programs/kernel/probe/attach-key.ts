import type { Attach } from '../desired.ts';

/** Key of the place where a program is attached by itself: a different key requires attaching again. */
export function attachKeyOf(attach: Attach): string {
  return JSON.stringify(attach, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
}
