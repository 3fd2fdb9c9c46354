/** Results of audits for objects with a PolicyException. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { type PolicyException, policyExceptionType } from '../api.ts';
import { ScanCluster } from './scan.fixture.ts';

suite('exceptions in an audit', () => {
  let cluster: ScanCluster;
  before(async () => {
    cluster = await ScanCluster.start();
    for (const name of ['shop', 'other']) {
      await cluster.setNamespace(name, {});
      await cluster.setObject('configmaps', name, 'cart', {});
      await cluster.setObject('configmaps', name, 'sold', {});
    }
  });
  after(() => cluster[Symbol.asyncDispose]());

  const except = (name: string, more: Partial<PolicyException['spec']> = {}, namespace = 'shop') =>
    cluster.client.apply(
      policyExceptionType,
      {
        metadata: { namespace, name },
        spec: {
          policies: [{ kind: 'ClusterAdmissionPolicy', name: 'none' }],
          match: { kinds: ['ConfigMap'], names: ['cart'] },
          reason: 'a sale',
          ...more,
        },
      },
      { fieldManager: 'test', force: true },
    );
  const conditionOf = async (name: string): Promise<string> => {
    const { status } = await cluster.client.get(policyExceptionType, { namespace: 'shop', name });
    const found = findCondition(status?.conditions, 'Active');
    return `${found?.status} ${found?.reason}`;
  };
  const linesAre = (...lines: readonly string[]): Promise<unknown> =>
    until(async () => JSON.stringify(await cluster.lines()) === JSON.stringify(lines));

  test('are skipped with the reason, of all policies but the excepted one; and fail again after it', async () => {
    await cluster.setPolicy('none', { expression: 'false' });
    await cluster.setPolicy('some', { expression: "object.metadata.name != 'cart'" });
    const { stop, findings } = await cluster.startScanner();
    const [cart, sold] = ['none=fail some=fail', 'none=fail some=pass'];
    const others = [`other ConfigMap cart: ${cart}`, `other ConfigMap sold: ${sold}`];
    await linesAre(...others, `shop ConfigMap cart: ${cart}`, `shop ConfigMap sold: ${sold}`);

    await except('sale');
    const excepted = [...others, 'shop ConfigMap cart: none=skip some=fail', `shop ConfigMap sold: ${sold}`];
    await linesAre(...excepted);
    const report = (await cluster.reports()).find(
      ({ scope, metadata }) => scope?.name === 'cart' && metadata.namespace === 'shop',
    );
    assert.deepEqual(report?.summary, { pass: 0, fail: 1, warn: 0, error: 0, skip: 1 });
    const result = report.results.find(({ policy }) => policy === 'clusterwide-none');
    assert.equal(result?.message, 'excepted by PolicyException shop/sale: a sale');
    assert.equal(result.properties['exception'], 'shop/sale');
    await until(async () => (await conditionOf('sale')) === 'True InEffect');
    await until(() => findings.some((line) => line.includes('excepted by PolicyException shop/sale')));

    // Another reason is another message; a new process finds everything unchanged.
    await except('sale', { reason: 'a longer sale' });
    await until(async () => JSON.stringify(await cluster.reports()).includes('a longer sale'));
    await stop();
    const again = await cluster.startScanner();
    await until(() => again.passes.length > 0);
    await linesAre(...excepted);
    assert.equal(again.scanner.store.writes, 0);

    await except('sale', { until: '2020-01-01T00:00:00Z' });
    await linesAre(...others, `shop ConfigMap cart: ${cart}`, `shop ConfigMap sold: ${sold}`);
    await until(async () => (await conditionOf('sale')) === 'False Ended');
    await cluster.client.delete(policyExceptionType, { namespace: 'shop', name: 'sale' });

    // It ends by itself.
    await except('short', { until: new Date(Date.now() + 1000).toISOString(), match: { kinds: ['*'] } });
    await until(async () => (await conditionOf('short')) === 'False Ended');
    await linesAre(...others, `shop ConfigMap cart: ${cart}`, `shop ConfigMap sold: ${sold}`);

    await cluster.setNamespace('rampart-system', {});
    await except('everywhere', { match: { kinds: ['*'], namespaces: ['oth*'] } }, 'rampart-system');
    await linesAre(
      'other ConfigMap cart: none=skip some=fail',
      'other ConfigMap sold: none=skip some=pass',
      `shop ConfigMap cart: ${cart}`,
      `shop ConfigMap sold: ${sold}`,
    );
    await again.stop();
  });

  test('one that changes audits its kinds in its namespace, if a policy that it is from is about them', async () => {
    await cluster.clear();
    for (const namespace of ['shop', 'other']) {
      await cluster.setObject('configmaps', namespace, 'cart', {});
      await cluster.setObject('secrets', namespace, 'key', {});
    }
    await cluster.setPolicy('none', { kinds: ['configmaps', 'secrets'], expression: 'false' });
    await cluster.setPolicy('maps', { expression: 'false' });
    const client = cluster.newClient();
    const listed: string[] = [];
    const list = client.list.bind(client);
    client.list = (...args) => {
      if (['configmaps', 'secrets'].includes(args[0].plural))
        listed.push(`${args[1]?.namespace}/${args[0].plural}`);
      return list(...args);
    };
    const { stop, passes } = await cluster.startScanner({ client });
    await until(() => passes.length > 0);
    const said = (secret: string): Promise<unknown> =>
      until(async () => (await cluster.lines()).includes(`shop Secret key: ${secret}`));
    await said('none=fail');

    listed.length = 0;
    await except('keys', { match: { kinds: ['Secret'] } });
    await said('none=skip');
    assert.deepEqual(listed.splice(0), ['shop/secrets']);

    // No policy of these names is about secrets; the last change is one that is seen.
    const policies = ['maps', 'absent'].map((name) => ({ kind: 'ClusterAdmissionPolicy', name }) as const);
    await except('idle', { policies, match: { kinds: ['Secret'] } });
    await until(async () => (await conditionOf('idle')).startsWith('True'));
    await cluster.client.delete(policyExceptionType, { namespace: 'shop', name: 'keys' });
    await said('none=fail');
    assert.deepEqual(listed, ['shop/secrets']);
    await stop();
  });
});
