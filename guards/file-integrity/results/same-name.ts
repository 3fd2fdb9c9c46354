/**
 * Both API groups may have a FileIntegrity of one name in one namespace. Their ConfigMaps and results would be the same, so
 * only one of them counts. Agents and the operator decide it alike, each for itself.
 */
import type { KubeObject } from '../../../lib/kube/object/object.ts';

/** The older one. Those that are being deleted do not count. */
export function winnerOf<T extends KubeObject>(objects: readonly T[]): T | undefined {
  const ageOf = ({ metadata: { creationTimestamp = '', uid = '' } }: T): string =>
    `${creationTimestamp} ${uid}`;
  return objects
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .reduce<T | undefined>(
      (best, one) => (best === undefined || ageOf(one) < ageOf(best) ? one : best),
      undefined,
    );
}
