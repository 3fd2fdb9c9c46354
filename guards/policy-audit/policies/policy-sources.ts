/** The objects that policies come from: objects of Kubewarden's kinds, and policies of Kubernetes with their bindings. */
import type { GuardContext } from '../../../guard/context.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import {
  type AnyKubewardenPolicy,
  kubewardenTypes,
  mutatingAdmissionPolicies,
  type MutatingAdmissionPolicy,
  mutatingAdmissionPolicyBindings,
  type MutatingAdmissionPolicyBinding,
  type ValidatingAdmissionPolicy,
  validatingAdmissionPolicies,
  type ValidatingAdmissionPolicyBinding,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import type { Policy } from './policy.ts';
import { readAdmissionPolicy, readKubewardenPolicy, readMutatingPolicy } from './read-policy.ts';

/** A source: its kind, and its key in the cache of that kind. */
export interface Source {
  readonly type: ResourceType;
  readonly key: string;
}

/** Excludes the policies in deploy/: they restrict who may write what, which no audit of an object can check. */
const notOurs = 'app.kubernetes.io/part-of!=rampart';

type Followed<T extends KubeObject> = Pick<
  IndexedCache<T>,
  'keys' | 'refused' | 'subscribe' | 'synced' | 'type'
>;

/** One kind of Kubernetes' policies, each of which applies through its bindings. */
interface Native {
  readonly policies: Followed<KubeObject>;
  readonly bindings: Followed<Binding>;
  /** The policy with this name, once for each of its bindings. @throws {RampartError} */
  readonly read: (name: string) => readonly Policy[];
}

type Binding = KubeObject & { readonly spec?: { readonly policyName?: string } };

export class PolicySources {
  readonly #caches: readonly IndexedCache<AnyKubewardenPolicy>[];
  readonly #native: readonly Native[];

  /** @param mutates - Whether MutatingAdmissionPolicies are evaluated here. In a cluster, the API server does that. */
  constructor(context: GuardContext, mutates: boolean) {
    this.#caches = kubewardenTypes.map((type) => context.cache<AnyKubewardenPolicy>({ type }));
    for (const cache of this.#caches) {
      context.health.ready(cache.type.plural, () =>
        cache.isSynced || cache.refusal === 'unserved' ? undefined : 'not listed yet',
      );
    }
    const native = <P extends KubeObject, B extends Binding>(
      type: ResourceType<P>,
      bindingType: ResourceType<B>,
      read: (policy: P, binding: B) => Policy,
    ): Native => {
      const policies = context.cache<P>({ type, labelSelector: notOurs });
      const bindings = context.cache<B>({
        ...{ type: bindingType, labelSelector: notOurs },
        indexes: { policy: policyOfBinding },
      });
      return {
        ...{ policies, bindings },
        read: (name) => {
          const policy = policies.get(name);
          if (policy === undefined) return [];
          return bindings.byIndex('policy', name).map((binding) => read(policy, binding));
        },
      };
    };
    this.#native = [
      native<ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding>(
        validatingAdmissionPolicies,
        validatingAdmissionPolicyBindings,
        readAdmissionPolicy,
      ),
      ...(mutates
        ? [
            native<MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding>(
              mutatingAdmissionPolicies,
              mutatingAdmissionPolicyBindings,
              readMutatingPolicy,
            ),
          ]
        : []),
    ];
  }

  /** Resolves when all kinds have been listed that are served and may be read. */
  async listed(): Promise<void> {
    const native = this.#native.flatMap(({ policies, bindings }) => [policies, bindings]);
    await Promise.all([...this.#caches.map(listedIfServed), ...native.map(listedOrRefused)]);
  }

  *kubewarden(): Generator<AnyKubewardenPolicy> {
    for (const cache of this.#caches) yield* cache.list();
  }

  *keys(): Generator<string> {
    for (const cache of [...this.#caches, ...this.#native.map(({ policies }) => policies)])
      for (const key of cache.keys()) yield sourceKey({ type: cache.type, key });
  }

  /** Called with the key of each source that has changed. */
  subscribe(stack: DisposableStack, changed: (key: string) => void): void {
    for (const cache of this.#caches)
      stack.use(cache.subscribe(({ key }) => changed(sourceKey({ type: cache.type, key }))));
    for (const { policies, bindings } of this.#native) {
      const { type } = policies;
      stack.use(policies.subscribe(({ key }) => changed(sourceKey({ type, key }))));
      stack.use(
        bindings.subscribe(({ object, previous }) => {
          for (const one of [object, previous]) {
            for (const key of one === undefined ? [] : policyOfBinding(one))
              changed(sourceKey({ type, key }));
          }
        }),
      );
    }
  }

  /** The object of a policy of Kubewarden's kinds. */
  object({ type, key }: Source): AnyKubewardenPolicy | undefined {
    return this.#caches.find((cache) => cache.type.plural === type.plural)?.get(key);
  }

  /** A policy of Kubewarden whose selectors cannot be parsed, read as if it had none. Undefined if the rest cannot be parsed either. */
  withoutSelectors(source: Source): Policy | undefined {
    const object = this.object(source);
    if (object === undefined) return undefined;
    const { namespaceSelector: _n, objectSelector: _o, ...spec } = object.spec as Record<string, unknown>;
    try {
      return readKubewardenPolicy({ ...object, spec: spec as unknown as AnyKubewardenPolicy['spec'] });
    } catch {
      return undefined;
    }
  }

  /** The policies from a source. @throws {RampartError} for an invalid selector. */
  read(source: Source): readonly Policy[] {
    const { type, key } = source;
    const native = this.#native.find(({ policies }) => policies.type.plural === type.plural);
    if (native !== undefined) return native.read(key);
    const object = this.object(source);
    return object === undefined ? [] : [readKubewardenPolicy(object)];
  }
}

/** Without Kubewarden's definitions, a cluster may still have ValidatingAdmissionPolicies. */
async function listedIfServed(cache: IndexedCache<AnyKubewardenPolicy>): Promise<void> {
  const refusal = await Promise.race([cache.synced, cache.refused]);
  if (refusal === 'forbidden') await cache.synced;
}

/** A cluster before 1.30 does not serve these kinds, and not every user may read them. */
async function listedOrRefused({ synced, refused }: Pick<IndexedCache<KubeObject>, 'refused' | 'synced'>) {
  await Promise.race([synced, refused]);
}

const policyOfBinding = ({ spec }: Binding): string[] => [spec?.policyName ?? ''];

/** `clusteradmissionpolicies/x`, `admissionpolicies/ns/x`. */
export function sourceKey({ type, key }: Source): string {
  return `${type.plural}/${key}`;
}

const sourceTypes: ReadonlyMap<string, ResourceType> = new Map(
  [...kubewardenTypes, validatingAdmissionPolicies, mutatingAdmissionPolicies].map((type) => [
    type.plural,
    type,
  ]),
);

/** The inverse of {@link sourceKey}. */
export function sourceOf(key: string): Source {
  const slash = key.indexOf('/');
  const type = sourceTypes.get(key.slice(0, slash));
  if (type === undefined) throw new TypeError(`no source ${key}`);
  return { type, key: key.slice(slash + 1) };
}
