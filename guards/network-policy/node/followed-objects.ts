/** Passes the objects of the API to the engine. */
import type { NodeContext } from '../../../guard/context.ts';
import { fieldsOf, nodeFacts, podFacts } from '../../../lib/kube/object/facts.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import {
  type KubeObject,
  type Namespace,
  namespaces,
  nodes,
  type ObjectMeta,
  type Pod,
  pods,
} from '../../../lib/kube/object/object.ts';
import { type NetworkPolicy, networkPolicies } from '../api.ts';
import type { PolicyEngine } from '../engine/engine.ts';
import { monitorAnnotation } from '../engine/monitor.ts';
import type { PodObject, PolicyObject } from '../engine/objects.ts';

/**
 * Limit of the parsed objects that a cache keeps: the engine holds the facts that it and the status need, so
 * objects are rarely read again.
 */
const FEW = 16;

export interface FollowedObjects extends Disposable {
  readonly policies: IndexedCache<NetworkPolicy>;
  readonly pods: IndexedCache<Pod>;
  readonly namespaces: IndexedCache<Namespace>;
  readonly caches: readonly IndexedCache<never>[];
  /** The latest `resourceVersion` of a policy; undefined without policies, or if versions are not numbers. */
  policiesVersion(): string | undefined;
  /** Call once, when the caches are synced: `onChange` is called after each change from then on. */
  begin(onChange: () => void): void;
}

/**
 * The engine gets objects as they arrive, while others are still being listed.
 *
 * @param podCidrs - Pod CIDRs of this node; if empty, those of the Node object.
 */
export function followObjects(
  context: NodeContext,
  engine: PolicyEngine,
  podCidrs: readonly string[],
): FollowedObjects {
  const { nodeName } = context;
  const policies = context.cache<NetworkPolicy>(
    { type: networkPolicies, projection: policyFacts, parsedLimit: FEW },
    'networkpolicies',
  );
  const allPods = context.cache({ type: pods, projection: podFacts, parsedLimit: FEW }, 'pods');
  const allNamespaces = context.cache(
    { type: namespaces, projection: namespaceFacts, parsedLimit: FEW },
    'namespaces',
  );
  const node = context.cache(
    { type: nodes, projection: nodeFacts, fieldSelector: `metadata.name=${nodeName}`, parsedLimit: 1 },
    'node',
  );
  const stack = new DisposableStack();
  const setCidrs = (): void => {
    const spec = node.get(nodeName)?.spec;
    const reported = spec?.podCIDRs ?? (spec?.podCIDR === undefined ? [] : [spec.podCIDR]);
    engine.setPodCidrs(podCidrs.length > 0 ? podCidrs : reported);
  };
  let notify = (): void => undefined;
  const follow = <T extends KubeObject>(
    cache: IndexedCache<T>,
    upsert: (object: T) => void,
    remove: (key: string) => void,
  ): void => {
    stack.use(
      cache.subscribe(({ type, key, object }) => {
        if (type === 'deleted') remove(key);
        else upsert(object);
        notify();
      }),
    );
    // The cache may already have objects, since another guard subscribed to it earlier.
    for (const object of cache.list()) upsert(object);
  };
  follow(
    allNamespaces,
    (object) => engine.upsertNamespace(object),
    (key) => engine.removeNamespace(key),
  );
  follow(
    allPods,
    (object) => engine.upsertPod(object as PodObject),
    (key) => engine.removePod(key),
  );
  follow(
    policies,
    (object) => engine.upsertPolicy(object as PolicyObject),
    (key) => engine.removePolicy(key),
  );
  follow(node, setCidrs, setCidrs);
  // The CIDRs from the options are known before the API answers.
  setCidrs();
  return {
    policies,
    pods: allPods,
    namespaces: allNamespaces,
    caches: [policies, allPods, allNamespaces, node] as unknown as IndexedCache<never>[],
    policiesVersion: latestVersion(policies, stack),
    begin(onChange) {
      notify = onChange;
    },
    [Symbol.dispose]: () => stack.dispose(),
  };
}

/** Goes through all objects, but only after a change. */
function latestVersion(cache: IndexedCache<NetworkPolicy>, stack: DisposableStack): () => string | undefined {
  let latest: number | undefined;
  let isStale = true;
  stack.use(cache.subscribe(() => void (isStale = true)));
  return () => {
    if (isStale) {
      const versions = [...cache.keys()].map((key) => Number(cache.versionOf(key)));
      latest = versions.length === 0 ? undefined : Math.max(...versions);
      isStale = false;
    }
    return Number.isSafeInteger(latest) ? String(latest) : undefined;
  };
}

function policyFacts(policy: NetworkPolicy): NetworkPolicy {
  const { annotations: _all, ...metadata } = policy.metadata;
  return { ...policy, metadata: { ...metadata, ...readAnnotations(policy.metadata) } };
}

/** Drops the annotations that are not read: kubectl keeps a copy of the entire object in one of them. */
function readAnnotations({ annotations }: ObjectMeta): Pick<ObjectMeta, 'annotations'> {
  const value = annotations?.[monitorAnnotation];
  return value === undefined ? {} : { annotations: { [monitorAnnotation]: value } };
}

function namespaceFacts(namespace: Namespace): Namespace {
  return {
    ...fieldsOf(namespace, ['apiVersion', 'kind']),
    metadata: {
      ...fieldsOf(namespace.metadata, ['name', 'uid', 'resourceVersion', 'labels']),
      ...readAnnotations(namespace.metadata),
    },
  };
}
