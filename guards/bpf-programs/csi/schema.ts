/**
 * The messages of the Container Storage Interface, version 1, and of kubelet's plugin registration, version 1, with only the fields that
 * are read or set. Numbers and types are facts of `csi.proto` of container-storage-interface/spec and of `api.proto` in
 * k8s.io/kubelet/pkg/apis/pluginregistration/v1.
 */
import { type Message, MessageCodec, type MessageTable } from '../../../lib/protobuf/message-codec.ts';

export const messages = {
  Empty: {},
  GetPluginInfoResponse: { name: [1, 'string'], vendorVersion: [2, 'string'] },
  BoolValue: { value: [1, 'bool'] },
  ProbeResponse: { ready: [1, 'BoolValue'] },
  NodeGetInfoResponse: { nodeId: [1, 'string'] },
  Rpc: { type: [1, 'int32'] },
  NodeServiceCapability: { rpc: [1, 'Rpc'] },
  NodeGetCapabilitiesResponse: { capabilities: [1, 'NodeServiceCapability', 'list'] },
  MountVolume: { volumeMountGroup: [3, 'string'] },
  VolumeCapability: { mount: [2, 'MountVolume'] },
  NodePublishVolumeRequest: {
    volumeId: [1, 'string'],
    targetPath: [4, 'string'],
    volumeCapability: [5, 'VolumeCapability'],
    readonly: [6, 'bool'],
    volumeContext: [8, 'map'],
  },
  NodeUnpublishVolumeRequest: { volumeId: [1, 'string'], targetPath: [2, 'string'] },

  PluginInfo: {
    type: [1, 'string'],
    name: [2, 'string'],
    endpoint: [3, 'string'],
    supportedVersions: [4, 'string', 'list'],
  },
  RegistrationStatus: { pluginRegistered: [1, 'bool'], error: [2, 'string'] },
} as const satisfies MessageTable;

export type Messages = typeof messages;
export type CsiMessage<Name extends keyof Messages> = Message<Messages, Name>;

export const codec = new MessageCodec(messages, 'request of kubelet');

/** VOLUME_MOUNT_GROUP of NodeServiceCapability.RPC.Type: the driver itself applies fsGroup. */
export const VOLUME_MOUNT_GROUP = 6;

interface Method {
  readonly service: string;
  readonly input: keyof Messages;
  readonly output: keyof Messages;
}

const IDENTITY = 'csi.v1.Identity';
const NODE = 'csi.v1.Node';
const REGISTRATION = 'pluginregistration.Registration';

export const methods = {
  GetPluginInfo: { service: IDENTITY, input: 'Empty', output: 'GetPluginInfoResponse' },
  GetPluginCapabilities: { service: IDENTITY, input: 'Empty', output: 'Empty' },
  Probe: { service: IDENTITY, input: 'Empty', output: 'ProbeResponse' },
  NodeGetInfo: { service: NODE, input: 'Empty', output: 'NodeGetInfoResponse' },
  NodeGetCapabilities: { service: NODE, input: 'Empty', output: 'NodeGetCapabilitiesResponse' },
  NodePublishVolume: { service: NODE, input: 'NodePublishVolumeRequest', output: 'Empty' },
  NodeUnpublishVolume: { service: NODE, input: 'NodeUnpublishVolumeRequest', output: 'Empty' },
  GetInfo: { service: REGISTRATION, input: 'Empty', output: 'PluginInfo' },
  NotifyRegistrationStatus: { service: REGISTRATION, input: 'RegistrationStatus', output: 'Empty' },
} as const satisfies Readonly<Record<string, Method>>;

export type MethodName = keyof typeof methods;
