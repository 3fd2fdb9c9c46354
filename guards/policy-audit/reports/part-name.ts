/**
 * The names of reports of a whole namespace: those of Kubewarden's audit scanner before it wrote one for each
 * object. Entries that do not fit into the first go into others, `-2` and so on. Pure.
 */

/** @param namespace '' for cluster-scoped objects. @param number from 1. */
export function partName(namespace: string, number: number): string {
  const first = namespace === '' ? 'polr-clusterwide' : `polr-ns-${namespace}`;
  return number === 1 ? first : `${first}-${number}`;
}

/** The number of a part by its key, `namespace/name`; 0 for other reports. */
export function partNumber(key: string): number {
  const slash = key.indexOf('/');
  const [namespace, name] = slash < 0 ? ['', key] : [key.slice(0, slash), key.slice(slash + 1)];
  if (name === partName(namespace, 1)) return 1;
  const number = Number(/-([1-9]\d{0,5})$/.exec(name)?.[1] ?? 0);
  return number > 1 && name === partName(namespace, number) ? number : 0;
}

export function isPartName(key: string): boolean {
  return partNumber(key) > 0;
}
