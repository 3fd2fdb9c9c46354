/** Maintains users' objects of every kind and scope: their finalizer and their one condition. */
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import {
  type ControllerContext,
  done,
  requeueAfter,
  type Result,
  runController,
} from '../../../lib/kube/controller/controller.ts';
import {
  addFinalizer,
  hasFinalizer,
  isDeleting,
  removeFinalizer,
} from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import type { Node } from '../../../lib/kube/object/object.ts';
import { controllerOf } from '../../../lib/kube/object/owner-references.ts';
import { isOfKind, type NodeObject, type ParentKind, type ParentObject } from '../api.ts';
import { parentFinalizer } from '../engine/names.ts';
import { withCondition } from '../engine/node-condition.ts';
import { isHeld, parentCondition } from '../engine/parent-condition.ts';

export interface ParentControllerOptions extends ControllerContext {
  readonly parents: readonly { readonly kind: ParentKind; readonly cache: IndexedCache<ParentObject> }[];
  /** Caches of all per-node kinds, with the index `owner`. */
  readonly objects: readonly IndexedCache<NodeObject>[];
  readonly nodes: IndexedCache<Node>;
}

const WORKERS = 4;
/** After this time, the caches are read again: an object that an agent has just created may not be in them yet. */
const LOOK_AGAIN_MS = 1_000;

/** Runs until `signal` aborts; the caches must be synced. */
export async function runParentController(options: ParentControllerOptions): Promise<void> {
  const { parents, objects, nodes } = options;
  const { reconcile } = new ParentController(options);
  using queue = keyQueue();
  using stack = new DisposableStack();
  const addAll = (): void => {
    for (const { kind, cache } of parents)
      for (const key of cache.keys()) queue.add(`${kind.kind}/${key}`, { level: 1 });
  };
  for (const { kind, cache } of parents)
    stack.use(cache.subscribe(({ key }) => queue.add(`${kind.kind}/${key}`)));
  for (const cache of objects) {
    stack.use(
      cache.subscribe(({ object }) => {
        const owner = controllerOf(object);
        if (owner === undefined) return;
        const { namespace } = object.metadata;
        queue.add([owner.kind, ...(namespace === undefined ? [] : [namespace]), owner.name].join('/'));
      }),
    );
  }
  stack.use(
    nodes.subscribe(({ type }) => {
      if (type !== 'modified') addAll();
    }),
  );
  addAll();
  await runController({ ...options, name: 'bpf-programs-parents', queue, reconcile, workers: WORKERS });
}

class ParentController {
  readonly #options: ParentControllerOptions;

  constructor(options: ParentControllerOptions) {
    this.#options = options;
  }

  /** @param id - Such as `XdpNsProgram/web/count`. */
  readonly reconcile = async (id: string, signal: AbortSignal): Promise<Result> => {
    const slash = id.indexOf('/');
    const [name, key] = [id.slice(0, slash), id.slice(slash + 1)];
    const of = this.#options.parents.find(({ kind: one }) => one.kind === name && isOfKind(one, key));
    const parent = of?.cache.get(key);
    if (of === undefined || parent === undefined) return done;
    const { client } = this.#options;
    const { kind } = of;
    const objects = this.#objectsOf(kind, parent);
    if (isDeleting(parent)) {
      if (!hasFinalizer(parent, parentFinalizer)) return done;
      if (!isHeld(kind, objects)) {
        await removeFinalizer(client, kind.type, parent, parentFinalizer, { signal });
        return done;
      }
      await this.#setCondition(kind, parent, objects, signal);
      return requeueAfter(LOOK_AGAIN_MS);
    }
    const live = await addFinalizer(client, kind.type, parent, parentFinalizer, { signal });
    await this.#setCondition(kind, live, objects, signal);
    return done;
  };

  #objectsOf({ nodeType }: ParentKind, { metadata: { uid = '' } }: ParentObject): NodeObject[] {
    const cache = this.#options.objects.find(({ type }) => type.kind === nodeType.kind);
    return cache === undefined ? [] : [...cache.byIndex('owner', uid)];
  }

  #nodeLabels(): string[] {
    return [...this.#options.nodes.keys()].map(labelValue);
  }

  async #setCondition(
    kind: ParentKind,
    parent: ParentObject,
    objects: readonly NodeObject[],
    signal: AbortSignal,
  ): Promise<void> {
    const { generation = 0, name = '', namespace } = parent.metadata;
    const facts = { kind, deleting: isDeleting(parent), generation };
    const condition = parentCondition(facts, objects, this.#nodeLabels());
    const status = withCondition(parent.status, condition, generation);
    if (status === parent.status) return;
    const patch = { type: 'merge', body: { status } } as const;
    const target = { name, namespace, subresource: 'status' };
    await orUndefined(this.#options.client.patch(kind.type, target, patch, { signal }));
  }
}
