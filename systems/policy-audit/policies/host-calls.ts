/**
 * What policies may ask of the cluster, from the API: the kinds that they are granted, and nothing else.
 *
 * @module
 */
import { isObject } from '../../../shared/cel/json.ts';
import type { ClusterReader } from '../engine/cel/cluster.ts';
import type { HostCalls, JsonObject } from '../engine/evaluator.ts';
import type { ContextAwareResource } from '../engine/program.ts';

const CALL_MS = 5000;

export function clusterHostCalls(
  cluster: ClusterReader,
): (allowed: readonly ContextAwareResource[]) => HostCalls {
  return (allowed) => ({
    async call({ namespace: area, operation }, payload, signal) {
      if (area !== 'kubernetes') throw new Error(`the host does not answer ${area}/${operation}`);
      const asked = objectOf(payload);
      const [apiVersion, kind] = [text(asked, 'api_version'), text(asked, 'kind')];
      if (!allowed.some((one) => one.apiVersion === apiVersion && one.kind === kind)) {
        throw new Error(
          `Policy has not been granted access to Kubernetes ${apiVersion}/${kind} resources. The violation has been reported.`,
        );
      }
      const time = AbortSignal.timeout(CALL_MS);
      const ended = signal === undefined ? time : AbortSignal.any([signal, time]);
      const [namespace, name] = [text(asked, 'namespace'), text(asked, 'name')];
      const within = namespace === '' ? {} : { namespace };
      if (operation === 'get_resource') {
        const found = await cluster.get({ apiVersion, kind, name, ...within }, ended);
        if (found === undefined) throw new Error(`${kind} ${name} not found`);
        return encode(found);
      }
      if (operation === 'list_resources_by_namespace' || operation === 'list_resources_all') {
        const [labelSelector, fieldSelector] = [text(asked, 'label_selector'), text(asked, 'field_selector')];
        const reference = {
          ...{ apiVersion, kind },
          ...within,
          ...(labelSelector !== '' && { labelSelector }),
          ...(fieldSelector !== '' && { fieldSelector }),
        };
        return encode(await cluster.list(reference, ended));
      }
      throw new Error(`the host does not answer ${area}/${operation}`);
    },
  });
}

function objectOf(payload: Uint8Array): JsonObject {
  const value: unknown = JSON.parse(Buffer.from(payload).toString());
  if (!isObject(value)) throw new Error('the payload of a host call is no object');
  return value;
}

function text(object: JsonObject, field: string): string {
  const value = object[field];
  return typeof value === 'string' ? value : '';
}

function encode(value: JsonObject): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}
