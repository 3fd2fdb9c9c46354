/** Containers of which a test says when they come and go, in place of a runtime's. For tests. */
import type { ContainerSource, SourceContainer } from './container-source.ts';

export class GivenContainers implements ContainerSource {
  readonly synced: Promise<void> = Promise.resolve();
  readonly #containers = new Map<string, SourceContainer>();
  readonly #listeners = new Set<(id: string) => void>();

  list(): Iterable<SourceContainer> {
    return this.#containers.values();
  }

  get(id: string): SourceContainer | undefined {
    return this.#containers.get(id);
  }

  reported(id: string): SourceContainer | undefined {
    return this.#containers.get(id);
  }

  subscribe(listener: (id: string) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  set(container: SourceContainer): void {
    this.#containers.set(container.id, container);
    for (const listener of this.#listeners) listener(container.id);
  }

  /** The container of a process. */
  setProcess(name: string, pid: number): void {
    const pod = { podName: `${name}-0`, podNamespace: 'shop', podUid: 'u', podIp: '' };
    this.set({ id: `containerd://${name}`, name, ...pod, pid, root: `/proc/${pid}/root` });
  }

  delete(id: string): void {
    this.#containers.delete(id);
    for (const listener of this.#listeners) listener(id);
  }

  /** How many listen. */
  get listeners(): number {
    return this.#listeners.size;
  }
}
