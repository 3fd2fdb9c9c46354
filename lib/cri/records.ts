import type { Message } from './schema.ts';

type PodState = 'ready' | 'notReady';
export type ContainerState = 'created' | 'running' | 'exited' | 'unknown';

/** A pod's sandbox. A pod may have had several: `attempt` counts them, and only the latest can be ready. */
export interface Pod {
  /** ID of the sandbox, not of the pod: 64 hexadecimal digits. */
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  /** `metadata.uid` of the Pod; for a static pod the hash in its `kubernetes.io/config.hash`. */
  readonly uid: string;
  readonly attempt: number;
  readonly state: PodState;
  /** Unix time. */
  readonly createdAtMs: number;
  /** The labels at the time when the sandbox was created; the runtime does not know later changes. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Empty for a pod in the host's network, and for one that is not ready. */
  readonly ips: readonly string[];
  /** Whether the pod is in the host's network. False for a pod that is not ready and was not queried before. */
  readonly hostNetwork: boolean;
}

/** Properties of a sandbox that lists omit. */
export type PodNetwork = Pick<Pod, 'ips' | 'hostNetwork'>;

export const noNetwork: PodNetwork = { ips: [], hostNetwork: false };

/**
 * A container of a pod, which may be an init or ephemeral container. The runtime does not know the kind (kubelet sets labels
 * only for the pod's name, namespace and UID and the container's name): look the name up in the Pod.
 */
export interface Container {
  readonly id: string;
  /** {@link Pod.id}. */
  readonly podId: string;
  readonly name: string;
  /** 0 for the first container of this name in its pod; each restart creates a new container with the next number. */
  readonly attempt: number;
  /** The image as in the Pod's spec or, with some runtimes, the digest to which it was resolved. */
  readonly image: string;
  readonly state: ContainerState;
  /** Unix time. */
  readonly createdAtMs: number;
  /** The labels set by kubelet, `io.kubernetes.*`, not those of the Pod. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Indexed by the CRI's numbers. */
const containerStates: readonly ContainerState[] = ['created', 'running', 'exited', 'unknown'];

export function containerState(number: number): ContainerState {
  return containerStates[number] ?? 'unknown';
}

export function podFrom(sandbox: Message<'PodSandbox'>, network: PodNetwork): Pod {
  const { metadata } = sandbox;
  return {
    id: sandbox.id,
    name: metadata?.name ?? '',
    namespace: metadata?.namespace ?? '',
    uid: metadata?.uid ?? '',
    attempt: metadata?.attempt ?? 0,
    state: sandbox.state === 0 ? 'ready' : 'notReady',
    createdAtMs: milliseconds(sandbox.createdAt),
    labels: sandbox.labels,
    annotations: sandbox.annotations,
    ...network,
  };
}

export function containerFrom(container: Message<'Container'>): Container {
  return {
    id: container.id,
    podId: container.podSandboxId,
    name: container.metadata?.name ?? '',
    attempt: container.metadata?.attempt ?? 0,
    image: container.image?.image || container.imageRef,
    state: containerState(container.state),
    createdAtMs: milliseconds(container.createdAt),
    labels: container.labels,
    annotations: container.annotations,
  };
}

/** The addresses of a sandbox, beginning with that in `status.podIP`. */
function ipsOf(status: Message<'PodSandboxStatus'> | undefined): readonly string[] {
  const { ip = '', additionalIps = [] } = status?.network ?? {};
  return [ip, ...additionalIps.map((additional) => additional.ip)].filter((address) => address !== '');
}

/** NamespaceMode NODE: the pod uses the host's namespace. */
const NODE = 2;

export function networkOf(status: Message<'PodSandboxStatus'> | undefined): PodNetwork {
  return { ips: ipsOf(status), hostNetwork: status?.linux?.namespaces?.options?.network === NODE };
}

function milliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
