/**
 * Gives policies the objects in manifests where they would read from a cluster: parameters, the Namespace of an object,
 * and what a module requests. Objects that the manifests lack are read from a cluster, if there is one.
 */
import { fieldsMatch, parseFieldSelector } from '../../../lib/kube/selectors/field-selectors.ts';
import { type Labels, labelsMatch, parseLabelSelector } from '../../../lib/kube/selectors/selectors.ts';
import type { ClusterReader as CelReader } from '../engine/cel/cluster.ts';
import type { JsonObject } from '../engine/evaluator.ts';
import type {
  ClusterReader as HostReader,
  KindName,
  ListSelection,
} from '../engine/host-calls/cluster-reader.ts';
import { kindNameOf } from './kind-names.ts';
import type { Subject } from './subjects.ts';

interface Known {
  readonly object: JsonObject;
  readonly name: string;
  /** '' if it is cluster-scoped. */
  readonly namespace: string;
  readonly labels: Labels;
}

export class ManifestObjects {
  /** Keyed by `apiVersion kind`. */
  readonly #objects = new Map<string, Known[]>();

  /** @param subjects - Objects in reviews are ignored: they need not exist in the cluster. */
  constructor(subjects: readonly Subject[]) {
    for (const { request, kind, isReview } of subjects) {
      const { object, namespace = '', name = '' } = request;
      if (isReview || object === null || object === undefined || name === '') continue;
      const key = keyOf(object as unknown as KindName);
      const { labels = {} } = (object['metadata'] ?? {}) as { readonly labels?: Labels };
      const known = { object, name, namespace: kind.isNamespaced ? namespace : '', labels };
      this.#objects.set(key, [...(this.#objects.get(key) ?? []), known]);
    }
  }

  get(kind: KindName, name: string, namespace: string | undefined): JsonObject | undefined {
    return this.#of(kind).find(
      (one) => one.name === name && (one.namespace === '' || one.namespace === namespace),
    )?.object;
  }

  list(
    kind: KindName,
    { namespace, labelSelector = '', fieldSelector = '' }: ListSelection,
  ): readonly JsonObject[] {
    const labels = parseLabelSelector(labelSelector);
    const fields = parseFieldSelector(fieldSelector);
    return this.#of(kind)
      .filter(
        (one) =>
          (namespace === undefined || one.namespace === '' || one.namespace === namespace) &&
          labelsMatch(labels, one.labels) &&
          fieldsMatch(fields, (field) => valueAt(one.object, field)),
      )
      .map(({ object }) => object);
  }

  /** A reader for modules. @param behind - Reads from the cluster what the manifests lack. */
  hostReader(behind: HostReader | undefined): HostReader {
    return {
      get: async (kind, target, options) =>
        this.get(kind, target.name, target.namespace) ??
        (behind === undefined ? absent(kind, target.name) : await behind.get(kind, target, options)),
      list: async (kind, selection, options) =>
        this.#with(kind, selection, (await behind?.list(kind, selection, options)) ?? []),
      plural: async (kind, options) =>
        (await behind?.plural(kind, options)) ?? kindNameOf(kind.apiVersion, kind.kind, true).resource,
      canI: async (spec, options) => {
        if (behind !== undefined) return behind.canI(spec, options);
        throw new Error('there is no cluster to ask about permissions: name one with --kubeconfig');
      },
    };
  }

  /** A reader for expressions. @param behind - Reads from the cluster what the manifests lack. */
  celReader(behind: CelReader | undefined): CelReader {
    return {
      get: (reference, signal) =>
        this.get(reference, reference.name, reference.namespace) ??
        (behind === undefined ? absent(reference, reference.name) : behind.get(reference, signal)),
      list: async (reference, signal) => {
        const list = (await behind?.list(reference, signal)) ?? {};
        const items = Array.isArray(list['items']) ? (list['items'] as JsonObject[]) : [];
        return { ...list, items: this.#with(reference, reference, items) };
      },
    };
  }

  /** Objects of the manifests replace those of the cluster. */
  #with(kind: KindName, selection: ListSelection, items: readonly JsonObject[]): readonly JsonObject[] {
    const isKnown = (item: JsonObject): boolean => {
      const { name = '', namespace } = (item['metadata'] ?? {}) as Record<string, string | undefined>;
      return this.get(kind, name, namespace) !== undefined;
    };
    return [...this.list(kind, selection), ...items.filter((item) => !isKnown(item))];
  }

  #of(kind: KindName): readonly Known[] {
    return this.#objects.get(keyOf(kind)) ?? [];
  }
}

/**
 * Without a cluster, an object that is not in the manifests does not exist; but a missing Namespace is an error, since objects have one.
 *
 * @throws {Error}
 */
function absent({ apiVersion, kind }: KindName, name: string): undefined {
  if (apiVersion !== 'v1' || kind !== 'Namespace') return undefined;
  throw new Error(
    `the Namespace ${name} is not among the manifests: add it with --resource, or name a cluster with --kubeconfig`,
  );
}

function keyOf({ apiVersion, kind }: KindName): string {
  return `${apiVersion} ${kind}`;
}

function valueAt(object: JsonObject, field: string): string {
  const value = field
    .split('.')
    .reduce<unknown>((at, name) => (at as JsonObject | undefined)?.[name], object);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : '';
}
