/** The services that the kubelet calls: Identity and Node of CSI, and the registration of plugins. */
import type { GrpcMethod } from '../../../lib/grpc/server.ts';
import { GrpcError, grpcStatus } from '../../../lib/grpc/status.ts';
import { codec, type CsiMessage, type MethodName, methods, VOLUME_MOUNT_GROUP } from './schema.ts';
import type { PublishRequest, Volumes } from './volumes.ts';

export const driverName = 'csi.bpfman.io';

/** Keys of volumeAttributes. The kubelet adds the last three if the CSIDriver has podInfoOnMount. */
const attribute = {
  program: `${driverName}/program`,
  maps: `${driverName}/maps`,
  pod: 'csi.storage.k8s.io/pod.name',
  namespace: 'csi.storage.k8s.io/pod.namespace',
  uid: 'csi.storage.k8s.io/pod.uid',
} as const;

type Handlers<Names extends MethodName> = {
  readonly [Name in Names]: (
    request: CsiMessage<(typeof methods)[Name]['input']>,
  ) => Parameters<typeof codec.encode<(typeof methods)[Name]['output']>>[1];
};

export interface DriverOptions {
  readonly volumes: Pick<Volumes, 'publish' | 'unpublish'>;
  /** Name of the Node object. */
  readonly nodeName: string;
  /** Version of Rampart. */
  readonly version: string;
  /** Called with each call that fails. */
  readonly onFailure: (method: MethodName, error: unknown) => void;
}

/** The methods of CSI's services Identity and Node. */
export function driverMethods({
  volumes,
  nodeName,
  version,
  onFailure,
}: DriverOptions): Readonly<Record<string, GrpcMethod>> {
  return served(
    {
      GetPluginInfo: () => ({ name: driverName, vendorVersion: version }),
      GetPluginCapabilities: () => ({}),
      Probe: () => ({ ready: { value: true } }),
      NodeGetInfo: () => ({ nodeId: nodeName }),
      NodeGetCapabilities: () => ({ capabilities: [{ rpc: { type: VOLUME_MOUNT_GROUP } }] }),
      NodePublishVolume: (request) => {
        volumes.publish(publishRequest(request));
        return {};
      },
      NodeUnpublishVolume: ({ volumeId, targetPath }) => {
        volumes.unpublish(required(volumeId, 'volume_id'), required(targetPath, 'target_path'));
        return {};
      },
    },
    onFailure,
  );
}

/**
 * The methods that the kubelet calls on the socket in its directory of plugins.
 *
 * @param onStatus - Called with the reason why the driver is not registered; undefined once it is.
 */
export function registrationMethods(
  endpoint: string,
  onStatus: (problem: string | undefined) => void,
): Readonly<Record<string, GrpcMethod>> {
  return served(
    {
      GetInfo: () => ({ type: 'CSIPlugin', name: driverName, endpoint, supportedVersions: ['1.0.0'] }),
      NotifyRegistrationStatus: ({ pluginRegistered, error }) => {
        onStatus(pluginRegistered ? undefined : error || 'kubelet gave no reason');
        return {};
      },
    },
    () => undefined,
  );
}

function served<Names extends MethodName>(
  handlers: Handlers<Names>,
  onFailure: (method: MethodName, error: unknown) => void,
): Readonly<Record<string, GrpcMethod>> {
  return Object.fromEntries(
    (Object.keys(handlers) as Names[]).map((name) => {
      const { service, input, output } = methods[name];
      const answer = (bytes: Buffer): Buffer => {
        try {
          return codec.encode(output, handlers[name](codec.decode(input, bytes) as never));
        } catch (error) {
          onFailure(name, error);
          throw error;
        }
      };
      return [`/${service}/${name}`, answer];
    }),
  );
}

/** @throws {GrpcError} `INVALID_ARGUMENT` if an attribute is missing or invalid */
function publishRequest({
  volumeId,
  targetPath,
  volumeCapability,
  readonly: readOnly,
  volumeContext,
}: CsiMessage<'NodePublishVolumeRequest'>): PublishRequest {
  const given = (key: keyof typeof attribute): string =>
    required(volumeContext[attribute[key]] ?? '', `volumeAttributes ${attribute[key]}`);
  const names = given('maps')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const wrong = names.find((name) => !/^\w{1,255}$/.test(name));
  if (wrong !== undefined || names.length === 0)
    throw invalid(
      `${attribute.maps}: ${JSON.stringify(wrong ?? '')} is not the name of a map; separate several by commas`,
    );
  if (volumeCapability?.mount === undefined) throw invalid('only volumes that are mounted are supported');
  return {
    ...{ volumeId: required(volumeId, 'volume_id'), targetPath: required(targetPath, 'target_path') },
    ...{ namespace: given('namespace'), pod: given('pod'), uid: given('uid') },
    program: given('program'),
    maps: [...new Set(names)],
    readOnly,
    group: groupOf(volumeCapability.mount.volumeMountGroup),
  };
}

function groupOf(text: string): number | undefined {
  if (text === '') return undefined;
  // 2^32 - 1 is not a group: to chown(2) it means "leave unchanged".
  if (/^\d{1,10}$/.test(text) && Number(text) < 0xffff_ffff) return Number(text);
  throw invalid(`fsGroup ${JSON.stringify(text)} is not the number of a group`);
}

function required(value: string, what: string): string {
  if (value === '') throw invalid(`${what} is missing`);
  return value;
}

function invalid(message: string): GrpcError {
  return new GrpcError(grpcStatus.INVALID_ARGUMENT, message);
}
