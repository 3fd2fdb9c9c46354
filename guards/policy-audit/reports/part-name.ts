/**
 * The names of reports about a whole namespace: those that Kubewarden's audit scanner used before it wrote a
 * report for each object. Entries that do not fit into the first report go into further ones, `-2` and so on.
 * Pure.
 */

/** @param namespace - '' for cluster-scoped objects. @param number - From 1. */
export function partName(namespace: string, number: number): string {
  const first = namespace === '' ? 'polr-clusterwide' : `polr-ns-${namespace}`;
  return number === 1 ? first : `${first}-${number}`;
}

/** The number of a part, from its key `namespace/name`; 0 for other reports. */
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
