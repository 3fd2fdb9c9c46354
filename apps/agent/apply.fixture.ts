/**
 * The effect of `kubectl apply -f -` for tests that are not about kubectl: starting that takes a third of a
 * second of CPU time.
 */
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import type { KubeObject } from '../../lib/kube/object/object.ts';
import { type ManifestObject, parseManifest } from '../../lib/manifests/document.ts';
import { Kinds } from '../../lib/manifests/kinds.ts';

const PATIENCE_MS = 60_000;

type Applied = ManifestObject['object'];

/** Applies YAML, JSON, an object or several in their order, a List too; returns when what they define is served. */
export async function applyManifest(client: KubeClient, manifest: string | object): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const kinds = new Kinds(client);
  for (const object of objectsOf(manifest)) {
    const { apiVersion, kind, metadata } = object;
    const type = await kinds.find(apiVersion, kind, signal);
    if (type === undefined) throw new Error(`there is no ${kind} in ${apiVersion}`);
    const one: KubeObject = {
      ...object,
      metadata: { ...metadata, ...(type.namespaced && { namespace: metadata.namespace ?? 'default' }) },
    };
    await client.apply(type, one, { fieldManager: 'test', force: true, fieldValidation: 'Strict', signal });
    if (type.group !== customResourceDefinitions.group) continue;
    await established(client, metadata.name ?? '', { timeoutMs: PATIENCE_MS, signal });
    kinds.forget();
  }
}

/** Objects are not written as text and parsed again: for deploy/ that takes longer than the server needs to take it. */
function objectsOf(manifest: string | object): readonly Applied[] {
  if (Array.isArray(manifest)) return manifest as readonly Applied[];
  const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
  const { objects, problems } = parseManifest(text, 'manifest');
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return objects.map(({ object }) => object);
}
