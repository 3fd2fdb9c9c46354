/**
 * Both API groups may have a FileIntegrity with the same name in a namespace. Their ConfigMaps and results would be the
 * same objects, so only one of them is in effect. Agents and the operator determine it independently, in the same way.
 */
import type { KubeObject } from '../../../lib/kube/object/object.ts';

/** The oldest of the objects; those that are being deleted are ignored. */
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
