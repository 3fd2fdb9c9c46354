/**
 * The messages of the Container Runtime Interface and of containerd's event service that are used here, with only the
 * fields that are read or set. Numbers and types are those of `api.proto` in k8s.io/cri-api (runtime.v1, as of 0.32) and of
 * containerd's `api/services/events/v1/events.proto`, `api/types/event.proto` and `api/events/task.proto`. Other fields are
 * skipped, so that older and newer runtimes are compatible.
 */
import {
  type Message as MessageOf,
  MessageCodec,
  type MessageInit as MessageInitOf,
  type MessageTable,
} from '../protobuf/message-codec.ts';

const ownMessages = {
  VersionRequest: { version: [1, 'string'] },
  VersionResponse: { runtimeName: [2, 'string'], runtimeVersion: [3, 'string'] },

  PodSandboxMetadata: {
    name: [1, 'string'],
    uid: [2, 'string'],
    namespace: [3, 'string'],
    attempt: [4, 'uint32'],
  },
  PodSandbox: {
    id: [1, 'string'],
    metadata: [2, 'PodSandboxMetadata'],
    state: [3, 'int32'],
    createdAt: [4, 'int64'],
    labels: [5, 'map'],
    annotations: [6, 'map'],
  },
  ListPodSandboxRequest: {},
  ListPodSandboxResponse: { items: [1, 'PodSandbox', 'list'] },
  PodIP: { ip: [1, 'string'] },
  PodSandboxNetworkStatus: { ip: [1, 'string'], additionalIps: [2, 'PodIP', 'list'] },
  PodSandboxStatus: {
    id: [1, 'string'],
    state: [3, 'int32'],
    network: [5, 'PodSandboxNetworkStatus'],
    linux: [6, 'LinuxPodSandboxStatus'],
  },
  LinuxPodSandboxStatus: { namespaces: [1, 'Namespace'] },
  Namespace: { options: [2, 'NamespaceOption'] },
  NamespaceOption: { network: [1, 'int32'], pid: [2, 'int32'], ipc: [3, 'int32'], targetId: [4, 'string'] },
  PodSandboxStatusRequest: { podSandboxId: [1, 'string'] },
  PodSandboxStatusResponse: { status: [1, 'PodSandboxStatus'] },

  ImageSpec: { image: [1, 'string'] },
  ContainerMetadata: { name: [1, 'string'], attempt: [2, 'uint32'] },
  Container: {
    id: [1, 'string'],
    podSandboxId: [2, 'string'],
    metadata: [3, 'ContainerMetadata'],
    image: [4, 'ImageSpec'],
    imageRef: [5, 'string'],
    state: [6, 'int32'],
    createdAt: [7, 'int64'],
    labels: [8, 'map'],
    annotations: [9, 'map'],
  },
  ContainerFilter: { id: [1, 'string'], podSandboxId: [3, 'string'] },
  ListContainersRequest: { filter: [1, 'ContainerFilter'] },
  ListContainersResponse: { containers: [1, 'Container', 'list'] },
  ContainerStatus: {
    id: [1, 'string'],
    state: [3, 'int32'],
    startedAt: [5, 'int64'],
    finishedAt: [6, 'int64'],
    exitCode: [7, 'int32'],
    logPath: [15, 'string'],
  },
  ContainerStatusRequest: { containerId: [1, 'string'], verbose: [2, 'bool'] },
  ContainerStatusResponse: { status: [1, 'ContainerStatus'], info: [2, 'map'] },

  GetEventsRequest: {},
  ContainerEventResponse: { containerId: [1, 'string'], containerEventType: [2, 'int32'] },

  // Messages of containerd's event service.
  SubscribeRequest: { filters: [1, 'string', 'list'] },
  Any: { typeUrl: [1, 'string'], value: [2, 'bytes'] },
  Envelope: { topic: [3, 'string'], event: [4, 'Any'] },
  TaskExit: { containerId: [1, 'string'], id: [2, 'string'] },
} as const satisfies MessageTable;

type OwnMessages = typeof ownMessages;
/** An interface, so that tests can add the messages that create pods: `lab-schema.fixture.ts`. */
export interface Messages extends OwnMessages {}
export const messages = ownMessages as Messages;
export type MessageName = keyof Messages;

export type Message<Name extends MessageName> = MessageOf<Messages, Name>;
export type MessageInit<Name extends MessageName> = MessageInitOf<Messages, Name>;
export const codec = new MessageCodec(messages, 'response of the container runtime');

/** A method: its service, its input and output messages, and whether the output is a stream. */
export interface Method {
  readonly service: string;
  readonly input: MessageName;
  readonly output: MessageName;
  readonly stream?: true;
}

const RUNTIME = 'runtime.v1.RuntimeService';

const ownMethods = {
  Version: { service: RUNTIME, input: 'VersionRequest', output: 'VersionResponse' },
  ListPodSandbox: { service: RUNTIME, input: 'ListPodSandboxRequest', output: 'ListPodSandboxResponse' },
  PodSandboxStatus: {
    service: RUNTIME,
    input: 'PodSandboxStatusRequest',
    output: 'PodSandboxStatusResponse',
  },
  ListContainers: { service: RUNTIME, input: 'ListContainersRequest', output: 'ListContainersResponse' },
  ContainerStatus: { service: RUNTIME, input: 'ContainerStatusRequest', output: 'ContainerStatusResponse' },
  GetContainerEvents: {
    service: RUNTIME,
    input: 'GetEventsRequest',
    output: 'ContainerEventResponse',
    stream: true,
  },
  Subscribe: {
    service: 'containerd.services.events.v1.Events',
    input: 'SubscribeRequest',
    output: 'Envelope',
    stream: true,
  },
} as const satisfies Readonly<Record<string, Method>>;

type OwnMethods = typeof ownMethods;
export interface Methods extends OwnMethods {}
export const methods = ownMethods as Methods;

export type MethodName = keyof Methods;
export type Input<Name extends MethodName> = MessageInit<Methods[Name]['input']>;
export type Output<Name extends MethodName> = Message<Methods[Name]['output']>;
