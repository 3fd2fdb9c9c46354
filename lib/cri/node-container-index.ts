/** Keeps the kernel's identifiers of the containers of this node up to date. */
import { statSync } from 'node:fs';
import { uptime } from 'node:os';

import { ContainerIndex, type KernelPlace, type ProcessPlace } from './container-index.ts';
import type { ContainerSource, SourceContainer } from './container-source.ts';
import { processIdentity, tickMs } from './process.ts';

/** Follows the containers until it is disposed. */
export class NodeContainerIndex<V> implements Disposable {
  readonly index: ContainerIndex<V>;
  readonly #hostMountNamespace: number;
  readonly #source: ContainerSource;
  readonly #subscription: Disposable;

  /** @param valueOf - See {@link ContainerIndex}. */
  constructor(source: ContainerSource, valueOf: (place: ProcessPlace) => V) {
    this.#source = source;
    // Some sandboxes hide /proc/1/ns even from root; then the mount namespace of this process counts as the host's.
    this.#hostMountNamespace = mountNamespace('/proc/1') ?? mountNamespace('/proc/self') ?? 0;
    this.index = new ContainerIndex(this.#hostMountNamespace, valueOf);
    this.#subscription = source.subscribe((id) => this.#follow(id));
    for (const { id } of source.list()) this.#follow(id);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #follow(id: string): void {
    const reported = this.#source.reported(id);
    if (reported === undefined) return this.index.delete(id);
    const container = this.#source.get(id);
    const place = container && placeOf(container);
    // A container in the host's mount namespace can be distinguished from the host only by its cgroup.
    const isHosts = place?.mountNamespace === this.#hostMountNamespace;
    this.index.set(reported, isHosts ? undefined : place);
  }
}

/** Undefined if `root` is not in /proc, or the process is gone. */
function placeOf({ root }: SourceContainer): KernelPlace | undefined {
  const [, processPath, procPath, pid] = /^((.*)\/(\d+))\/root\/?$/.exec(root) ?? [];
  if (processPath === undefined) return undefined;
  const namespace = mountNamespace(processPath);
  if (namespace === undefined) return undefined;
  const startedMs = startOf(Number(pid), procPath);
  return { mountNamespace: namespace, startedMs };
}

/** When a process started, on the clock of `performance.now()`; undefined if /proc shows another uptime, as with lxcfs. */
function startOf(pid: number, procPath: string | undefined): number | undefined {
  const process = processIdentity(pid, procPath);
  if (process === undefined) return undefined;
  const ageMs = uptime() * 1000 - process.startTicks * tickMs;
  return ageMs < -tickMs ? undefined : performance.now() - ageMs;
}

function mountNamespace(processPath: string): number | undefined {
  try {
    return statSync(`${processPath}/ns/mnt`).ino;
  } catch {
    return undefined;
  }
}
