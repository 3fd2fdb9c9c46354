/** Runs the CSI driver `csi.bpfman.io` of this node, and registers it with the kubelet. */
import { chmodSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { MountNamespace } from '../../../lib/ebpf/mount.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { GrpcServer } from '../../../lib/grpc/server.ts';
import { GrpcError, grpcStatus } from '../../../lib/grpc/status.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { driverMethods, driverName, registrationMethods } from './services.ts';
import { Volumes, type VolumesOptions } from './volumes.ts';

/** The kubelet creates its directories only when it starts. */
const RETRY_MS = 10_000;

export interface CsiOptions extends Omit<VolumesOptions, 'mountNamespace'> {
  /** Such as `/proc/1/ns/mnt`. */
  readonly mountNamespacePath: string;
  readonly nodeName: string;
  readonly version: string;
}

/** There is one driver on each node. */
export class CsiDriver {
  readonly #options: CsiOptions;
  #volumes: Volumes | undefined;
  #problem: string | undefined = 'kubelet has not registered the CSI driver yet';
  #failures = 0;

  constructor(options: CsiOptions) {
    this.#options = options;
  }

  /** Why the kubelet cannot mount volumes; undefined if it can. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** The number of failed calls, except those for programs that are not loaded yet. */
  get failures(): number {
    return this.#failures;
  }

  get mounted(): number {
    return this.#volumes?.size ?? 0;
  }

  /** Call this after programs have changed: mounted volumes get the maps of the running versions. */
  refresh(): void {
    this.#volumes?.refresh();
  }

  /** Serves until the signal aborts. Volumes stay mounted. */
  async run(signal: AbortSignal): Promise<void> {
    const { mountNamespacePath, logger } = this.#options;
    while (!signal.aborted) {
      try {
        using mountNamespace = new MountNamespace(mountNamespacePath);
        const volumes = (this.#volumes = new Volumes({ ...this.#options, mountNamespace }));
        await this.#serve(volumes, mountNamespace, signal);
      } catch (error) {
        this.#problem = messageOf(error);
        logger.error({ err: error }, 'cannot serve the CSI driver, retrying');
        await sleep(systemClock, RETRY_MS, signal).catch(() => undefined);
      } finally {
        this.#volumes = undefined;
      }
    }
  }

  async #serve(volumes: Volumes, mountNamespace: MountNamespace, signal: AbortSignal): Promise<void> {
    const { kubeletDirectory, nodeName, version, logger } = this.#options;
    const socket = join(kubeletDirectory, 'plugins', driverName, 'csi.sock');
    const registration = join(kubeletDirectory, 'plugins_registry', `${driverName}-reg.sock`);
    using driver = new GrpcServer(
      driverMethods({
        ...{ volumes, nodeName, version },
        onFailure: (method, error) => {
          // A pod may start before its programs are loaded: the kubelet tries again.
          const isExpected = error instanceof GrpcError && error.status === grpcStatus.NOT_FOUND;
          if (!isExpected) this.#failures++;
          logger[isExpected ? 'debug' : 'warn']({ err: error, method }, 'a call of kubelet failed');
        },
      }),
    );
    using registering = new GrpcServer(
      registrationMethods(socket, (problem) => {
        this.#problem = problem && `kubelet did not register the CSI driver: ${problem}`;
        if (problem === undefined) logger.info('kubelet has registered the CSI driver');
        else logger.error(this.#problem);
      }),
    );
    await this.#listen(mountNamespace, driver, socket);
    // The driver's socket is already served: the kubelet connects to it as soon as it sees the registration.
    await this.#listen(mountNamespace, registering, registration);
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => resolve(), { once: true });
    if (signal.aborted) resolve();
    await aborted;
    // Otherwise the kubelet would continue to call the driver, even after a restart.
    mountNamespace.visit(() => {
      for (const path of [registration, socket]) rmSync(path, { force: true });
      // The directory contains nothing else, and no other process removes it.
      rmSync(dirname(socket), { recursive: true, force: true });
    });
  }

  async #listen(mountNamespace: MountNamespace, server: GrpcServer, path: string): Promise<void> {
    const { kubeletDirectory } = this.#options;
    const listening = mountNamespace.visit(() => {
      if (!existsSync(kubeletDirectory))
        throw new RampartError(errorCodes.NOT_FOUND, {
          what: `there is no directory ${kubeletDirectory} on this node`,
          next: 'Set the directory of kubelet (--root-dir) with --bpf-csi',
        });
      mkdirSync(dirname(path), { recursive: true, mode: 0o750 });
      // The socket of a previous process, which may have been killed.
      rmSync(path, { force: true });
      return server.listen(path);
    });
    await listening;
    mountNamespace.visit(() => chmodSync(path, 0o600));
  }
}
