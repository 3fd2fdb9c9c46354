/**
 * A client of the node's container runtime, over the Container Runtime Interface that kubelet uses: containerd 1.6 and
 * later, CRI-O 1.23 and later.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { type CallOptions, type CallStats, CriConnection } from './connection.ts';
import {
  type Container,
  containerFrom,
  containerState,
  networkOf,
  noNetwork,
  type PodNetwork,
  type Pod,
  podFrom,
} from './records.ts';
import type { Input, MethodName, Output } from './schema.ts';
import { findSocket, socketPathOf } from './socket.ts';

interface CriOptions {
  /** The runtime's unix socket, with or without `unix://`. Default: the first of `usualSockets` that exists. */
  readonly socketPath?: string | undefined;
  /** Disposes the client when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

interface RuntimeVersion {
  /** `containerd`, `cri-o`. */
  readonly name: string;
  readonly version: string;
}

/** Number of concurrent calls for the addresses of pods. */
const PARALLEL_CALLS = 8;

/** All methods throw as {@link CriConnection.call}. Connects with the first call, and again when it has to. */
export class Cri implements Disposable {
  readonly connection: CriConnection;
  readonly #stopListening: () => void;

  constructor(connection: CriConnection, signal: AbortSignal | undefined) {
    this.connection = connection;
    const dispose = (): void => connection[Symbol.dispose]();
    if (signal?.aborted === true) dispose();
    signal?.addEventListener('abort', dispose, { once: true });
    this.#stopListening = () => signal?.removeEventListener('abort', dispose);
  }

  get socketPath(): string {
    return this.connection.socketPath;
  }

  async version(options?: CallOptions): Promise<RuntimeVersion> {
    const { runtimeName, runtimeVersion } = await this.call('Version', {}, options);
    return { name: runtimeName, version: runtimeVersion };
  }

  /** The pods' sandboxes with their addresses. Makes one call for the list, and one for each sandbox that is ready. */
  async pods(options?: CallOptions): Promise<readonly Pod[]> {
    const { items } = await this.call('ListPodSandbox', {}, options);
    const pods: Pod[] = [];
    const waiting = items.values();
    const work = async (): Promise<void> => {
      // All workers share one iterator.
      for (const item of waiting) {
        const network = item.state === 0 ? await this.podNetwork(item.id, options) : noNetwork;
        // A sandbox that was removed since the list is omitted.
        if (network !== undefined) pods.push(podFrom(item, network));
      }
    };
    await Promise.all(Array.from({ length: PARALLEL_CALLS }, work));
    return pods;
  }

  /** A sandbox's addresses, and whether it uses the node's network; undefined if it is gone. */
  async podNetwork(podId: string, options?: CallOptions): Promise<PodNetwork | undefined> {
    const answer = await orGone(this.call('PodSandboxStatus', { podSandboxId: podId }, options));
    return answer === undefined ? undefined : networkOf(answer.status);
  }

  /** All containers, in any state. */
  async containers(options?: CallOptions): Promise<readonly Container[]> {
    const { containers } = await this.call('ListContainers', {}, options);
    return containers.map(containerFrom);
  }

  /**
   * The PID of a container's first process, in the runtime's PID namespace; undefined if the container is gone or not running.
   *
   * @throws {RampartError} `DECODE` if the runtime reports it as running, but without a PID; otherwise like every method.
   */
  async containerPid(id: string, options?: CallOptions): Promise<number | undefined> {
    const answer = await orGone(this.call('ContainerStatus', { containerId: id, verbose: true }, options));
    const isRunning = containerState(answer?.status?.state ?? -1) === 'running';
    return answer !== undefined && isRunning ? this.#pidIn(id, answer.info) : undefined;
  }

  /** Calls any method in `schema.ts`. */
  call<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    options?: CallOptions,
  ): Promise<Output<Name>> {
    return this.connection.call(name, input, options);
  }

  stats(): CallStats {
    return this.connection.stats();
  }

  /** Closes the connection; calls in progress fail with `DISPOSED`. */
  [Symbol.dispose](): void {
    this.#stopListening();
    this.connection[Symbol.dispose]();
  }

  /** containerd and CRI-O both put a JSON object with `pid` under `info`; the CRI does not define its content. */
  #pidIn(id: string, info: Readonly<Record<string, string>>): number {
    let pid: unknown;
    try {
      pid = (JSON.parse(info['info'] ?? '') as { pid?: unknown } | null)?.pid;
    } catch {
      // Invalid JSON is treated like a missing PID.
    }
    if (typeof pid === 'number' && Number.isSafeInteger(pid) && pid > 0) return pid;
    throw new RampartError(errorCodes.DECODE, {
      what: `container runtime at ${this.socketPath}: no pid of container ${id}`,
      why: `its status has no JSON with "pid" under "info" (keys: ${Object.keys(info).join(', ') || 'none'})`,
      next: 'containerd 1.6 or later and CRI-O report it; check with `crictl inspect`',
    });
  }
}

/**
 * Opens a client of the container runtime. The caller disposes it.
 *
 * @throws {RampartError} `INPUT` for an invalid path, `RUNTIME_UNREACHABLE` if no path is given and no socket is found.
 *
 * @example
 * using cri = openCri();
 * for (const { id, name } of await cri.containers()) console.log(name, await cri.containerPid(id));
 */
export function openCri(options: CriOptions = {}): Cri {
  const { socketPath, signal } = options;
  const path = socketPath === undefined ? findSocket() : socketPathOf(socketPath);
  return new Cri(new CriConnection(path), signal);
}

async function orGone<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof RampartError && error.code === errorCodes.NOT_FOUND) return undefined;
    throw error;
  }
}
