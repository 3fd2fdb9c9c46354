/** What CEL policies read from the cluster, through the API. */
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import type { Namespace, ResourceType } from '../../../lib/kube/object/object.ts';
import type { ClusterReader } from '../engine/cel/cluster.ts';
import type { JsonObject } from '../engine/evaluator.ts';
import { servedType } from '../engine/host-calls/kube-reader.ts';

/** By `apiVersion kind`. */
const MAX_KINDS = 1024;

/** @param namespace a Namespace, if it is known without a request. */
export function clusterReader(
  client: KubeClient,
  namespace: (name: string) => Namespace | undefined = () => undefined,
): ClusterReader {
  const kinds = new Map<string, ResourceType>();
  const typeOf = async (apiVersion: string, kind: string, signal: AbortSignal): Promise<ResourceType> => {
    const key = `${apiVersion} ${kind}`;
    const known = kinds.get(key);
    if (known !== undefined) return known;
    const type = await servedType(client, { apiVersion, kind }, signal);
    if (type === undefined) throw new Error(`the API does not serve ${kind} of ${apiVersion}`);
    if (kinds.size >= MAX_KINDS) kinds.clear();
    kinds.set(key, type);
    return type;
  };
  const read = async (
    apiVersion: string,
    kind: string,
    within: string | undefined,
    name: string,
    signal: AbortSignal,
  ): Promise<JsonObject | undefined> => {
    const type = await typeOf(apiVersion, kind, signal);
    const where = type.namespaced && within !== undefined ? { namespace: within } : {};
    return (await orUndefined(client.get(type, { ...where, name }, { signal }))) as JsonObject | undefined;
  };
  return {
    get({ apiVersion, kind, namespace: within, name }, signal) {
      const known = apiVersion === 'v1' && kind === 'Namespace' ? namespace(name) : undefined;
      if (known !== undefined) return known as unknown as JsonObject;
      return read(apiVersion, kind, within, name, signal);
    },
    async list({ apiVersion, kind, namespace: within, labelSelector, fieldSelector }, signal) {
      const type = await typeOf(apiVersion, kind, signal);
      const where = type.namespaced && within !== undefined ? { namespace: within } : {};
      return (await client.list(type, where, {
        labelSelector,
        fieldSelector,
        signal,
      })) as unknown as JsonObject;
    },
  };
}
