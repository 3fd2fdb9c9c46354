import { type ParentKind, parentKinds } from './api.ts';

/** @throws {TypeError} for a kind that is not in the table. */
export function parentKind(name: string): ParentKind {
  const found = parentKinds.find(({ kind }) => kind === name);
  if (found === undefined) throw new TypeError(`${name} is no kind of this guard`);
  return found;
}
