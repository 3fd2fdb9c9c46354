/** Where an access came from, as shown in alerts. */
import { visibleJson } from '../../../lib/output/printable.ts';
import type { ProcessPlace } from '../../../lib/cri/container-index.ts';
import type { AlertAccessor } from '../alert/alert.ts';
import { hostId } from '../kive-data.ts';

/** The JSON of the accessor: `asOwner` if the file is its own container's, otherwise `asOther`. */
export interface AccessorJson {
  /** Empty if it is in no known container. */
  readonly id: string;
  /** Whether it is in a container that no runtime has reported. */
  readonly isUnknown: boolean;
  readonly place: ProcessPlace;
  readonly asOwner: string;
  readonly asOther: string;
}

const json = (accessor: AlertAccessor): string => visibleJson(JSON.stringify(accessor));
const noPod = { name: '', namespace: '' };

/** The JSON for a place in the index of containers, see {@link accessorJson}. */
export function accessorOf(place: ProcessPlace): AccessorJson {
  if (place.relation === 'container') {
    const { id, name, podName, podNamespace } = place;
    const who = { pod: { name: podName, namespace: podNamespace }, container: { id, name } };
    return {
      ...{ id, isUnknown: false, place },
      asOwner: json({ relation: 'owner', ...who }),
      asOther: json({ relation: 'container', ...who }),
    };
  }
  const { relation } = place;
  const id = place.relation === 'unknown' ? (place.id ?? '') : '';
  const where =
    place.relation === 'host'
      ? {
          ...(place.unit !== undefined && { unit: place.unit }),
          ...(place.hasOwnMounts && { mounts: 'own' as const }),
        }
      : {};
  const asOther = json({ relation, pod: noPod, container: { id, name: '' }, ...where });
  return { id: '', isUnknown: relation === 'unknown', place, asOwner: asOther, asOther };
}

/** The JSON of the {@link AlertAccessor} for an access to a file of the container `ownerId`. */
export function accessorJson({ id, asOwner, asOther }: AccessorJson, ownerId: string): string {
  return id === ownerId ? asOwner : asOther;
}

/** Whether a process at `place` is in the container `ownerId` or, for {@link hostId}, in no container. */
export function isAt(place: ProcessPlace, ownerId: string): boolean {
  switch (place.relation) {
    case 'container':
      return place.id === ownerId;
    case 'host':
      return ownerId === hostId;
    case 'unknown':
      // A container of another node on the same kernel: only its id is known, from the cgroup, without the runtime's
      // prefix.
      return place.id !== undefined && ownerId.endsWith(`/${place.id}`);
  }
}
