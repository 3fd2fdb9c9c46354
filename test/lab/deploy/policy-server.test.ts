// The policy server that the operator makes in a cluster: its pod as the Deployment has it, asked as the webhook says.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { systemNamespace } from '../../../guard/guard.ts';
import { overlay } from '../../../apps/agent/overlay.fixture.ts';
import { guards } from '../../../apps/guards.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import {
  type ConfigMap,
  configMaps,
  deployments,
  type KubeObject,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { clusterAdmissionPolicyType, policyServerType } from '../../../guards/policy-audit/api.ts';
import { validatingType } from '../../../guards/policy-audit/cluster/webhooks.ts';
import { labObstacle } from '../obstacle.ts';
import { Deployed } from './deployed.fixture.ts';

const timeout = 300_000;
const name = 'policy-server-default';
const id = 'clusterwide-labelled';

interface Webhook {
  readonly clientConfig: {
    readonly caBundle: string;
    readonly service: Readonly<Record<'name' | 'namespace' | 'path', string>> & { readonly port: number };
  };
}

/** The request of an API server for a pod with these labels. */
function reviewOf(labels: object): string {
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const resource = { group: '', version: 'v1', resource: 'pods' };
  const metadata = { name: 'web', namespace: 'default', labels };
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      ...{ uid: 'one', kind, resource, requestKind: kind, requestResource: resource, operation: 'CREATE' },
      ...{ name: 'web', namespace: 'default', userInfo: { username: 'alice' }, dryRun: false },
      object: { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: [] } },
    },
  });
}

suite('a policy server of deploy/ in a lab', { skip: labObstacle(), timeout }, () => {
  test('from PolicyServer and policy to the pod, and to what it answers over the webhook', async () => {
    using mine = overlay(guards.filter((guard) => guard.name === 'policy-audit'));
    await using deployed = await Deployed.start(mine.path);
    const { client, cluster } = deployed;
    const find = async <T extends KubeObject>(type: ResourceType, namespaced: boolean, of: string) => {
      try {
        const at = { name: of, ...(namespaced && { namespace: systemNamespace }) };
        return (await client.get(type, at)) as T;
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    };
    await using operator = await deployed.runWorkload('rampart-operator');
    await client.create(policyServerType, {
      metadata: { name: 'default' },
      spec: { image: 'ghcr.io/kubewarden/policy-server:v1.30.0', replicas: 1 },
    });
    await client.create(clusterAdmissionPolicyType, {
      metadata: { name: 'labelled' },
      spec: {
        ...{ module: 'cel-policy', mutating: false, message: 'pods have a team' },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
        settings: { validations: [{ expression: "'team' in object.metadata.labels", message: 'no team' }] },
      },
    } as never);
    await operator.until('the policy in its ConfigMap', async () => {
      const found = await find<ConfigMap>(configMaps, true, name);
      return found?.data?.['policies.yml']?.includes(id);
    });
    await operator.until('the Deployment', () => find(deployments, true, name));
    await using server = await deployed.runDeployment(name);
    const [ready] = await server.until('to be ready', () => deployed.probe(server));
    assert.ok(ready !== undefined);

    // As the controller of Deployments does once the pod is ready.
    type Webhooks = KubeObject & { readonly webhooks: readonly Webhook[] };
    const webhooks = await operator.until('the webhook', async () => {
      const { metadata } = await client.get(deployments, { name, namespace: systemNamespace });
      const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
      const body = { status: { observedGeneration: metadata.generation, ...counts } };
      const at = { name, namespace: systemNamespace, subresource: 'status' };
      await client.patch(deployments, at, { type: 'merge', body });
      return find<Webhooks>(validatingType, false, id);
    });
    const [webhook] = webhooks.webhooks;
    assert.ok(webhook);
    const { caBundle, service } = webhook.clientConfig;
    const authority = join(cluster.directory, 'webhook-ca.pem');
    writeFileSync(authority, Buffer.from(caBundle, 'base64'));
    const host = `${service.name}.${service.namespace}.svc:${service.port}`;
    // The port of the Service, and which one of the pod is behind it.
    const { spec } = (await client.get(
      { group: '', version: 'v1', plural: 'services', kind: 'Service', namespaced: true },
      { name: service.name, namespace: service.namespace },
    )) as KubeObject & { readonly spec: { readonly ports: readonly { port: number; targetPort: number }[] } };
    const target = spec.ports.find(({ port }) => port === service.port)?.targetPort;
    const ask = async (labels: object): Promise<unknown> => {
      const answer = await deployed.onNode(
        'curl --silent --show-error --fail --max-time 30 --noproxy "*" --cacert "$1" --connect-to "$2:$3" --json "$4" "https://$2$5"',
        ...[authority, host, `${server.pod.ip}:${target}`, reviewOf(labels), service.path],
      );
      const { response } = JSON.parse(answer) as {
        response: { allowed: boolean; status?: { message: string } };
      };
      return [response.allowed, response.status?.message];
    };
    assert.deepEqual(await ask({ team: 'a' }), [true, undefined]);
    assert.deepEqual(await ask({}), [false, 'pods have a team']);
  });
});
