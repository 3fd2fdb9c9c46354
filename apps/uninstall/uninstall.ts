/** Removes Rampart from a cluster, step by step; after an interruption, it begins again and finds less. */
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import type { Leftovers } from '../../guard/leftovers.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import { type Resource, resourceType } from '../../lib/kube/crd/resource.ts';
import { deployments, namespaces, pods, type ResourceType } from '../../lib/kube/object/object.ts';
import { cleanNodes } from './agents.ts';
import { named, Remover, type Selected } from './objects.ts';

export interface UninstallParts {
  readonly client: KubeClient;
  readonly guards: readonly Guard[];
  readonly keepObjects: boolean;
  /** Asked before users' objects are deleted; what it throws ends all before anything is changed. */
  readonly confirm: (counts: ReadonlyMap<string, number>) => Promise<void>;
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
  /** After which time without progress nodes are given up. Default: 2 min. */
  readonly stalledMs?: number;
  /** How long to wait for deleted objects. Default: 90 s, as a namespace with all its objects takes time. */
  readonly goneMs?: number;
}

export interface Uninstalled {
  readonly removed: readonly string[];
  /** A line for each thing that is left. */
  readonly left: readonly string[];
}

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: false } as const;
const operator = {
  ...{ namespace: systemNamespace, labelSelector: 'app.kubernetes.io/name=rampart-operator' },
};
const clusterRoles: readonly Selected[] = [
  { ...rbac, plural: 'clusterrolebindings', kind: 'ClusterRoleBinding' },
  { ...rbac, plural: 'clusterroles', kind: 'ClusterRole' },
].map((type) => ({ type, labelSelector: 'app.kubernetes.io/part-of=rampart' }));

/** What it has removed is told also of one that `signal` stops. */
export async function uninstall(parts: UninstallParts): Promise<Uninstalled> {
  const remover = new Remover(parts);
  const left: string[] = [];
  try {
    await removeAll(parts, remover, left);
  } catch (error) {
    if (!parts.signal.aborted) throw error;
    left.push('all that comes later: stopped before the end; run it again');
  }
  return { removed: remover.removed, left };
}

async function removeAll(parts: UninstallParts, remover: Remover, left: string[]): Promise<void> {
  const { guards, keepObjects, confirm, say } = parts;
  const leftovers = await Promise.all(guards.map(async (guard) => (await guard.leftovers?.()) ?? {}));
  if (!keepObjects) await confirm(await usersObjects(remover, guards, leftovers));
  const gone = async (selected: Selected): Promise<void> =>
    void left.push(...(await remover.gone(selected)).filter((one) => !left.includes(one)));

  const webhooks = leftovers.flatMap((of) => of.webhooks ?? []);
  say('removing webhooks');
  for (const selected of webhooks) await remover.delete(selected);
  say('stopping the operator');
  await remover.delete({ type: deployments, ...operator });
  await gone({ type: pods, ...operator });
  // Those that it has put back meanwhile.
  for (const selected of webhooks) await remover.delete(selected);

  say('cleaning the nodes');
  const system: Selected = { type: namespaces, fieldSelector: `metadata.name=${systemNamespace}` };
  const notClean = await cleanNodes(parts);
  if (notClean === undefined && (await remover.find(system)).length > 0)
    left.push(
      'nodes: without DaemonSet rampart-agent they are not cleaned; run `rampart uninstall node` on each',
    );
  left.push(...(notClean ?? []));

  say('removing finalizers and derived objects');
  for (const { type, finalizers } of leftovers.flatMap((of) => of.finalizers ?? []))
    await remover.release(type, finalizers);
  const derived = leftovers.flatMap((of) => of.objects ?? []);
  for (const selected of derived) await remover.delete(selected);

  const ofUsers = keepObjects
    ? []
    : [
        ...guards.flatMap(({ resources }) => resources).map(definitionOf),
        ...leftovers.flatMap((of) => of.namespaces ?? []),
      ];
  if (!keepObjects) say('removing definitions with their objects');
  for (const selected of ofUsers) await remover.delete(selected);
  say('removing roles and the namespace');
  for (const selected of clusterRoles) await remover.delete(selected);
  // Its pods clean nodes as soon as they can.
  const isClean = notClean === undefined || notClean.length === 0;
  if (isClean) await remover.delete(system);

  say('waiting until all is gone');
  const last = [...webhooks, ...derived, ...ofUsers, ...clusterRoles];
  for (const selected of isClean ? [...last, system] : last) await gone(selected);
  for (const { type } of leftovers.flatMap((of) => (keepObjects ? [] : (of.finalizers ?? [])))) {
    for (const object of await remover.find({ type }))
      left.push(`${named(type, object)}, held by ${object.metadata.finalizers?.join(', ') ?? 'nobody'}`);
  }
}

/** How many there are, by kind; what guards derive is not counted. */
async function usersObjects(
  remover: Remover,
  guards: readonly Guard[],
  leftovers: readonly Leftovers[],
): Promise<ReadonlyMap<string, number>> {
  const key = ({ plural, group }: ResourceType): string => `${plural}.${group}`;
  const derived = new Set(leftovers.flatMap(({ objects = [] }) => objects.map(({ type }) => key(type))));
  const counts = new Map<string, number>();
  for (const type of guards.flatMap(({ resources }) => resources).map(storedType)) {
    if (derived.has(key(type))) continue;
    const { length } = await remover.find({ type });
    if (length > 0) counts.set(key(type), length);
  }
  return counts;
}

function storedType(resource: Resource): ResourceType {
  const names = Object.keys(resource.versions);
  const stored = names.find((name) => resource.versions[name]?.storage === true) ?? names[0] ?? '';
  return resourceType(resource, stored);
}

function definitionOf({ plural, group }: Resource): Selected {
  return { type: customResourceDefinitions, fieldSelector: `metadata.name=${plural}.${group}` };
}
