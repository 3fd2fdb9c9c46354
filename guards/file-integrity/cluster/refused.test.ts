// Writes that the API refuses, e.g. because of a quota or a webhook: this is reported, and hides nothing
// else.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { KubeClient } from '../../../lib/kube/client/client.ts';
import { KubeError } from '../../../lib/kube/client/client-errors.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { type KubeObject, nodes, type ResourceType } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { failed, succeeded, TestCluster } from './cluster.fixture.ts';

const quota = 'exceeded quota: small, requested: count/configmaps=1, used: 10, limited: 10';

function refusal(what: string, status = 403): KubeError {
  return new KubeError({
    what,
    status,
    reason: status === 403 ? 'Forbidden' : 'InternalError',
    message: quota,
  });
}

/** Must not create ConfigMaps of this name while the quota is full. */
class LimitedClient extends KubeClient {
  isFull = true;
  readonly #name: string;

  constructor(cluster: TestCluster, name: string) {
    super(findClusterAccess({ path: cluster.kubeconfig }), { perSecond: 1000, burst: 1000 });
    this.#name = name;
  }

  override create: KubeClient['create'] = async <T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    ...rest: unknown[]
  ): Promise<T> => {
    if (this.isFull && type.plural === 'configmaps' && object.metadata.name === this.#name)
      throw refusal(`create configmaps ${this.#name}`);
    return await super.create(type, object, ...(rest as []));
  };
}

suite('refused', () => {
  test('a log that must not be kept: the node has failed all the same, and the log follows', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    using client = new LimitedClient(cluster, 'aide-example-n1-failed');
    cluster.startOperator({ client });
    await cluster.createIntegrity('example');
    await cluster.report('example', 'n1', succeeded);
    await cluster.write(cluster.result('example', 'n1', failed(0, 1, 0)));
    const last = await until('it is known', async () => {
      const status = await cluster.status('example', 'n1');
      return status?.lastResult?.condition === 'Failed' && status.lastResult;
    });
    assert.equal(last.filesChanged, 1);
    assert.equal(last.resultConfigMapName, undefined, 'there is none');
    const [reported] = await until('why is told', async () => {
      const notes = await cluster.notes('NodeIntegrityIncomplete');
      return notes.length > 0 && notes;
    });
    assert.match(
      reported ?? '',
      /^the findings of node n1 could not be written completely: .*exceeded quota: small/,
    );
    client.isFull = false;
    await until('it is taken', async () => (await cluster.temporary()).length === 0);
    assert.equal((await cluster.kept('example', 'n1'))?.data?.['integritylog'], 'the log');
    const status = await cluster.status('example', 'n1');
    assert.equal(status?.lastResult?.resultConfigMapName, 'aide-example-n1-failed');
    const changed = (await cluster.notes('NodeIntegrityStatus')).filter((note) =>
      note.includes('has changed'),
    );
    assert.equal(changed.length, 1);
    await cluster.report('example', 'n1', succeeded);
    assert.equal((await cluster.status('example', 'n1'))?.lastResult?.condition, 'Succeeded');
  });

  test('a report that a webhook does not let through', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    let isBroken = true;
    let written = 0;
    cluster.startOperator({
      reports: {
        write: async () => {
          if (isBroken) throw refusal('apply policyreports example-n1', 500);
          written++;
          return true;
        },
        delete: async () => undefined,
      },
    });
    await cluster.createIntegrity('example');
    await cluster.write(cluster.result('example', 'n1', failed(0, 1, 0)));
    const { lastResult } = await until('it is known', () => cluster.status('example', 'n1'));
    assert.equal(lastResult?.condition, 'Failed');
    assert.equal(lastResult.resultConfigMapName, 'aide-example-n1-failed');
    isBroken = false;
    await until('it is taken', async () => (await cluster.temporary()).length === 0);
    assert.equal(written, 1);
  });

  test('leftovers of a deleted node that may not be deleted are named in the status', async () => {
    await using cluster = await TestCluster.start();
    for (const name of ['n1', 'n2']) await cluster.createNode(name);
    let isBroken = true;
    const reports = {
      write: async () => true,
      delete: async () => {
        if (isBroken) throw refusal('delete policyreports example-n1', 500);
      },
    };
    cluster.startOperator({ reports });
    await cluster.createIntegrity('example');
    for (const name of ['n1', 'n2']) await cluster.report('example', name, succeeded);
    await cluster.phase('example', 'Active');
    await cluster.client.delete(nodes, { name: 'n1' });
    await until('it is not told of', async () => {
      const { status } = await cluster.integrity('example');
      return status?.nodeStatus?.length === 1;
    });
    assert.ok((await cluster.status('example', 'n1')) !== undefined);
    isBroken = false;
    await until('it is gone', async () => (await cluster.status('example', 'n1')) === undefined);
  });

  test('a FileIntegrity reports an error if its active configuration may not be written', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    using client = new LimitedClient(cluster, 'example');
    cluster.startOperator({ client });
    await cluster.createIntegrity('example');
    const { status } = await cluster.phase('example', 'Error');
    const configured = status?.conditions?.find(({ type }) => type === 'Configured');
    assert.equal(configured?.reason, 'ConfigMapUnwritable');
    assert.match(configured.message, /create configmaps example: exceeded quota: small/);
    client.isFull = false;
    await cluster.annotate('example', { 'example.com/again': '' });
    await cluster.phase('example', 'Initializing');
  });
});
