/**
 * A file whose accesses raise alerts, and the contents of these alerts. It is made from a file that this node has
 * found or from a KiveData: both contain the same facts, so a file that was found here is watched without waiting for its KiveData.
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
  /** Set for a directory: the files in it raise alerts, not the directory itself; see FoundFile. */
  readonly directory?: DirectoryFiles;
  /** See `ourAnnotations.movedFiles`. */
  readonly moved: readonly FileIdentity[];
  readonly context: AlertContext;
  /** See `callbackSecretOf`. */
  readonly callbackSecret: string | undefined;
  /** See accessFilter; default: all. */
  readonly filter?: number;
  /** Which processes raise alerts. Default: all. */
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
 * The file of a KiveData; undefined if the KiveData is being deleted, names no file, or is for a directory, whose files only the agent that
 * follows the directory knows.
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
