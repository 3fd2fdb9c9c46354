/** Writes and reads KiveData: each names one file of one container or of the node itself, and what its alerts contain. */
import { labelValue } from '../../lib/kube/selectors/label-names.ts';
import {
  accessFilter,
  accessWords,
  everyAccess,
  type FileIdentity,
  fileKey,
  wordsOfFilter,
} from '../../lib/sensor/access.ts';
import type { AlertContext } from './alert/alert.ts';
import { type KiveData, kiveDataNamespace } from './api.ts';
import { alertVersionOf, type CompiledTrap, type PodView } from './policy/matching.ts';
import type { DirectoryFiles } from '../../lib/sensor/paths/directory-state.ts';
import { MAX_MOVED_FILES } from './node/moved-files.ts';
import { annotationOf, fileNumbersOf, kernelOf, oldFinalizer } from './policy/spellings.ts';
import type { PolicyScope } from './policy/policy-scope.ts';
import { MAX_PROGRAMS, type ProcessFilter, type ProcessFilterKind } from './process-filter.ts';
import { kiveDataName } from './policy/trap-id.ts';

export const kivePolicyFinalizer = 'kivepolicy.kivebpf.san7o.github.io/finalizer';
export const kiveDataFinalizer = 'kivedata.kivebpf.san7o.github.io/finalizer';
/** Finalizers to remove when a policy is deleted, including those that only old objects have. */
export const policyHolds = [kivePolicyFinalizer, oldFinalizer] as const;
export const dataHolds = [kiveDataFinalizer, oldFinalizer] as const;
export const trapIdLabel = 'trap-id';
/** Named as in Kive v1.0.0-pre2: an agent requests only the objects of its kernel by it. */
export const kernelLabel = 'kernel-id';
/** The node whose agent found the file, in the form of a label. */
export const nodeLabel = 'kivebpf.san7o.github.io/node';

/** Annotations that Rampart adds to those of Kive. */
export const ourAnnotations = {
  /**
   * `inode:device:generation`, decimal. A JSON number is rounded above 2^53, where overlay's inode numbers
   * may be; the generation distinguishes a recycled number.
   */
  file: 'kivebpf.san7o.github.io/file',
  /**
   * Files that the path named earlier and that are still watched: each in the form of `file`, the latest first,
   * separated by commas; absent without such files. The file of the spec is one of them if the path has no file now.
   */
  movedFiles: 'kivebpf.san7o.github.io/moved-files',
  /** `namespace/name` of the Secret for the callback; absent without one. */
  callbackSecret: 'kivebpf.san7o.github.io/callback-secret',
  /** The operations that raise alerts, separated by commas; absent if all do. */
  operations: 'kivebpf.san7o.github.io/operations',
  /**
   * `except` or `only`, a space, and the files of the programs, each in the form of `file`, separated by commas; absent
   * if all programs raise alerts.
   */
  processes: 'kivebpf.san7o.github.io/processes',
  policyNamespace: 'kivebpf.san7o.github.io/policy-namespace',
  podUid: 'kivebpf.san7o.github.io/pod-uid',
  /** `true`: the file is one of the node itself, and there is no pod; otherwise absent. */
  host: 'kivebpf.san7o.github.io/host',
} as const;

/** A container of this node, as the runtime and the pod describe it; or the node itself. */
export interface NodeContainer {
  /** Prefixed with the runtime: `containerd://da9e46...`; {@link hostId} for the node itself. */
  readonly id: string;
  readonly name: string;
  readonly pod: PodView;
}

/** The container id of the node itself: its KiveData names no container either. */
export const hostId = '';
export const nodeItself: NodeContainer = { id: hostId, name: '', pod: { metadata: {} } };

/** Where a file is, for messages: `namespace/pod/container`; empty for the node itself. */
export function placeText({ id, name, pod: { metadata } }: NodeContainer): string {
  return id === hostId ? '' : `${metadata.namespace ?? ''}/${metadata.name ?? ''}/${name}`;
}

/** A file that was found for a trap in a container, or on the node itself. */
export interface FoundFile {
  readonly trap: CompiledTrap;
  readonly container: NodeContainer;
  readonly identity: FileIdentity;
  /** Set if the trap selects the files of a directory; `identity` is then that of the directory. */
  readonly directory?: DirectoryFiles;
  /** See `ourAnnotations.movedFiles`. */
  readonly moved?: readonly FileIdentity[];
  /** Default: all processes raise alerts. */
  readonly processes?: ProcessFilter | undefined;
  /** Name of its KiveData, see {@link nameFor}. */
  readonly name: string;
}

/** The node and kernel on which it was found. */
export interface FoundOn {
  /** `/proc/sys/kernel/random/boot_id`. */
  readonly kernelId: string;
  readonly nodeName: string;
}

export function nameFor(
  { policyNamespace, policyName, slot }: CompiledTrap,
  { id, pod }: NodeContainer,
  nodeName: string,
): string {
  const { name = '', namespace = '' } = pod.metadata;
  // A container id is unique everywhere; the node itself is identified by its name.
  const place =
    id === hostId
      ? { containerId: `node://${nodeName}`, podName: nodeName, podNamespace: '' }
      : { containerId: id, podName: name, podNamespace: namespace };
  return kiveDataName({ policyNamespace, policyName, slot, ...place });
}

/** The KiveData for a found file, ready to store. */
export function kiveDataOf(
  { trap, container, identity, moved = [], processes, name }: FoundFile,
  { kernelId, nodeName }: FoundOn,
): KiveData {
  const { metadata: pod, status } = container.pod;
  return {
    apiVersion: 'kivebpf.san7o.github.io/v1',
    kind: 'KiveData',
    metadata: {
      name,
      namespace: kiveDataNamespace,
      labels: { [trapIdLabel]: trap.id, [kernelLabel]: kernelId, [nodeLabel]: labelValue(nodeName) },
      annotations: {
        'kive-alert-version': trap.alertVersion,
        'kive-policy-name': trap.policyName,
        callback: trap.callback,
        'pod-name': pod.name ?? '',
        namespace: pod.namespace ?? '',
        'pod-ip': status?.podIP ?? '',
        path: trap.path,
        'container-id': container.id,
        'container-name': container.name,
        'node-name': nodeName,
        [ourAnnotations.file]: fileKey(identity),
        ...(moved.length > 0 && { [ourAnnotations.movedFiles]: moved.map(fileKey).join() }),
        [ourAnnotations.policyNamespace]: trap.policyNamespace,
        [ourAnnotations.podUid]: pod.uid ?? '',
        ...(container.id === hostId && { [ourAnnotations.host]: 'true' }),
        ...(trap.filter !== everyAccess && {
          [ourAnnotations.operations]: wordsOfFilter(trap.filter).join(),
        }),
        ...(processes && {
          [ourAnnotations.processes]: `${processes.kind} ${processes.files.map(fileKey).join()}`,
        }),
        ...(trap.callbackSecret !== '' && { [ourAnnotations.callbackSecret]: trap.callbackSecret }),
      },
      finalizers: [kiveDataFinalizer],
    },
    spec: {
      inodeNo: Number(identity.inode),
      devId: identity.device,
      kernelId,
      metadata: trap.metadata,
    },
  };
}

/** The form of {@link fileKey}. */
const fileTexts = /^(\d{1,20}):(\d{1,10}):(\d{1,10})$/;

/** The node whose agent found the file; empty if the object does not name it. */
export function nodeOf(data: KiveData): string {
  return annotationOf(data, 'node-name');
}

/** Whether the file is one of the node itself. */
export function isOfHost(data: KiveData): boolean {
  return annotationOf(data, ourAnnotations.host) === 'true';
}

/** Whether policies of its namespace may match its pod or node. */
export function isInScope(data: KiveData, scope: Pick<PolicyScope, 'allows' | 'allowsHost'>): boolean {
  const own = policyNamespaceOf(data);
  return isOfHost(data) ? scope.allowsHost(own) : scope.allows(own, podOf(data).namespace);
}

/** The namespace of the policy that it was written for; empty for objects that Rampart did not write. */
export function policyNamespaceOf(data: KiveData): string {
  return annotationOf(data, ourAnnotations.policyNamespace);
}

/** The pod of the file's container; `uid` is empty for objects that Rampart did not write. */
export function podOf(data: KiveData): {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
} {
  return {
    name: annotationOf(data, 'pod-name'),
    namespace: annotationOf(data, 'namespace'),
    uid: annotationOf(data, ourAnnotations.podUid),
  };
}

/** The file; undefined if the object does not name one. */
export function identityOf(data: KiveData): FileIdentity | undefined {
  const { inode, device } = fileNumbersOf(data);
  if (inode === undefined || device === undefined) return undefined;
  const [, exact, exactDevice, generation] = fileTexts.exec(annotationOf(data, ourAnnotations.file)) ?? [];
  // Users see and may edit the spec, so it decides: the annotation counts only if it agrees with it.
  if (exact !== undefined && Number(exact) === inode && Number(exactDevice) === device) {
    return { inode: BigInt(exact), device, generation: Number(generation) };
  }
  return { inode: BigInt(inode), device, generation: 0 };
}

/** The files of `ourAnnotations.movedFiles`, up to their limit. */
export function movedFilesOf({ metadata }: KiveData): FileIdentity[] {
  return filesOf(metadata.annotations?.[ourAnnotations.movedFiles] ?? '', MAX_MOVED_FILES);
}

function filesOf(text: string, max: number): FileIdentity[] {
  const files: FileIdentity[] = [];
  for (const one of text.split(',', max)) {
    const [, inode, device, generation] = fileTexts.exec(one) ?? [];
    if (inode === undefined) continue;
    files.push({ inode: BigInt(inode), device: Number(device), generation: Number(generation) });
  }
  return files;
}

/** Which processes raise alerts; undefined for all, also if the annotation is malformed. */
export function processesOf(data: KiveData): ProcessFilter | undefined {
  const [, kind, files = ''] =
    /^(except|only) (.*)$/.exec(annotationOf(data, ourAnnotations.processes)) ?? [];
  return kind === undefined
    ? undefined
    : { kind: kind as ProcessFilterKind, files: filesOf(files, MAX_PROGRAMS) };
}

/**
 * The Secret that its alerts are sent to the callback with, `namespace/name`; empty if it names no Secret. Undefined if
 * the Secret is in another namespace than the policy: its author may not use that Secret, and nothing is sent without it
 * either.
 */
export function callbackSecretOf(data: KiveData): string | undefined {
  const secret = annotationOf(data, ourAnnotations.callbackSecret);
  if (secret === '') return '';
  const namespace = policyNamespaceOf(data);
  return namespace !== '' && secret.startsWith(`${namespace}/`) ? secret : undefined;
}

/** Which accesses raise alerts, see accessFilter. */
export function filterOf(data: KiveData): number {
  const words = wordsOf(annotationOf(data, ourAnnotations.operations));
  return words.length === 0 ? everyAccess : accessFilter(words);
}

function wordsOf(text: string): readonly string[] {
  return accessWords.filter((word) => text.split(',').includes(word));
}

export function alertContextOf(data: KiveData): AlertContext {
  const text = (name: string): string => annotationOf(data, name);
  return {
    alertVersion: alertVersionOf(text('kive-alert-version')),
    policyName: text('kive-policy-name'),
    policyNamespace: policyNamespaceOf(data),
    kernelId: kernelOf(data),
    path: text('path'),
    callback: text('callback'),
    customMetadata: data.spec.metadata ?? {},
    pod: {
      name: text('pod-name'),
      namespace: text('namespace'),
      ip: text('pod-ip'),
      container: { id: text('container-id'), name: text('container-name') },
    },
    nodeName: text('node-name'),
  };
}
