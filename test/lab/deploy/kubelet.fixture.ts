/**
 * Kubelet's translation of a manifest's pod for a runtime: user, capabilities, profiles, mounts, environment,
 * limits. Strict: it refuses unknown fields, so that everything in a manifest has an effect in a test.
 *
 * Facts: kubernetes/pkg/kubelet/kuberuntime/{security_context,kuberuntime_container}.go,
 * pkg/securitycontext/util.go.
 */
import type {
  V1Container,
  V1PodSpec,
  V1ResourceRequirements,
  V1SecurityContext,
  V1Volume,
} from '@kubernetes/client-node';

import type { MessageInit } from '../../../lib/cri/schema.ts';
import type { ContainerSpec, PodSpec } from '../pod-config.ts';

/** The parts of the node and the cluster that get into a pod. */
export interface NodeFacts {
  readonly nodeName: string;
  /** The address of the API server in the pods' network. */
  readonly api: { readonly host: string; readonly port: number };
  /** A directory with `token`, `ca.crt` and `namespace`. */
  readonly serviceAccountDirectory: string;
  /** An empty directory for the volume of this name. */
  readonly emptyDirectory: (volume: string) => string;
  /** A directory with the data of a ConfigMap or Secret of the pod's namespace. Default: none exist. */
  readonly dataDirectory?: (kind: 'ConfigMap' | 'Secret', name: string) => string;
}

export interface KubeletPod {
  readonly spec: PodSpec;
  /** Directories and files of the node that have to be made first. */
  readonly directories: readonly string[];
  readonly files: readonly string[];
  readonly probes: readonly { readonly path: string; readonly port: number }[];
}

/** `USER` of deploy/Dockerfile. */
const imageUser = 65532;
const serviceAccountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The default of `procMount`. */
const maskedPaths = [
  ...['/proc/asound', '/proc/acpi', '/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list'],
  ...[
    '/proc/timer_stats',
    '/proc/sched_debug',
    '/proc/scsi',
    '/sys/firmware',
    '/sys/devices/virtual/powercap',
  ],
];
const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

/** ProfileType of the interface. */
const profileTypes: Readonly<Record<string, number>> = { RuntimeDefault: 0, Unconfined: 1 };

/** For the scheduler and for the end of a pod: nothing of the pod as it runs. */
const notForRuntime = [
  ...['affinity', 'nodeSelector', 'priorityClassName', 'serviceAccountName', 'terminationGracePeriodSeconds'],
  // Nothing of a pod here asks for a name.
  ...['tolerations', 'dnsPolicy', 'restartPolicy', 'schedulerName'],
];

/** @throws {Error} for what it does not know. */
export function kubeletPod(name: string, namespace: string, pod: V1PodSpec, node: NodeFacts): KubeletPod {
  only('the pod', pod, [
    ...notForRuntime,
    'containers',
    'hostNetwork',
    'hostPID',
    'securityContext',
    'volumes',
  ]);
  const volumes = new Map((pod.volumes ?? []).map((volume) => [volume.name, volumeOf(volume, node)]));
  const containers = pod.containers.map((container) => containerOf(container, pod, volumes, node));
  const pathsOf = (made: Volume['made']): string[] =>
    [...volumes.values()].filter((volume) => volume.made === made).map(({ path }) => path);
  return {
    spec: {
      name,
      namespace,
      hostPid: pod.hostPID === true,
      hostNetwork: pod.hostNetwork === true,
      containers,
    },
    directories: pathsOf('DirectoryOrCreate'),
    files: pathsOf('FileOrCreate'),
    probes: pod.containers.flatMap(probesOf),
  };
}

interface Volume {
  readonly path: string;
  /** As what it is made where it is missing. */
  readonly made?: 'DirectoryOrCreate' | 'FileOrCreate';
}

function volumeOf(volume: V1Volume, node: NodeFacts): Volume {
  only(`volume ${volume.name}`, volume, ['name', 'hostPath', 'emptyDir', 'configMap', 'secret']);
  const { hostPath, configMap, secret } = volume;
  const data =
    configMap?.name !== undefined
      ? node.dataDirectory?.('ConfigMap', configMap.name)
      : secret?.secretName !== undefined && node.dataDirectory?.('Secret', secret.secretName);
  if (typeof data === 'string') return { path: data };
  if (configMap !== undefined || secret !== undefined) throw unknown(`volume ${volume.name}`, 'its data');
  if (hostPath === undefined) return { path: node.emptyDirectory(volume.name) };
  const { path, type } = hostPath;
  if (type === 'DirectoryOrCreate' || type === 'FileOrCreate') return { path, made: type };
  if (type !== 'Directory') throw unknown(`volume ${volume.name}`, type);
  return { path };
}

function containerOf(
  container: V1Container,
  pod: V1PodSpec,
  volumes: ReadonlyMap<string, Volume>,
  node: NodeFacts,
): ContainerSpec {
  const where = `container ${container.name}`;
  only(where, container, [
    ...['name', 'image', 'args', 'env', 'ports', 'securityContext', 'resources'],
    ...['livenessProbe', 'readinessProbe', 'volumeMounts'],
    // Defaults of the API: the image is present, and termination messages are not read.
    ...['imagePullPolicy', 'terminationMessagePath', 'terminationMessagePolicy'],
  ]);
  const env = (container.env ?? []).map(({ name, value, valueFrom }): [string, string] => {
    const field = valueFrom?.fieldRef?.fieldPath;
    if (valueFrom !== undefined && field !== 'spec.nodeName') throw unknown(where, `variable ${name}`);
    return [name, field === undefined ? (value ?? '') : node.nodeName];
  });
  const mounts = (container.volumeMounts ?? []).map((mount) => {
    only(`mount ${mount.name}`, mount, ['name', 'mountPath', 'readOnly', 'mountPropagation']);
    const volume = volumes.get(mount.name);
    if (volume === undefined) throw unknown(where, `volume ${mount.name}`);
    return {
      containerPath: mount.mountPath,
      hostPath: volume.path,
      readonly: mount.readOnly === true,
      hostToContainer: mount.mountPropagation === 'HostToContainer',
    };
  });
  return {
    name: container.name,
    ...(container.image !== undefined && { image: container.image }),
    args: container.args ?? [],
    env: {
      KUBERNETES_SERVICE_HOST: node.api.host,
      KUBERNETES_SERVICE_PORT: String(node.api.port),
      ...Object.fromEntries(env),
    },
    mounts: [
      ...mounts,
      { containerPath: serviceAccountPath, hostPath: node.serviceAccountDirectory, readonly: true },
    ],
    security: securityOf(where, container.securityContext ?? {}, pod.securityContext ?? {}),
    ...(Object.keys(container.resources ?? {}).length > 0 && {
      resources: resourcesOf(where, container.resources ?? {}),
    }),
  };
}

/** A container's settings take precedence over its pod's. */
function securityOf(
  where: string,
  own: V1SecurityContext,
  ofPod: NonNullable<V1PodSpec['securityContext']>,
): MessageInit<'LinuxContainerSecurityContext'> {
  const shared = ['runAsUser', 'runAsGroup', 'runAsNonRoot', 'seccompProfile', 'appArmorProfile'];
  only('the pod', ofPod, shared);
  only(where, own, [
    ...shared,
    ...['privileged', 'allowPrivilegeEscalation', 'readOnlyRootFilesystem', 'capabilities'],
  ]);
  const runAsUser = own.runAsUser ?? ofPod.runAsUser ?? imageUser;
  const runAsGroup = own.runAsGroup ?? ofPod.runAsGroup;
  const runAsNonRoot = own.runAsNonRoot ?? ofPod.runAsNonRoot;
  const seccompProfile = own.seccompProfile ?? ofPod.seccompProfile;
  const appArmorProfile = own.appArmorProfile ?? ofPod.appArmorProfile;
  if (own.privileged === true) throw unknown(where, 'privileged');
  if (runAsNonRoot === true && runAsUser === 0) throw new Error(`${where} would run as root`);
  const { add = [], drop = [] } = own.capabilities ?? {};
  return {
    capabilities: { addCapabilities: add, dropCapabilities: drop },
    runAsUser: { value: BigInt(runAsUser) },
    ...(runAsGroup !== undefined && { runAsGroup: { value: BigInt(runAsGroup) } }),
    readonlyRootfs: own.readOnlyRootFilesystem === true,
    noNewPrivs: own.allowPrivilegeEscalation === false,
    maskedPaths,
    readonlyPaths,
    seccomp: { profileType: profileType(where, seccompProfile?.type ?? 'Unconfined') },
    ...(appArmorProfile && { apparmor: { profileType: profileType(where, appArmorProfile.type) } }),
  };
}

function profileType(where: string, type: string): number {
  const number = profileTypes[type];
  if (number === undefined) throw unknown(where, `profile ${type}`);
  return number;
}

/** Without the score for the OOM killer: to lower it a process needs CAP_SYS_RESOURCE, which not every machine gives to root. */
function resourcesOf(
  where: string,
  { limits = {}, requests = {} }: V1ResourceRequirements,
): MessageInit<'LinuxContainerResources'> {
  only(where, limits, ['memory']);
  const [, mebibytes] = /^(\d+)Mi$/.exec(limits['memory'] ?? '') ?? [];
  const [, milliCpu] = /^(\d+)m$/.exec(requests['cpu'] ?? '') ?? [];
  if (mebibytes === undefined || milliCpu === undefined) throw unknown(where, 'resources');
  return {
    memoryLimitInBytes: BigInt(mebibytes) * 1024n * 1024n,
    cpuShares: (BigInt(milliCpu) * 1024n) / 1000n,
  };
}

function probesOf({ name, ports = [], livenessProbe, readinessProbe }: V1Container) {
  return [livenessProbe, readinessProbe].flatMap((probe) => {
    if (probe === undefined) return [];
    const { path, port: asked } = probe.httpGet ?? {};
    const port = typeof asked === 'number' ? asked : ports.find((one) => one.name === asked)?.containerPort;
    if (path === undefined || port === undefined) throw unknown(`container ${name}`, 'probe');
    return [{ path, port }];
  });
}

function only(where: string, object: object, known: readonly string[]): void {
  const more = Object.keys(object).filter((key) => !known.includes(key));
  if (more.length > 0) throw unknown(where, more.join(', '));
}

function unknown(where: string, what: string | undefined): Error {
  return new Error(`${where}: kubelet.fixture.ts does not know ${what ?? '(nothing)'}`);
}
