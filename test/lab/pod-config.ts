/** Pods as kubelet describes them to a runtime. */
import type { MessageInit } from '../../lib/cri/schema.ts';
import { images } from './image.ts';

export interface ContainerSpec {
  readonly name: string;
  /** Default: the image's, which is `nginx` of the lab's image, a web server that runs until it is stopped. */
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Default `images.nginx`. */
  readonly image?: string;
  readonly mounts?: readonly {
    readonly containerPath: string;
    readonly hostPath: string;
    readonly readonly?: boolean;
    /** Later mounts of the node below `hostPath` are visible too. */
    readonly hostToContainer?: boolean;
  }[];
  readonly privileged?: boolean;
  /** As the runtime takes it; default: the runtime's own, without a seccomp profile. */
  readonly security?: MessageInit<'LinuxContainerSecurityContext'>;
  readonly resources?: MessageInit<'LinuxContainerResources'>;
}

export interface PodSpec {
  readonly name: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** Default: a new one. */
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Default: one, named `nginx`. */
  readonly containers?: readonly ContainerSpec[];
  /** Run before the others, one after the other, each to its end. */
  readonly initContainers?: readonly ContainerSpec[];
  /** In the network of the lab, as a pod with `hostNetwork` is in its node's. */
  readonly hostNetwork?: boolean;
  /** Sees the machine's processes. */
  readonly hostPid?: boolean;
}

/** The complete configuration of a sandbox. */
export type SandboxConfig = MessageInit<'PodSandboxConfig'> & {
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace: string };
};

/** NamespaceMode of the interface. */
const [POD, CONTAINER, NODE] = [0, 1, 2];
/** MountPropagation of the interface. */
const [PRIVATE, HOST_TO_CONTAINER] = [0, 1];

/** Labels and annotations as in kubernetes/pkg/kubelet/kuberuntime/labels.go: the pod's own and kubelet's. */
export function sandboxConfig(
  spec: PodSpec,
  uid: string,
  logDirectory: string,
  labName: string,
): SandboxConfig {
  const { name, namespace = 'default' } = spec;
  return {
    metadata: { name, uid, namespace },
    // A pod in the host's network has the host's name.
    hostname: spec.hostNetwork === true ? '' : name,
    logDirectory: `${logDirectory}/${namespace}_${name}_${uid}`,
    // Otherwise the machine's /etc/resolv.conf is copied, which may lead to /run, and that is the lab's own.
    dnsConfig: { servers: ['127.0.0.1'] },
    labels: {
      ...spec.labels,
      'io.kubernetes.pod.name': name,
      'io.kubernetes.pod.namespace': namespace,
      'io.kubernetes.pod.uid': uid,
    },
    annotations: {
      ...spec.annotations,
      'kubernetes.io/config.seen': new Date().toISOString(),
      'kubernetes.io/config.source': 'api',
    },
    linux: {
      // With kubelet's cgroupfs driver, below the lab's own.
      cgroupParent: `/${labName}/kubepods/besteffort/pod${uid}`,
      securityContext: { namespaceOptions: namespaces(spec), privileged: isPrivileged(spec) },
    },
  };
}

export function containerConfig(
  pod: PodSpec,
  { metadata: { name, namespace, uid } }: SandboxConfig,
  spec: ContainerSpec,
  attempt: number,
): MessageInit<'ContainerConfig'> {
  return {
    metadata: { name: spec.name, attempt },
    image: { image: spec.image ?? images.nginx },
    command: spec.command ?? [],
    args: spec.args ?? [],
    envs: Object.entries(spec.env ?? {}).map(([key, value]) => ({ key, value })),
    mounts: (spec.mounts ?? []).map(({ hostToContainer = false, ...mount }) => ({
      ...mount,
      propagation: hostToContainer ? HOST_TO_CONTAINER : PRIVATE,
    })),
    labels: {
      'io.kubernetes.container.name': spec.name,
      'io.kubernetes.pod.name': name,
      'io.kubernetes.pod.namespace': namespace,
      'io.kubernetes.pod.uid': uid,
    },
    annotations: {
      'io.kubernetes.container.hash': '0',
      'io.kubernetes.container.restartCount': String(attempt),
      'io.kubernetes.container.terminationMessagePath': '/dev/termination-log',
      'io.kubernetes.container.terminationMessagePolicy': 'File',
      'io.kubernetes.pod.terminationGracePeriod': '30',
    },
    logPath: `${spec.name}_${attempt}.log`,
    linux: {
      ...(spec.resources && { resources: spec.resources }),
      securityContext: {
        ...spec.security,
        privileged: spec.privileged === true,
        namespaceOptions: namespaces(pod),
      },
    },
  };
}

/** A sandbox takes privileged containers only when it is privileged itself. */
function isPrivileged({ containers = [], initContainers = [] }: PodSpec): boolean {
  return [...containers, ...initContainers].some(({ privileged = false }) => privileged);
}

function namespaces({ hostNetwork = false, hostPid = false }: PodSpec): MessageInit<'NamespaceOption'> {
  // Each container has its own pids, as without `shareProcessNamespace`.
  return { network: hostNetwork ? NODE : POD, pid: hostPid ? NODE : CONTAINER, ipc: POD };
}
