/** The API of a `rampart standalone` that does not run, from the files in its directory. */
import { join, resolve } from 'node:path';

import { StoredObjects } from '../../lib/apiserver/store/stored-objects.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { errorFromStatus } from '../../lib/kube/client/client-errors.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import type { KubeObject, ResourceType } from '../../lib/kube/object/object.ts';
import { labelsMatch, parseLabelSelector } from '../../lib/kube/selectors/selectors.ts';

/** The report's access to an API. */
export type ReadApi = Pick<KubeClient, 'get' | 'getPath' | 'list' | 'listItems'>;

type Target = Parameters<ReadApi['listItems']>[1];

export class StoredApi implements ReadApi, Disposable {
  readonly #objects: StoredObjects;

  /** @throws {RampartError} `SYSTEM`, `UNSUPPORTED` if the stored objects cannot be read */
  constructor(directory: string) {
    this.#objects = new StoredObjects(join(resolve(directory), 'api.db'));
  }

  get<T extends KubeObject>(type: ResourceType<T>, target: Parameters<ReadApi['get']>[1]): Promise<T> {
    const text = this.#objects.get(storeName(type), target.namespace ?? '', target.name);
    return text === undefined
      ? Promise.reject(notFound(`get ${type.plural} ${target.name}`))
      : Promise.resolve(JSON.parse(text) as T);
  }

  /** Always fails: a stored API has objects only. */
  getPath(path: string): Promise<never> {
    return Promise.reject(notFound(`get ${path}`));
  }

  async list<T extends KubeObject>(
    type: ResourceType<T>,
    target: Target = {},
    options: Parameters<ReadApi['list']>[2] = {},
  ): ReturnType<typeof KubeClient.prototype.list<T>> {
    const items: T[] = [];
    await this.listItems(type, target, { ...options, onItem: (text) => items.push(JSON.parse(text) as T) });
    return { metadata: {}, items };
  }

  listItems(
    type: ResourceType,
    { namespace }: Target,
    { labelSelector = '', onItem }: Pick<Parameters<ReadApi['listItems']>[2], 'labelSelector' | 'onItem'>,
  ): Promise<{ resourceVersion?: string }> {
    if (!this.#serves(type)) return Promise.reject(notFound(`list ${type.plural}`));
    const selector = parseLabelSelector(labelSelector);
    for (const text of this.#objects.texts(storeName(type), namespace)) {
      const { metadata } = JSON.parse(text) as KubeObject;
      if (labelsMatch(selector, metadata.labels)) onItem(text);
    }
    return Promise.resolve({});
  }

  /** Whether the API serves the kind. A group with a domain of its own comes from CustomResourceDefinitions. */
  #serves({ group, plural }: ResourceType): boolean {
    if (!group.includes('.') || group.endsWith('.k8s.io')) return true;
    const name = `${plural}.${group}`;
    return this.#objects.get(storeName(customResourceDefinitions), '', name) !== undefined;
  }

  [Symbol.dispose](): void {
    this.#objects[Symbol.dispose]();
  }
}

function storeName({ group, plural }: Pick<ResourceType, 'group' | 'plural'>): string {
  return group === '' ? plural : `${plural}.${group}`;
}

function notFound(what: string): Error {
  return errorFromStatus(what, { code: 404, reason: 'NotFound', message: 'it is not in the store' });
}
