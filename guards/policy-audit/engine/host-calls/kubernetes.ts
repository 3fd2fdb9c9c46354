/** `kubernetes`: a policy's reads from the cluster, restricted to the kinds that it was granted. */
import type { JsonObject } from '../evaluator.ts';
import type { ClusterReader, KindName } from './cluster-reader.ts';
import { maskOf, masked } from './field-masks.ts';
import { optionalTextIn, payloadObject, textIn } from './payload.ts';

export interface KubernetesCalls {
  readonly cluster: ClusterReader | undefined;
  /** Whether the policy was granted this kind; a refusal is reported. */
  readonly grants: (kind: KindName) => boolean;
}

/** @throws {Error} with the same messages as upstream's policy server. */
export async function answerKubernetes(
  operation: string,
  payload: unknown,
  { cluster, grants }: KubernetesCalls,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const fields = payloadObject(payload);
  if (operation === 'can_i')
    return connected(cluster).canI(reviewSpecOf(fields), readOptions(fields, signal));
  const kind = { apiVersion: textIn(fields, 'api_version'), kind: textIn(fields, 'kind') };
  if (!grants(kind)) {
    throw new Error(
      `Policy has not been granted access to Kubernetes ${kind.apiVersion}/${kind.kind} resources. The violation has been reported.`,
    );
  }
  const mask = maskOf(fields['field_masks']);
  if (operation === 'get_resource') {
    const [name, namespace] = [textIn(fields, 'name'), optionalTextIn(fields, 'namespace')];
    const object = await connected(cluster).get(kind, { name, namespace }, readOptions(fields, signal));
    if (object !== undefined) return mask === undefined ? object : masked(object, mask);
    const shown = namespace === undefined ? 'None' : `Some("${namespace}")`;
    throw new Error(
      `Cannot find ${kind.apiVersion}/${kind.kind} named '${name}' inside of namespace '${shown}'`,
    );
  }
  const namespace = operation === 'list_resources_by_namespace' ? textIn(fields, 'namespace') : undefined;
  const [labelSelector, fieldSelector] = [
    optionalTextIn(fields, 'label_selector'),
    optionalTextIn(fields, 'field_selector'),
  ];
  const selection = { namespace, labelSelector, fieldSelector };
  const items = await connected(cluster).list(kind, selection, readOptions(fields, signal));
  return {
    apiVersion: kind.apiVersion,
    kind: `${kind.kind}List`,
    metadata: {},
    items: items.map((object) => {
      const lean = withoutBookkeeping(object);
      return mask === undefined ? lean : masked(lean, mask);
    }),
  };
}

function readOptions(
  fields: JsonObject,
  signal: AbortSignal | undefined,
): { fresh: boolean; signal: AbortSignal | undefined } {
  return { fresh: fields['disable_cache'] === true, signal };
}

function connected(cluster: ClusterReader | undefined): ClusterReader {
  if (cluster === undefined) throw new Error('there is no cluster to query');
  return cluster;
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/** Removes `managedFields` and kubectl's last applied configuration: no policy needs these, and they make up half of an object. */
function withoutBookkeeping(object: JsonObject): JsonObject {
  const metadata = object['metadata'];
  if (typeof metadata !== 'object' || metadata === null) return object;
  const { managedFields: _managed, annotations, ...rest } = metadata as JsonObject;
  if (typeof annotations !== 'object' || annotations === null) return { ...object, metadata: rest };
  const { [lastApplied]: _applied, ...others } = annotations as JsonObject;
  return { ...object, metadata: { ...rest, annotations: others } };
}

/** Kubewarden's names of the fields, which its policy SDKs use. */
function reviewSpecOf(fields: JsonObject): JsonObject {
  const review = payloadObject(fields['subject_access_review'] ?? fields['spec']);
  const given = (value: unknown): JsonObject =>
    Object.fromEntries(
      Object.entries(payloadObject(value)).filter(([, each]) => each !== null && each !== undefined),
    );
  const { groups, uid, extra, non_resource_attributes: outside } = review;
  return {
    user: textIn(review, 'user'),
    ...(Array.isArray(groups) && { groups }),
    ...(typeof uid === 'string' && { uid }),
    ...(typeof extra === 'object' && extra !== null && { extra }),
    ...(outside !== undefined
      ? { nonResourceAttributes: given(outside) }
      : { resourceAttributes: given(review['resource_attributes'] ?? review['resourceAttributes']) }),
  };
}
