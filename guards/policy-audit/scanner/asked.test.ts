/**
 * Policies' requests besides the object: evaluated again when the answer changes, or by a full pass if there
 * is no notification.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../api.ts';
import { ScanCluster } from './scan.fixture.ts';

const lookup = readFileSync(join(import.meta.dirname, '../../../test/policies/lookup.wapc.wasm'));
const modules = { fetch: () => Promise.resolve({ bytes: lookup, digest: 'sha256:lookup' }) };

const red = "namespaceObject.metadata.?labels.team.orValue('') == 'red'";

async function createPolicy({ client }: ScanCluster, name: string, more: object): Promise<void> {
  const rules = { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] };
  await client.create(validatingAdmissionPolicies, {
    metadata: { name },
    spec: { matchConstraints: { resourceRules: [rules] }, ...more },
  });
  await client.create(validatingAdmissionPolicyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  });
}

/** Waits until the report of the object `cart` says this. */
async function says(cluster: ScanCluster, wanted: string): Promise<void> {
  await until(wanted, async () => {
    const found = (await cluster.reports()).find(({ scope }) => scope?.name === 'cart');
    const own = found?.results.map(({ policy, result }) => `${policy.split('/')[0]}=${result}`);
    return own?.toSorted().join(' ') === wanted;
  });
}

suite('an audit by policies that ask', () => {
  let cluster: ScanCluster;
  before(async () => void (cluster = await ScanCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('the namespace of an object, in an expression and in a match condition', async () => {
    const create = (name: string, more: object): Promise<void> => createPolicy(cluster, name, more);
    await create('expression', { validations: [{ expression: red }] });
    await create('condition', {
      validations: [{ expression: 'true' }],
      matchConditions: [{ name: 'red', expression: red }],
    });
    await create('lacking', {
      validations: [{ expression: 'namespaceObject.metadata.labels.depth == "1"' }],
    });
    await cluster.setNamespace('shop', { team: 'blue' });
    await cluster.setObject('configmaps', 'shop', 'cart', {});
    await cluster.startScanner();
    await says(cluster, 'expression=fail lacking=error');
    await cluster.setNamespace('shop', { team: 'red', depth: '1' });
    await says(cluster, 'condition=pass expression=pass lacking=pass');
    await cluster.setNamespace('shop', { team: 'blue', depth: '1' });
    await says(cluster, 'expression=fail lacking=pass');
  });

  deepTest('changes while an object is audited', async (t) => {
    // A message that differs each time, for a report that has to be written.
    const validation = { expression: red, messageExpression: "'turn ' + object.metadata.labels.turn" };
    await createPolicy(cluster, 'expression', { validations: [validation] });
    await cluster.setNamespace('shop', { team: 'blue' });
    await cluster.setObject('configmaps', 'shop', 'cart', { turn: 'none' });
    let changes = 0;
    let isWatched = false;
    const client = cluster.newClient();
    const update = client.update.bind(client);
    t.mock.method(client, 'update', async (...args: Parameters<typeof update>) => {
      if (isWatched) {
        isWatched = false;
        changes++;
        await cluster.setNamespace('shop', { team: 'red' });
        // Gives the scanner time to get the notification before the report of the earlier state is written.
        await sleep(50);
      }
      return update(...args);
    });
    await cluster.startScanner({ client });
    await says(cluster, 'expression=fail');
    const turns = scaled(50, 5);
    for (let turn = 0; turn < turns; turn++) {
      isWatched = true;
      await cluster.setObject('configmaps', 'shop', 'cart', { turn: String(turn) });
      await says(cluster, 'expression=pass');
      await cluster.setNamespace('shop', { team: 'blue' });
      await says(cluster, 'expression=fail');
    }
    assert.equal(changes, turns);
  });

  test('requests without notifications are repeated by a full pass and by a new process, and never between', async () => {
    await cluster.setNamespace('shop', {});
    await cluster.setObject('configmaps', 'shop', 'cart', {});
    await cluster.setPolicy('plain', {});
    const calls = [{ namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'localhost' }];
    await cluster.setPolicy('lookup', {
      more: { module: 'registry://registry.example/policies/lookup:v1', settings: { calls } },
    });
    const { scanner, passes, stop } = await cluster.startScanner({ modules });
    await until(() => passes.length > 0);
    assert.deepEqual(await cluster.lines(), ['shop ConfigMap cart: lookup=pass plain=pass']);
    const [report] = await cluster.reports();
    assert.match(report?.results[0]?.message ?? '', /127\.0\.0\.1|::1/);
    const evaluated = scanner.evaluations;
    await cluster.setObject('configmaps', 'shop', 'other', {});
    await until(async () => (await cluster.lines()).length === 2);
    assert.equal(scanner.evaluations, evaluated + 2);
    const { evaluations, writes } = await scanner.pass(AbortSignal.timeout(60_000));
    assert.deepEqual({ evaluations, writes }, { evaluations: 2, writes: 0 });
    await stop();
    const second = await cluster.startScanner({ modules });
    await until(() => second.passes.length > 0);
    assert.equal(second.passes[0]?.writes, 0);
    assert.equal(second.scanner.evaluations, 2);
  });
});
