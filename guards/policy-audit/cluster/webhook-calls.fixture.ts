/**
 * Webhooks as an API server calls them (apiserver pkg/admission/plugin/webhook/predicates), when no server
 * answers: the refusals of `Fail`.
 */
import type { Admission, AdmissionRequest } from '../../../guard/admission.ts';
import { apiErrors } from '../../../lib/apiserver/resources/api-error.ts';
import type { JsonObject } from '../../../lib/json/json.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { type KubeObject, namespaces } from '../../../lib/kube/object/object.ts';
import {
  labelSelectorOf,
  type LabelSelectorObject,
  labelsMatch,
} from '../../../lib/kube/selectors/selectors.ts';
import { compileMatchConditions } from '../engine/cel/match-conditions.ts';
import { validatingType } from './webhooks.ts';

interface Webhook {
  readonly name: string;
  readonly failurePolicy: string;
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly apiVersions: readonly string[];
    readonly resources: readonly string[];
    readonly operations: readonly string[];
  }[];
  readonly namespaceSelector?: LabelSelectorObject;
  readonly matchConditions?: readonly object[];
}

/** Validating webhooks only. */
export class UnansweredWebhooks implements Admission {
  /** Undefined: nothing is refused. */
  client: KubeClient | undefined;

  async validate(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Promise<void> {
    const { client } = this;
    if (client === undefined || request.resource.group === validatingType.group) return;
    for (const configuration of (await client.list(validatingType)).items) {
      const { webhooks } = configuration as KubeObject & { readonly webhooks: readonly Webhook[] };
      for (const webhook of webhooks) {
        if (webhook.failurePolicy !== 'Fail' || !hasRuleFor(webhook, request)) continue;
        if (!(await selectsNamespace(client, webhook, request, object ?? old))) continue;
        if (!(await meetsConditions(webhook, request, object, old))) continue;
        throw apiErrors.internal(`failed calling webhook "${webhook.name}": connection refused`);
      }
    }
  }
}

function hasRuleFor({ rules }: Webhook, { resource, subresource, operation }: AdmissionRequest): boolean {
  const has = (list: readonly string[], value: string): boolean => list.includes('*') || list.includes(value);
  return rules.some(
    ({ apiGroups, apiVersions, resources, operations }) =>
      has(apiGroups, resource.group) &&
      has(apiVersions, resource.version) &&
      has(operations, operation) &&
      resources.some((pattern) => {
        const [name = '', sub = ''] = pattern.split('/');
        return has([name], resource.plural) && has([sub], subresource?.name ?? '');
      }),
  );
}

async function selectsNamespace(
  client: KubeClient,
  { namespaceSelector }: Webhook,
  { resource, namespace }: AdmissionRequest,
  object: JsonObject | undefined,
): Promise<boolean> {
  const isNamespace = resource.group === '' && resource.plural === 'namespaces';
  if (!isNamespace && !resource.namespaced) return true;
  const { metadata } = (
    isNamespace ? object : await client.get(namespaces, { name: namespace })
  ) as KubeObject;
  return labelsMatch(labelSelectorOf(namespaceSelector ?? {}), metadata.labels ?? {});
}

async function meetsConditions(
  { matchConditions = [] }: Webhook,
  { operation, resource, subresource, namespace, name, user }: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): Promise<boolean> {
  const { group, version, plural, kind } = resource;
  const matcher = compileMatchConditions(matchConditions);
  const { matched, error } = await matcher.match({
    uid: crypto.randomUUID(),
    operation,
    kind: { group, version, kind },
    resource: { group, version, resource: plural },
    ...(subresource && { subResource: subresource.name }),
    ...(namespace !== '' && { namespace }),
    name,
    userInfo: { username: user.name, groups: user.groups },
    object: object ?? null,
    oldObject: old ?? null,
  });
  if (error !== undefined) throw new Error(error);
  return matched;
}
