/** Maps alerts to OCSF's File System Activity. */
import {
  fileAttributes,
  integerAt,
  type OcsfEvent,
  type OcsfMapping,
  processAttributes,
  textAt,
  valueAt,
} from '../../../guard/stream/ocsf.ts';
import type { AccessWord } from '../../../lib/sensor/access.ts';

/** The first of these words that an alert contains decides: a descriptor for writing may also allow reading. */
const activities: readonly (readonly [AccessWord, OcsfEvent['activity']])[] = [
  ['delete', [4, 'Delete']],
  ['replace', [4, 'Delete']],
  ['rename', [5, 'Rename']],
  ['attributes', [6, 'Set Attributes']],
  ['write', [3, 'Update']],
  ['append', [3, 'Update']],
  ['execute', [99, 'Execute']],
  ['read', [2, 'Read']],
  ['open', [14, 'Open']],
  ['check', [8, 'Get Attributes']],
];

export const alertOcsf: OcsfMapping = ({ head, keys }) => {
  const path = textAt(keys, 'metadata', 'file') ?? textAt(keys, 'metadata', 'path');
  const access = valueAt(keys, 'metadata', 'access');
  if (path === undefined || !Array.isArray(access)) return undefined;
  const [, activity] = activities.find(([word]) => access.includes(word)) ?? [
    undefined,
    [0, 'Unknown'] as const,
  ];
  const { verdict } = head;
  return {
    class: 'fileActivity',
    activity,
    ...((verdict === 'allowed' || verdict === 'denied') && { action: verdict }),
    attributes: {
      ...processAttributes({
        pid: integerAt(keys, 'process', 'tgid'),
        binary: textAt(keys, 'process', 'binary'),
        arguments: textAt(keys, 'process', 'arguments'),
        cwd: textAt(keys, 'process', 'cwd'),
        uid: integerAt(keys, 'process', 'uid'),
        parentPid: integerAt(keys, 'process', 'ppid'),
        container: {
          id: textAt(keys, 'accessor', 'container', 'id'),
          name: textAt(keys, 'accessor', 'container', 'name'),
        },
      }),
      'rampart.actor.relation': textAt(keys, 'accessor', 'relation'),
      'rampart.actor.unit': textAt(keys, 'accessor', 'unit'),
      'rampart.actor.mounts': textAt(keys, 'accessor', 'mounts'),
      'rampart.actor.pod.namespace': textAt(keys, 'accessor', 'pod', 'namespace'),
      'rampart.actor.pod.name': textAt(keys, 'accessor', 'pod', 'name'),
      ...fileAttributes(path),
      access_mask: integerAt(keys, 'metadata', 'mask'),
      'rampart.object.container.id': textAt(keys, 'pod', 'container', 'id'),
      'rampart.object.container.name': textAt(keys, 'pod', 'container', 'name'),
    },
  };
};
