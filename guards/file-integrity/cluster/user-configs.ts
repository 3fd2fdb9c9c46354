/**
 * Watches the ConfigMaps that users name, each while a FileIntegrity names it. They may be in any namespace, and
 * watching all ConfigMaps of a cluster would keep them all in memory.
 */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { type ConfigMap, configMaps } from '../../../lib/kube/object/object.ts';
import { runReflector } from '../../../lib/kube/cache/reflector.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';

export interface UserConfigsOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  /** Called when a ConfigMap that this FileIntegrity names has changed. */
  readonly onChange: (integrityKey: string) => void;
}

interface Followed {
  readonly cache: IndexedCache<ConfigMap>;
  readonly stop: AbortController;
  readonly running: Promise<void>;
  readonly users: Set<string>;
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** Disposing it ends all watches. */
export class UserConfigs implements AsyncDisposable {
  readonly #options: UserConfigsOptions;
  /** Keyed by `namespace/name` of the ConfigMap. */
  readonly #followed = new Map<string, Followed>();
  readonly #named = new Map<string, string>();
  readonly #ended = new Set<Promise<void>>();

  constructor(options: UserConfigsOptions) {
    this.#options = options;
  }

  /**
   * Reads the ConfigMap that a FileIntegrity names now, and watches it from then on; the previously named one is no
   * longer watched for it.
   *
   * @returns undefined if it does not exist
   * @throws {KubeError} e.g. if it may not be read
   */
  async read(
    integrityKey: string,
    place: Place | undefined,
    signal: AbortSignal,
  ): Promise<ConfigMap | undefined> {
    const key = place && `${place.namespace}/${place.name}`;
    const before = this.#named.get(integrityKey);
    if (before !== undefined && before !== key) this.#leave(integrityKey, before);
    if (place === undefined || key === undefined) return undefined;
    this.#named.set(integrityKey, key);
    let followed = this.#followed.get(key);
    if (followed === undefined) this.#followed.set(key, (followed = this.#follow(place)));
    followed.users.add(integrityKey);
    if (followed.cache.isSynced) return followed.cache.get(key);
    // Read directly, because a reflector does not report why it fails; it will report later changes.
    return await orUndefined(this.#options.client.get(configMaps, place, { signal }));
  }

  #follow({ namespace, name }: Place): Followed {
    const { client, logger, onChange } = this.#options;
    const cache = new IndexedCache<ConfigMap>({ type: configMaps, parsedLimit: 1, logger });
    const stop = new AbortController();
    const users = new Set<string>();
    const notify = (): void => users.forEach((user) => onChange(user));
    cache.subscribe(notify);
    // The ConfigMap may have changed between the direct read and the start of the reflector.
    void cache.synced.then(notify);
    const running = runReflector({
      client,
      cache,
      signal: stop.signal,
      logger,
      name: `file-integrity-config-${namespace}/${name}`,
      namespace,
      fieldSelector: `metadata.name=${name}`,
    });
    return { cache, stop, running, users };
  }

  #leave(integrityKey: string, key: string): void {
    this.#named.delete(integrityKey);
    const followed = this.#followed.get(key);
    followed?.users.delete(integrityKey);
    if (followed === undefined || followed.users.size > 0) return;
    this.#followed.delete(key);
    this.#end(followed);
  }

  #end({ stop, running }: Followed): void {
    stop.abort();
    const ending = running.finally(() => this.#ended.delete(ending));
    this.#ended.add(ending);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const followed of this.#followed.values()) this.#end(followed);
    this.#followed.clear();
    this.#named.clear();
    await Promise.all(this.#ended);
  }
}
