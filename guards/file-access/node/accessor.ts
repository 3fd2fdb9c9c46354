/** The container that an access came from, as shown in alerts. */
import { visibleJson } from '../../../lib/output/printable.ts';
import type { ContainerIndex, IndexedContainer } from '../../../lib/cri/container-index.ts';
import type { Access } from '../../../lib/sensor/access.ts';
import type { AlertAccessor } from '../alert/alert.ts';

/** The JSON of the accessor, when the file is the container's own and when it is not. */
export interface AccessorJson {
  readonly id: string;
  readonly asOwner: string;
  readonly asOther: string;
}

const nobody = { pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
const json = (accessor: AlertAccessor): string => visibleJson(JSON.stringify(accessor));
const none = {
  host: json({ relation: 'host', ...nobody }),
  unknown: json({ relation: 'unknown', ...nobody }),
} as const;

/** What an index of containers keeps of each for {@link accessorJson}. */
export function accessorOf({ id, name, podName, podNamespace }: IndexedContainer): AccessorJson {
  const who = { pod: { name: podName, namespace: podNamespace }, container: { id, name } };
  return {
    id,
    asOwner: json({ relation: 'owner', ...who }),
    asOther: json({ relation: 'container', ...who }),
  };
}

/** The JSON of the {@link AlertAccessor} for an access to a file of the container `ownerId`. */
export function accessorJson(
  index: ContainerIndex<AccessorJson>,
  access: Pick<Access, 'mountNamespace' | 'cgroupId'>,
  ownerId: string,
): string {
  const found = index.find(access);
  if (typeof found === 'string') return none[found];
  return found.id === ownerId ? found.asOwner : found.asOther;
}
