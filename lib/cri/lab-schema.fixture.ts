/** The messages that make and stop pods, for the lab of the tests: who imports from here has them in the table. */
import { openCri } from './cri.ts';
import type { MessageTable } from '../protobuf/message-codec.ts';
import { messages, type Method, methods } from './schema.ts';

const labMessages = {
  LinuxPodSandboxConfig: { cgroupParent: [1, 'string'], securityContext: [2, 'LinuxSandboxSecurityContext'] },
  LinuxSandboxSecurityContext: {
    namespaceOptions: [1, 'NamespaceOption'],
    privileged: [6, 'bool'],
    seccomp: [9, 'SecurityProfile'],
  },
  SecurityProfile: { profileType: [1, 'int32'] },
  Int64Value: { value: [1, 'int64'] },
  DNSConfig: { servers: [1, 'string', 'list'] },
  PodSandboxConfig: {
    metadata: [1, 'PodSandboxMetadata'],
    hostname: [2, 'string'],
    logDirectory: [3, 'string'],
    dnsConfig: [4, 'DNSConfig'],
    labels: [6, 'map'],
    annotations: [7, 'map'],
    linux: [8, 'LinuxPodSandboxConfig'],
  },
  RunPodSandboxRequest: { config: [1, 'PodSandboxConfig'] },
  RunPodSandboxResponse: { podSandboxId: [1, 'string'] },
  PodSandboxIdRequest: { podSandboxId: [1, 'string'] },
  Mount: {
    containerPath: [1, 'string'],
    hostPath: [2, 'string'],
    readonly: [3, 'bool'],
    propagation: [5, 'int32'],
  },
  KeyValue: { key: [1, 'string'], value: [2, 'string'] },
  Capability: { addCapabilities: [1, 'string', 'list'], dropCapabilities: [2, 'string', 'list'] },
  LinuxContainerResources: { cpuShares: [3, 'int64'], memoryLimitInBytes: [4, 'int64'] },
  LinuxContainerSecurityContext: {
    capabilities: [1, 'Capability'],
    privileged: [2, 'bool'],
    namespaceOptions: [3, 'NamespaceOption'],
    runAsUser: [5, 'Int64Value'],
    readonlyRootfs: [7, 'bool'],
    noNewPrivs: [11, 'bool'],
    runAsGroup: [12, 'Int64Value'],
    maskedPaths: [13, 'string', 'list'],
    readonlyPaths: [14, 'string', 'list'],
    seccomp: [15, 'SecurityProfile'],
    apparmor: [16, 'SecurityProfile'],
  },
  LinuxContainerConfig: {
    resources: [1, 'LinuxContainerResources'],
    securityContext: [2, 'LinuxContainerSecurityContext'],
  },
  ContainerConfig: {
    metadata: [1, 'ContainerMetadata'],
    image: [2, 'ImageSpec'],
    command: [3, 'string', 'list'],
    args: [4, 'string', 'list'],
    envs: [6, 'KeyValue', 'list'],
    mounts: [7, 'Mount', 'list'],
    labels: [9, 'map'],
    annotations: [10, 'map'],
    logPath: [11, 'string'],
    linux: [15, 'LinuxContainerConfig'],
  },
  CreateContainerRequest: {
    podSandboxId: [1, 'string'],
    config: [2, 'ContainerConfig'],
    sandboxConfig: [3, 'PodSandboxConfig'],
  },
  CreateContainerResponse: { containerId: [1, 'string'] },
  ContainerIdRequest: { containerId: [1, 'string'] },
  StopContainerRequest: { containerId: [1, 'string'], timeout: [2, 'int64'] },
  ExecSyncRequest: { containerId: [1, 'string'], cmd: [2, 'string', 'list'], timeout: [3, 'int64'] },
  ExecSyncResponse: { stdout: [1, 'bytes'], stderr: [2, 'bytes'], exitCode: [3, 'int32'] },
  Image: { repoTags: [2, 'string', 'list'] },
  ListImagesRequest: {},
  ListImagesResponse: { images: [1, 'Image', 'list'] },
  Empty: {},
} as const satisfies MessageTable;

const RUNTIME = 'runtime.v1.RuntimeService';

const labMethods = {
  RunPodSandbox: { service: RUNTIME, input: 'RunPodSandboxRequest', output: 'RunPodSandboxResponse' },
  StopPodSandbox: { service: RUNTIME, input: 'PodSandboxIdRequest', output: 'Empty' },
  RemovePodSandbox: { service: RUNTIME, input: 'PodSandboxIdRequest', output: 'Empty' },
  CreateContainer: { service: RUNTIME, input: 'CreateContainerRequest', output: 'CreateContainerResponse' },
  StartContainer: { service: RUNTIME, input: 'ContainerIdRequest', output: 'Empty' },
  ReopenContainerLog: { service: RUNTIME, input: 'ContainerIdRequest', output: 'Empty' },
  StopContainer: { service: RUNTIME, input: 'StopContainerRequest', output: 'Empty' },
  RemoveContainer: { service: RUNTIME, input: 'ContainerIdRequest', output: 'Empty' },
  ExecSync: { service: RUNTIME, input: 'ExecSyncRequest', output: 'ExecSyncResponse' },
  ListImages: {
    service: 'runtime.v1.ImageService',
    input: 'ListImagesRequest',
    output: 'ListImagesResponse',
  },
} as const;

type LabMessages = typeof labMessages;
type LabMethods = typeof labMethods;

declare module './schema.ts' {
  interface Messages extends LabMessages {}
  interface Methods extends LabMethods {}
}

Object.assign(messages, labMessages);
Object.assign(methods, labMethods satisfies Readonly<Record<string, Method>>);

export { messages, methods, openCri };
