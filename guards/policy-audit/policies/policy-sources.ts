/** The objects that policies come from: those of Kubewarden's kinds, and ValidatingAdmissionPolicies with their bindings. */
import type { GuardContext } from '../../../guard/context.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import {
  type AnyKubewardenPolicy,
  kubewardenTypes,
  type ValidatingAdmissionPolicy,
  validatingAdmissionPolicies,
  type ValidatingAdmissionPolicyBinding,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import type { Policy } from './policy.ts';
import { readAdmissionPolicy, readKubewardenPolicy } from './read-policy.ts';

/** The kind, and the key in its cache. */
export interface Source {
  readonly type: ResourceType;
  readonly key: string;
}

/** Those of deploy/ say who may write what: that is no property of an object. */
const notOurs = 'app.kubernetes.io/part-of!=rampart';

export class PolicySources {
  readonly #caches: readonly IndexedCache<AnyKubewardenPolicy>[];
  readonly #admissionPolicies: IndexedCache<ValidatingAdmissionPolicy>;
  readonly #bindings: IndexedCache<ValidatingAdmissionPolicyBinding>;

  constructor(context: GuardContext) {
    this.#caches = kubewardenTypes.map((type) => context.cache<AnyKubewardenPolicy>({ type }));
    for (const cache of this.#caches) {
      context.health.ready(cache.type.plural, () =>
        cache.isSynced || cache.refusal === 'unserved' ? undefined : 'not listed yet',
      );
    }
    this.#admissionPolicies = context.cache({ type: validatingAdmissionPolicies, labelSelector: notOurs });
    this.#bindings = context.cache({
      ...{ type: validatingAdmissionPolicyBindings, labelSelector: notOurs },
      indexes: { policy: policyOfBinding },
    });
  }

  /** Resolves when all are listed that are served, and that may be. */
  async listed(): Promise<void> {
    const ofKubernetes = [this.#admissionPolicies, this.#bindings];
    await Promise.all([...this.#caches.map(listedIfServed), ...ofKubernetes.map(listedOrRefused)]);
  }

  *kubewarden(): Generator<AnyKubewardenPolicy> {
    for (const cache of this.#caches) yield* cache.list();
  }

  *keys(): Generator<string> {
    for (const cache of this.#caches)
      for (const key of cache.keys()) yield sourceKey({ type: cache.type, key });
    for (const key of this.#admissionPolicies.keys()) yield ofAdmission(key);
  }

  /** Called with the key of each source that has changed. */
  subscribe(stack: DisposableStack, changed: (key: string) => void): void {
    for (const cache of this.#caches)
      stack.use(cache.subscribe(({ key }) => changed(sourceKey({ type: cache.type, key }))));
    stack.use(this.#admissionPolicies.subscribe(({ key }) => changed(ofAdmission(key))));
    stack.use(
      this.#bindings.subscribe(({ object, previous }) => {
        for (const one of [object, previous]) {
          for (const name of one === undefined ? [] : policyOfBinding(one)) changed(ofAdmission(name));
        }
      }),
    );
  }

  /** Of Kubewarden's kinds. */
  object({ type, key }: Source): AnyKubewardenPolicy | undefined {
    return this.#caches.find((cache) => cache.type.plural === type.plural)?.get(key);
  }

  /** @throws {RampartError} for an invalid selector. */
  read(source: Source): readonly Policy[] {
    const { type, key } = source;
    if (type.plural === validatingAdmissionPolicies.plural) {
      const policy = this.#admissionPolicies.get(key);
      if (policy === undefined) return [];
      return this.#bindings.byIndex('policy', key).map((binding) => readAdmissionPolicy(policy, binding));
    }
    const object = this.object(source);
    return object === undefined ? [] : [readKubewardenPolicy(object)];
  }
}

/** A cluster without Kubewarden's definitions has ValidatingAdmissionPolicies. */
async function listedIfServed(cache: IndexedCache<AnyKubewardenPolicy>): Promise<void> {
  const refusal = await Promise.race([cache.synced, cache.refused]);
  if (refusal === 'forbidden') await cache.synced;
}

/** A cluster before 1.30 does not serve them, and not everybody may read them. */
async function listedOrRefused({ synced, refused }: Pick<IndexedCache<KubeObject>, 'refused' | 'synced'>) {
  await Promise.race([synced, refused]);
}

const policyOfBinding = ({ spec }: ValidatingAdmissionPolicyBinding): string[] => [spec?.policyName ?? ''];

const ofAdmission = (key: string): string => sourceKey({ type: validatingAdmissionPolicies, key });

/** `clusteradmissionpolicies/x`, `admissionpolicies/ns/x`. */
export function sourceKey({ type, key }: Source): string {
  return `${type.plural}/${key}`;
}

const sourceTypes: ReadonlyMap<string, ResourceType> = new Map(
  [...kubewardenTypes, validatingAdmissionPolicies].map((type) => [type.plural, type]),
);

/** The inverse of {@link sourceKey}. */
export function sourceOf(key: string): Source {
  const slash = key.indexOf('/');
  const type = sourceTypes.get(key.slice(0, slash));
  if (type === undefined) throw new TypeError(`no source ${key}`);
  return { type, key: key.slice(slash + 1) };
}
