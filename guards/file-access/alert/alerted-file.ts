/**
 * A file whose accesses are alerted, and the contents of its alerts. A KiveData has the same facts as its
 * source: so a file that this node found needs no KiveData to be watched.
 */
import type { FileIdentity } from '../../../lib/sensor/access.ts';
import type { AlertContext } from './alert.ts';
import type { KiveData } from '../api.ts';
import type { ProcessFilter } from '../process-filter.ts';
import type { DirectoryFiles } from '../../../lib/sensor/paths/directory-state.ts';
import { directoryOf } from '../directory-path.ts';
import {
  alertContextOf,
  callbackSecretOf,
  filterOf,
  type FoundFile,
  type FoundOn,
  identityOf,
  movedFilesOf,
  processesOf,
} from '../kive-data.ts';

export interface AlertedFile {
  readonly name: string;
  readonly identity: FileIdentity;
  /** Its files are alerted instead, see FoundFile. */
  readonly directory?: DirectoryFiles;
  /** See `ourAnnotations.movedFiles`. */
  readonly moved: readonly FileIdentity[];
  readonly context: AlertContext;
  /** See `callbackSecretOf`. */
  readonly callbackSecret: string | undefined;
  /** See accessFilter; default: all. */
  readonly filter?: number;
  /** Default: all raise alerts. */
  readonly processes?: ProcessFilter | undefined;
}

const none: readonly FileIdentity[] = [];

export function alertedOfFound(
  { trap, container, identity, directory, moved = none, processes, name }: FoundFile,
  { kernelId, nodeName }: FoundOn,
): AlertedFile {
  const { metadata: pod, status } = container.pod;
  return {
    name,
    identity,
    ...(directory && { directory }),
    moved,
    context: {
      alertVersion: trap.alertVersion,
      policyName: trap.policyName,
      policyNamespace: trap.policyNamespace,
      kernelId,
      path: trap.path,
      callback: trap.callback,
      customMetadata: trap.metadata,
      pod: {
        name: pod.name ?? '',
        namespace: pod.namespace ?? '',
        ip: status?.podIP ?? '',
        container: { id: container.id, name: container.name },
      },
      nodeName,
    },
    callbackSecret: trap.callbackSecret,
    filter: trap.filter,
    processes,
  };
}

/**
 * For a KiveData; undefined if it is being deleted or names no file, and for a directory: only the agent that
 * follows the directory knows its files.
 */
export function alertedOfData(data: KiveData): AlertedFile | undefined {
  const { name = '', deletionTimestamp } = data.metadata;
  const identity = deletionTimestamp === undefined ? identityOf(data) : undefined;
  const context = alertContextOf(data);
  if (directoryOf(context.path) !== undefined) return undefined;
  return (
    identity && {
      name,
      identity,
      moved: movedFilesOf(data),
      context,
      callbackSecret: callbackSecretOf(data),
      filter: filterOf(data),
      processes: processesOf(data),
    }
  );
}
