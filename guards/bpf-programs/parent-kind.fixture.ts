import { type Api, type ParentKind, parentKinds } from './api.ts';

/** @param api - Default: BpfApplication is that of v0.5.5. @throws {TypeError} for a kind that is not in the table. */
export function parentKind(name: string, api?: Api): ParentKind {
  const found = parentKinds.find((one) => one.kind === name && one.api === (api ?? one.api));
  if (found === undefined) throw new TypeError(`${name} is no kind of this guard`);
  return found;
}
