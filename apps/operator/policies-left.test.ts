/** The remains of Kubewarden's controller, once the operator has taken over (docs/moving.md). */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { deployments, type KubeObject } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyType, policyServerType } from '../../guards/policy-audit/api.ts';
import { validatingType } from '../../guards/policy-audit/cluster/webhooks.ts';
import { clusterPolicy, ScanCluster } from '../../guards/policy-audit/scanner/scan.fixture.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';

const others = 'example.com/keeps';

suite('leftovers of Kubewarden', () => {
  let cluster: ScanCluster;
  const stack = new AsyncDisposableStack();
  before(async () => {
    cluster = stack.use(await ScanCluster.start());
    await cluster.createNamespace('rampart-system');
    for (const [name, ...finalizers] of [
      ['old', 'kubewarden'],
      ['recent', 'kubewarden.io/finalizer'],
      ['kept', 'kubewarden.io/finalizer', others],
      ['stays', 'kubewarden.io/finalizer'],
    ]) {
      const policy = clusterPolicy(name ?? '', {});
      await cluster.client.create(clusterAdmissionPolicyType, {
        ...policy,
        metadata: { ...policy.metadata, finalizers },
      });
    }
    // Before the operator, and while it runs.
    await cluster.deletePolicy('old');
    stack.use(
      new RampartProcess([
        ...['operator', '--guards', 'policy-audit', '--kubeconfig', cluster.kubeconfig],
        ...['--policy-server-image', 'rampart:test'],
      ]),
    );
  });
  after(() => stack.disposeAsync());

  test('policies that Kubewarden gave finalizers can be deleted; finalizers of others stay', async () => {
    const finalizersOf = async (name: string): Promise<readonly string[]> =>
      (await cluster.client.get(clusterAdmissionPolicyType, { name })).metadata.finalizers ?? [];
    const isGone = async (name: string): Promise<boolean> =>
      await finalizersOf(name).then(
        () => false,
        (error: unknown) => isNotFound(error),
      );
    await until('old is gone', () => isGone('old'));
    for (const name of ['recent', 'kept']) await cluster.deletePolicy(name);
    await until('recent is gone', () => isGone('recent'));
    await until('that of others stays', async () => (await finalizersOf('kept')).join() === others);
    assert.deepEqual(await finalizersOf('stays'), ['kubewarden.io/finalizer']);
  });

  test('a webhook of Kubewarden is kept until the policy server has the policy, and then asks that', async () => {
    const { client } = cluster;
    const id = 'clusterwide-carts';
    const service = { name: 'policy-server-default', namespace: 'kubewarden', path: `/validate/${id}` };
    const webhook: Webhooks = {
      metadata: { name: id, labels: { kubewarden: 'true', 'app.kubernetes.io/part-of': 'kubewarden' } },
      webhooks: [
        {
          name: `${id}.kubewarden.admission`,
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          clientConfig: { caBundle: 'Zm9v', service: { ...service, port: 443 } },
        },
      ],
    };
    await client.create(validatingType, webhook);
    const server = {
      metadata: { name: 'default' },
      spec: { image: 'example.com/policy-server:v1', replicas: 1 },
    };
    await client.create(policyServerType, server);
    await cluster.setPolicy('carts', {});
    const target = { namespace: 'rampart-system', name: 'policy-server-default' };
    await until('its Deployment', () => client.get(deployments, target));
    const asked = async (): Promise<string[]> => {
      const { webhooks = [] } = (await client.get(validatingType, { name: id })) as Webhooks;
      return webhooks.map(({ clientConfig }) => clientConfig.service.namespace);
    };
    assert.deepEqual(await asked(), ['kubewarden']);
    const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
    await until('its own server is asked', async () => {
      // As in a cluster, for the present Deployment.
      const { generation } = (await client.get(deployments, target)).metadata;
      await client.patch(
        deployments,
        { ...target, subresource: 'status' },
        { type: 'merge', body: { status: { observedGeneration: generation, ...counts } } },
      );
      return (await asked()).join() === 'rampart-system';
    });
  });
});

interface Webhooks extends KubeObject {
  readonly webhooks?: readonly {
    readonly [field: string]: unknown;
    readonly clientConfig: { readonly service: Service; readonly caBundle: string };
  }[];
}

interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly path: string;
  readonly port: number;
}
