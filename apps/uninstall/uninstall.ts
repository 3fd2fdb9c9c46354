/** Removes Rampart from a cluster, step by step; if interrupted, it starts again and finds less to remove. */
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import { agentWorkload, operatorWorkload } from '../../guard/removal.ts';
import type { Leftovers } from '../../guard/leftovers.ts';
import {
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../guards/policy-audit/api.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import { type Resource, resourceType } from '../../lib/kube/crd/resource.ts';
import { deployments, namespaces, pods, type ResourceType } from '../../lib/kube/object/object.ts';
import { cleanNodes } from './agents.ts';
import { named, Remover } from './objects.ts';
import type { Selected } from './selected.ts';

export interface UninstallParts {
  readonly client: KubeClient;
  readonly guards: readonly Guard[];
  readonly keepObjects: boolean;
  /** Called before users' objects are deleted; if it throws, nothing is changed. */
  readonly confirm: (counts: ReadonlyMap<string, number>) => Promise<void>;
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
  /** How long to wait for a node without progress before giving up, in ms. Default: 2 min. */
  readonly stalledMs?: number;
  /** How long to wait for deleted objects, in ms. Default: 90 s, since deleting a namespace with all its objects takes time. */
  readonly goneMs?: number;
}

export interface Uninstalled {
  readonly removed: readonly string[];
  /** A line for each thing that is left. */
  readonly left: readonly string[];
  /** Whether all nodes are known to be clean: false without a DaemonSet of agents, since nothing is known of the nodes. */
  readonly areNodesClean: boolean;
}

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: false } as const;
const labelSelector = 'app.kubernetes.io/part-of=rampart';
export const clusterRoleBindings: ResourceType = {
  ...rbac,
  plural: 'clusterrolebindings',
  kind: 'ClusterRoleBinding',
};
const csiDrivers: ResourceType = {
  ...{ group: 'storage.k8s.io', version: 'v1', namespaced: false },
  plural: 'csidrivers',
  kind: 'CSIDriver',
};
/** Cluster-scoped objects of Rampart, besides definitions. Selected by label: bpfman's CSIDriver has the same name. */
const clusterWide = [
  { type: clusterRoleBindings, labelSelector },
  { type: { ...rbac, plural: 'clusterroles', kind: 'ClusterRole' }, labelSelector },
  { type: validatingAdmissionPolicyBindings, labelSelector },
  { type: validatingAdmissionPolicies, labelSelector },
  { type: csiDrivers, labelSelector },
] as const satisfies readonly Selected[];
export const operatorPods: Selected = {
  type: pods,
  namespace: systemNamespace,
  labelSelector: `app.kubernetes.io/name=${operatorWorkload.name}`,
};
const operator: Selected = {
  type: deployments,
  namespace: systemNamespace,
  fieldSelector: `metadata.name=${operatorWorkload.name}`,
};
const system: Selected = { type: namespaces, fieldSelector: `metadata.name=${systemNamespace}` };
const notCleaned =
  `nodes are not cleaned, as there is no DaemonSet ${agentWorkload.name}: install Rampart again and repeat this, ` +
  'or run `rampart uninstall node` on each of them';

/** Removes everything. If `signal` aborts, it still reports what was removed until then. */
export async function uninstall(parts: UninstallParts): Promise<Uninstalled> {
  const remover = new Remover(parts);
  const left: string[] = [];
  let areNodesClean = false;
  try {
    areNodesClean = await removeAll(parts, remover, left);
  } catch (error) {
    if (!parts.signal.aborted) throw error;
    left.push('all that comes later: stopped before the end; run it again');
  }
  return { removed: remover.removed, left, areNodesClean };
}

/** @returns whether the nodes are known to be clean */
async function removeAll(parts: UninstallParts, remover: Remover, left: string[]): Promise<boolean> {
  const { guards, keepObjects, confirm, say } = parts;
  const leftovers = await leftoversOf(guards);
  if (!keepObjects) await confirm(await usersObjects(remover, guards, leftovers));
  const gone = async (selected: Selected): Promise<void> =>
    void left.push(...(await remover.gone(selected)).filter((one) => !left.includes(one)));

  const webhooks = leftovers.flatMap((of) => of.webhooks ?? []);
  say('removing webhooks');
  for (const selected of webhooks) await remover.delete(selected);
  say('stopping the operator');
  await remover.delete(operator);
  await gone(operatorPods);
  // The operator may have restored webhooks before it stopped.
  for (const selected of webhooks) await remover.delete(selected);

  say('cleaning the nodes');
  const notClean = await cleanNodes(parts);
  const exists = async (selected: Selected): Promise<boolean> => (await remover.find(selected)).length > 0;
  if (notClean !== undefined) left.push(...notClean);
  else if (await exists(system)) left.push(`${notCleaned}, then delete the namespace ${systemNamespace}`);
  else if (await exists(clusterWide[0])) left.push(notCleaned);

  say('removing finalizers and derived objects');
  for (const { type, finalizers } of leftovers.flatMap((of) => of.finalizers ?? []))
    await remover.release(type, finalizers);
  if (keepObjects) for (const type of usersTypes(guards, leftovers)) await remover.forget(type);
  const derived = leftovers.flatMap((of) => of.objects ?? []);
  for (const selected of derived) await remover.delete(selected);

  const ofUsers = keepObjects ? [] : removedWithObjects(guards, leftovers);
  if (!keepObjects) say('removing definitions with their objects');
  for (const selected of ofUsers) await remover.delete(selected);
  say('removing roles and the namespace');
  for (const selected of clusterWide) await remover.delete(selected);
  // The namespace stays if nodes are not clean: the pods of its DaemonSet clean them as soon as they can, and the next uninstall reports
  // those nodes again.
  const isClean = notClean?.length === 0;
  if (isClean) await remover.delete(system);

  say('waiting until all is gone');
  const last = [...webhooks, ...derived, ...ofUsers, ...clusterWide];
  for (const selected of isClean ? [...last, system] : last) await gone(selected);
  for (const { type } of leftovers.flatMap((of) => (keepObjects ? [] : (of.finalizers ?? [])))) {
    for (const object of await remover.find({ type }))
      left.push(`${named(type, object)}, held by ${object.metadata.finalizers?.join(', ') ?? 'nobody'}`);
  }
  return isClean;
}

/** All objects that uninstall may delete. */
export function removedBy(guards: readonly Guard[], leftovers: readonly Leftovers[]): Selected[] {
  const own = leftovers.flatMap(({ webhooks = [], objects = [] }) => [...webhooks, ...objects]);
  return [...own, operator, ...removedWithObjects(guards, leftovers), ...clusterWide, system];
}

function removedWithObjects(guards: readonly Guard[], leftovers: readonly Leftovers[]): Selected[] {
  return [
    ...guards.flatMap(({ resources }) => resources).map(definitionOf),
    ...leftovers.flatMap((of) => of.namespaces ?? []),
  ];
}

export function leftoversOf(guards: readonly Guard[]): Promise<Leftovers[]> {
  return Promise.all(guards.map(async (guard) => (await guard.leftovers?.()) ?? {}));
}

/** The number of objects of each kind. */
async function usersObjects(
  remover: Remover,
  guards: readonly Guard[],
  leftovers: readonly Leftovers[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const type of usersTypes(guards, leftovers)) {
    const { length } = await remover.find({ type });
    if (length > 0) counts.set(nameOf(type), length);
  }
  return counts;
}

/** The kinds that users write, without those that guards derive from them. */
export function usersTypes(guards: readonly Guard[], leftovers: readonly Leftovers[]): ResourceType[] {
  const derived = new Set(leftovers.flatMap(({ objects = [] }) => objects.map(({ type }) => nameOf(type))));
  const types = guards.flatMap(({ resources }) => resources).map(storedType);
  return types.filter((type) => !derived.has(nameOf(type)));
}

function nameOf({ plural, group }: Pick<ResourceType, 'group' | 'plural'>): string {
  return `${plural}.${group}`;
}

function storedType(resource: Resource): ResourceType {
  const names = Object.keys(resource.versions);
  const stored = names.find((name) => resource.versions[name]?.storage === true) ?? names[0] ?? '';
  return resourceType(resource, stored);
}

function definitionOf(resource: Resource): Selected {
  return { type: customResourceDefinitions, fieldSelector: `metadata.name=${nameOf(resource)}` };
}
