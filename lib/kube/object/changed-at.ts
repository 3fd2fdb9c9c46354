/** When an object was last changed, apart from its status. */
import type { KubeObject } from './object.ts';

/**
 * Undefined if unknown: the API server notes the times of writes in `managedFields`, and an object that was
 * never changed has the time of its creation.
 */
export function changedAtMs({ metadata }: Pick<KubeObject, 'metadata'>): number | undefined {
  const { managedFields = [], generation = 1, creationTimestamp } = metadata;
  const times = managedFields
    .filter(({ subresource = '' }) => subresource === '')
    .map(({ time }) => Date.parse(String(time ?? '')));
  const known = [...times, ...(generation > 1 ? [] : [Date.parse(String(creationTimestamp ?? ''))])].filter(
    (ms) => !Number.isNaN(ms),
  );
  return known.length === 0 ? undefined : Math.max(...known);
}
