/** Maps findings to OCSF's File System Activity, with the process that made the change, if known. */
import {
  fileAttributes,
  integerAt,
  type OcsfEvent,
  type OcsfMapping,
  processAttributes,
  textAt,
  valueAt,
} from '../../../guard/stream/ocsf.ts';

const activities: Readonly<Record<string, OcsfEvent['activity']>> = {
  added: [1, 'Create'],
  changed: [3, 'Update'],
  removed: [4, 'Delete'],
  // OCSF has no activity for these: a file that is as in the baseline again, or that was accepted into the baseline.
  restored: [99, 'Restored'],
  accepted: [99, 'Accepted'],
};

export const findingOcsf: OcsfMapping = ({ head, keys }) => {
  const path = textAt(keys, 'path');
  const activity = activities[head.verdict];
  if (path === undefined || activity === undefined) return undefined;
  const [author, last] = [keys['author'], valueAt(keys, 'last', 'author')];
  return {
    class: 'fileActivity',
    activity,
    action: 'observed',
    attributes: {
      ...processAttributes({
        pid: integerAt(author, 'pid'),
        binary: textAt(author, 'binary'),
        arguments: textAt(author, 'arguments'),
        cwd: textAt(author, 'cwd'),
        uid: integerAt(author, 'uid'),
        parentPid: integerAt(author, 'ppid'),
        parentBinary: textAt(author, 'parentBinary'),
        container: { id: textAt(author, 'container', 'id'), name: textAt(author, 'container', 'name') },
      }),
      'rampart.actor.relation': textAt(author, 'relation'),
      'rampart.actor.unit': textAt(author, 'unit'),
      'rampart.actor.mounts': textAt(author, 'mounts'),
      'rampart.actor.pod.namespace': textAt(author, 'pod', 'namespace'),
      'rampart.actor.pod.name': textAt(author, 'pod', 'name'),
      'rampart.last.process.pid': integerAt(last, 'pid'),
      'rampart.last.process.path': textAt(last, 'binary'),
      ...fileAttributes(path),
    },
  };
};
