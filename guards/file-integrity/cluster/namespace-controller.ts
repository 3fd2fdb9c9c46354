/**
 * Prepares namespaces with FileIntegrity objects: the key that baselines are signed with, and the agents' rights on
 * ConfigMaps. In other namespaces, agents have no such rights.
 */
import { managedLabels } from '../../../guard/managed-by.ts';
import { randomBytes } from 'node:crypto';

import { isAlreadyExists, isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { type KubeObject, type RoleBinding, roleBindings, secrets } from '../../../lib/kube/object/object.ts';
import { agentRole, baselineKeySecret } from './caches.ts';
import { type AgentAccount, type ClusterContext, fieldManager } from './context.ts';

const baselineKeyName = 'hmac-sha256';

const KEY_BYTES = 32;

/** Runs until `signal` aborts; the caches are synced. */
export async function runNamespaceController(context: ClusterContext): Promise<void> {
  const { caches } = context;
  using queue = keyQueue();
  using stack = new DisposableStack();
  const addOf = ({ object }: { readonly object: KubeObject }): void =>
    queue.add(object.metadata.namespace ?? '');
  for (const { integrities } of caches.groups) {
    stack.use(integrities.subscribe(addOf));
    for (const namespace of integrities.indexValues('namespace')) queue.add(namespace, { level: 1 });
  }
  for (const cache of [caches.secrets, caches.bindings]) stack.use(cache.subscribe(addOf));
  // Namespaces whose last FileIntegrity was deleted while no operator ran.
  for (const { metadata } of caches.bindings.list()) queue.add(metadata.namespace ?? '', { level: 1 });
  await runController({
    ...{ ...context, name: 'file-integrity-namespaces', queue },
    reconcile: (namespace, stop) => reconcile(context, namespace, stop),
  });
}

async function reconcile(context: ClusterContext, namespace: string, signal: AbortSignal): Promise<Result> {
  const { caches } = context;
  const isUsed = caches.groups.some(({ integrities }) =>
    integrities.byIndex('namespace', namespace).some((one) => !isDeleting(one)),
  );
  if (!isUsed) {
    // The Secret is kept: baselines on the nodes are signed with it, and if the FileIntegrity is created again, they
    // are used again.
    if (caches.bindings.has(`${namespace}/${agentRole}`)) await removeBinding(context, namespace, signal);
    return done;
  }
  try {
    await ensureSecret(context, namespace, signal);
    await ensureBinding(context, namespace, signal);
  } catch (error) {
    // The namespace is gone, and its objects are being deleted.
    if (!isNotFound(error)) throw error;
  }
  return done;
}

/** The key is never changed: with another key, every baseline would count as forged. */
async function ensureSecret(
  { client, caches, logger }: ClusterContext,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  if (caches.secrets.has(`${namespace}/${baselineKeySecret}`)) return;
  const secret = {
    metadata: { namespace, name: baselineKeySecret },
    type: 'Opaque',
    data: { [baselineKeyName]: randomBytes(KEY_BYTES).toString('base64') },
  };
  try {
    await client.create(secrets, secret, { fieldManager, signal });
    logger.info({ namespace, secret: baselineKeySecret }, 'created the baseline signing key');
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

function bindingOf(namespace: string, agents: AgentAccount): RoleBinding {
  return {
    metadata: { namespace, name: agentRole, labels: managedLabels },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: agentRole },
    subjects: [{ kind: 'ServiceAccount', namespace: agents.namespace, name: agents.serviceAccount }],
  };
}

async function ensureBinding(context: ClusterContext, namespace: string, signal: AbortSignal): Promise<void> {
  const { client, caches, agents } = context;
  const wanted = bindingOf(namespace, agents);
  const found = caches.bindings.get(`${namespace}/${agentRole}`);
  if (found !== undefined) {
    if (isSame(found, wanted)) return;
    // The role reference of a RoleBinding cannot be changed.
    await removeBinding(context, namespace, signal);
  }
  await client.create(roleBindings, wanted, { fieldManager, signal }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });
}

function isSame(a: RoleBinding, b: RoleBinding): boolean {
  const facts = ({ roleRef, subjects = [] }: RoleBinding): string =>
    JSON.stringify([
      [roleRef.apiGroup, roleRef.kind, roleRef.name],
      subjects.map(({ kind, namespace, name }) => [kind, namespace, name]),
    ]);
  return facts(a) === facts(b);
}

async function removeBinding(
  { client }: ClusterContext,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  await orUndefined(client.delete(roleBindings, { namespace, name: agentRole }, { signal }));
}
