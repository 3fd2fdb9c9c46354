/** Kubelet's side of a CSI driver on its node: it finds the driver, registers it, and requests volumes. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { DescMethod } from '@bufbuild/protobuf';

import { unixClient } from '../../../lib/grpc/unix-client.fixture.ts';
import { descriptorsOf } from '../../../lib/protobuf/descriptors.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { messages, type MethodName, methods } from './schema.ts';

const descriptors: { readonly method: (name: string) => DescMethod } = descriptorsOf(messages, methods);

/** The properties that a test sets; the others are kubelet's. */
export interface Asked {
  readonly program: string;
  readonly maps: string;
  readonly namespace?: string;
  readonly pod?: string;
  readonly uid?: string;
  readonly readOnly?: boolean;
  readonly group?: string;
  readonly volumeId?: string;
  readonly targetPath?: string;
}

export class FixtureKubelet {
  readonly directory: string;
  #endpoint = '';

  /** Makes its directories. */
  constructor(directory: string) {
    this.directory = directory;
    for (const name of ['plugins_registry', 'pods']) mkdirSync(join(directory, name), { recursive: true });
  }

  get registration(): string {
    return join(this.directory, 'plugins_registry', 'csi.bpfman.io-reg.sock');
  }

  /** With the first file that it sees. @param exists - whether a socket is in its mount namespace */
  async register(exists: (path: string) => boolean): Promise<void> {
    await until('the driver', () => exists(this.registration));
    const { endpoint } = await this.call('GetInfo', {}, this.registration);
    this.#endpoint = String(endpoint);
    await this.call('NotifyRegistrationStatus', { pluginRegistered: true }, this.registration);
  }

  /** A call of gRPC, by a client that is not ours. */
  call(
    name: MethodName,
    request: object,
    socket = this.#endpoint,
  ): Promise<Readonly<Record<string, unknown>>> {
    return unixClient(socket)(descriptors.method(name), request);
  }

  /** It makes the directory that the target is in. @returns the target */
  async publish(asked: Asked): Promise<string> {
    const { program, maps, namespace = 'shop', pod = 'reader', uid = 'uid-1', readOnly = false } = asked;
    const { volumeId = 'csi-1', group = '', targetPath = this.target(uid, volumeId) } = asked;
    mkdirSync(join(this.target(uid, volumeId), '..'), { recursive: true });
    await this.call('NodePublishVolume', {
      ...{ volumeId, targetPath, readonly: readOnly },
      volumeCapability: { mount: { volumeMountGroup: group } },
      volumeContext: {
        'csi.bpfman.io/program': program,
        'csi.bpfman.io/maps': maps,
        'csi.storage.k8s.io/pod.name': pod,
        'csi.storage.k8s.io/pod.namespace': namespace,
        'csi.storage.k8s.io/pod.uid': uid,
        'csi.storage.k8s.io/ephemeral': 'true',
      },
    });
    return targetPath;
  }

  async unpublish(volumeId = 'csi-1', targetPath = this.target('uid-1', volumeId)): Promise<void> {
    await this.call('NodeUnpublishVolume', { volumeId, targetPath });
  }

  target(uid: string, volumeId: string): string {
    return join(this.directory, 'pods', uid, 'volumes', 'kubernetes.io~csi', volumeId, 'mount');
  }
}
