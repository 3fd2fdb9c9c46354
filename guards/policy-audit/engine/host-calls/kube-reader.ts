/**
 * Reads a cluster through its API. Answers are cached for some seconds, so that a scan of a thousand pods does not
 * fetch the same Namespace a thousand times; upstream's policy server does the same.
 */
import { apiResources } from '../../../../lib/kube/client/discovery.ts';
import type { KubeClient } from '../../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../../lib/kube/client/client-errors.ts';
import { clusterKind, type KubeObject, type ResourceType } from '../../../../lib/kube/object/object.ts';
import type { Clock } from '../../../../lib/time/clock.ts';
import { SingleFlightCache } from '../../../../lib/time/single-flight-cache.ts';
import type { JsonObject } from '../evaluator.ts';
import type { ClusterReader, KindName, ListSelection, ReadOptions } from './cluster-reader.ts';

/** How long one answer is kept. */
const keptMs = 5000;
/** Limit of cached answers; the oldest is evicted first. */
const keptAnswers = 256;
/** Items of a list that are requested at a time. */
const pageSize = 500;

const subjectAccessReviews = clusterKind(
  'authorization.k8s.io',
  'subjectaccessreviews',
  'SubjectAccessReview',
);

type Client = Pick<KubeClient, 'get' | 'getPath' | 'list' | 'create'>;

export class KubeClusterReader implements ClusterReader {
  readonly #client: Client;
  readonly #answers: SingleFlightCache<unknown>;
  /** Cached, since the served kinds rarely change. Kinds that were not found are looked up again. */
  readonly #types = new Map<string, ResourceType>();

  constructor(client: Client, clock?: Pick<Clock, 'monotonicMs'>) {
    this.#client = client;
    this.#answers = new SingleFlightCache({
      ...{ fresh: { sinceStartMs: keptMs }, maxEntries: keptAnswers, ...(clock && { clock }) },
    });
  }

  async get(
    kind: KindName,
    { name, namespace }: { readonly name: string; readonly namespace?: string | undefined },
    options: ReadOptions = {},
  ): Promise<JsonObject | undefined> {
    const type = await this.#typeOf(kind);
    if (type.namespaced && namespace === undefined) {
      throw new Error(`Resource ${named(kind)} is namespaced, but no namespace was provided`);
    }
    const target = { name, namespace: type.namespaced ? namespace : undefined };
    return this.#once(
      ['get', kind.apiVersion, kind.kind, target.namespace, name],
      options,
      async (signal) => {
        const object = await orUndefined(this.#client.get(type, target, { signal }));
        return object && withType(object, kind);
      },
    );
  }

  async list(
    kind: KindName,
    { namespace, labelSelector, fieldSelector }: ListSelection,
    options: ReadOptions = {},
  ): Promise<readonly JsonObject[]> {
    const type = await this.#typeOf(kind);
    if (namespace !== undefined && !type.namespaced) {
      throw new Error(`resource ${named(kind)} is cluster wide. Cannot search for it inside of a namespace`);
    }
    const key = ['list', kind.apiVersion, kind.kind, namespace, labelSelector, fieldSelector];
    return this.#once(key, options, async (signal) => {
      const found: JsonObject[] = [];
      let next: string | undefined;
      do {
        const page = await this.#client.list(
          type,
          { namespace },
          { labelSelector, fieldSelector, limit: pageSize, continue: next, signal },
        );
        for (const object of page.items) found.push(withType(object, kind));
        next = page.metadata.continue === '' ? undefined : page.metadata.continue;
      } while (next !== undefined);
      return found;
    });
  }

  async plural(kind: KindName): Promise<string> {
    return (await this.#typeOf(kind)).plural;
  }

  async canI(spec: JsonObject, options: ReadOptions = {}): Promise<JsonObject> {
    return this.#once(['can_i', JSON.stringify(spec)], options, async (signal) => {
      const review = { metadata: {}, spec } as unknown as KubeObject;
      const made = await this.#client.create(subjectAccessReviews, review, { signal });
      const { status } = made as KubeObject & { readonly status?: JsonObject };
      if (status === undefined) throw new Error('SubjectAccessReview did not return a response');
      return status;
    });
  }

  #once<T>(
    key: readonly unknown[],
    { fresh: isAnew = false, signal }: ReadOptions,
    ask: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#answers.get(JSON.stringify(key), ask, { isAnew, signal }) as Promise<T>;
  }

  async #typeOf(kind: KindName): Promise<ResourceType> {
    const known = this.#types.get(named(kind));
    if (known !== undefined) return known;
    const type = await orUndefined(servedType(this.#client as KubeClient, kind));
    if (type === undefined) throw new Error(`Cannot find resource ${named(kind)}`);
    this.#types.set(named(kind), type);
    return type;
  }
}

/** The kind as served by the API; undefined if its group does not contain it. @throws {KubeError} a 404 if the group does not exist */
export async function servedType(
  client: KubeClient,
  { apiVersion, kind }: KindName,
  signal?: AbortSignal,
): Promise<ResourceType | undefined> {
  const [first = '', second] = apiVersion.split('/', 2);
  const [group, version] = second === undefined ? ['', first] : [first, second];
  const served = await apiResources(client, { group, version }, { signal });
  const found = served.find((resource) => resource.kind === kind && !resource.name.includes('/'));
  return found && { group, version, plural: found.name, kind, namespaced: found.namespaced };
}

function named({ apiVersion, kind }: KindName): string {
  return `${apiVersion}/${kind}`;
}

/** Adds apiVersion and kind, which items of a list do not have. */
function withType(object: KubeObject, { apiVersion, kind }: KindName): JsonObject {
  return { apiVersion, kind, ...object };
}
