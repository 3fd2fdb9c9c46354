// A policy's results stay while its module cannot be fetched.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { digestOf } from '../../../lib/oci/digest.ts';
import { configMaps } from '../../../lib/kube/object/object.ts';
import { deepSuite } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyType } from '../api.ts';
import type { Modules } from '../modules/modules.ts';
import { ScanCluster } from './scan.fixture.ts';

const bytes = readFileSync(new URL('../../../test/policies/labels.wapc.wasm', import.meta.url));
type Registry = Pick<Modules, 'fetch'>;
const registry: Registry = { fetch: () => Promise.resolve({ bytes, digest: digestOf(bytes) }) };
const away: Registry = { fetch: () => Promise.reject(new Error('the registry is away')) };
const labels = {
  more: { module: 'registry://registry.example/labels:v1', settings: { required: ['team'] } },
};

for (const reportsBy of ['object', 'namespace'] as const)
  (reportsBy === 'object' ? suite : deepSuite)(
    `a policy that cannot be evaluated, reports by ${reportsBy}`,
    () => {
      let cluster: ScanCluster;
      before(async () => {
        cluster = await ScanCluster.start();
        await cluster.setNamespace('shop', {});
        await cluster.setObject('configmaps', 'shop', 'cart', {});
        await cluster.setObject('configmaps', 'shop', 'fine', { team: 'a' });
        await cluster.setPolicy('team', labels);
        await cluster.setPolicy('all', {});
        const first = await cluster.startScanner({ modules: registry, reportsBy });
        await until(async () => (await cluster.lines()).length === 2 && first.passes.length > 0);
        await first.stop();
      });
      after(() => cluster[Symbol.asyncDispose]());
      const known = ['shop ConfigMap cart: all=pass team=fail', 'shop ConfigMap fine: all=pass team=pass'];
      /** As `rampart audit` does it, which writes no status. */
      const pass = async (modules = away): Promise<readonly string[]> => {
        const { passes, stop } = await cluster.startScanner({ modules, reportsBy, writesStatus: false });
        await until(() => passes.length > 0);
        await stop();
        return cluster.lines();
      };

      test('its results stay, and nothing is written', async () => {
        const written = await cluster.reportObjects();
        assert.deepEqual(await pass(), known);
        assert.deepEqual(await cluster.reportObjects(), written);
      });

      test('also of objects that have changed; of new ones, the cause is the result', async () => {
        await cluster.setObject('configmaps', 'shop', 'fine', { team: 'b' });
        await cluster.setObject('configmaps', 'shop', 'new', {});
        assert.deepEqual(await pass(), [...known, 'shop ConfigMap new: all=pass team=error']);
        const [message] = (await cluster.reports())
          .flatMap(({ results }) => results)
          .flatMap(({ result, message: text = '' }) => (result === 'error' ? [text] : []));
        assert.equal(message, 'the registry is away');
      });

      test('a policy that was never evaluated gives no results', async () => {
        await cluster.setPolicy('other', labels);
        assert.deepEqual(await pass(), [...known, 'shop ConfigMap new: all=pass team=error']);
        await cluster.deletePolicy('other');
      });

      test('one whose selectors cannot be read keeps its results, and has no others', async () => {
        const unreadable = { matchExpressions: [{ key: 'a', operator: 'In', values: [] }] };
        await cluster.setPolicy('all', { more: { objectSelector: unreadable } });
        await cluster.setObject('configmaps', 'shop', 'fine', { team: 'c' });
        await cluster.setObject('configmaps', 'shop', 'late', {});
        assert.deepEqual(await pass(), [
          ...known,
          'shop ConfigMap late: team=error',
          'shop ConfigMap new: all=pass team=error',
        ]);
        await cluster.client.delete(configMaps, { namespace: 'shop', name: 'late' });
        await cluster.setPolicy('all', { more: { objectSelector: {} } });
      });

      test('once it can be evaluated, it is, also by who could not', async () => {
        assert.deepEqual(await pass(registry), [...known, 'shop ConfigMap new: all=pass team=fail']);
        let modules = away;
        await cluster.setObject('configmaps', 'shop', 'newer', {});
        const running = await cluster.startScanner({
          modules: { fetch: (url) => modules.fetch(url) },
          reportsBy,
          writesStatus: false,
        });
        await until(() => running.policies.problems.size > 0 && running.passes.length > 0);
        assert.ok((await cluster.lines()).includes('shop ConfigMap newer: all=pass team=error'));
        modules = registry;
        // A change of the policy is tried at once.
        await cluster.setPolicy('team', {
          more: { ...labels.more, settings: { required: ['team', 'owner'] } },
        });
        const all = ['cart', 'fine', 'new', 'newer'].map(
          (name) => `shop ConfigMap ${name}: all=pass team=fail`,
        );
        await until(async () => (await cluster.lines()).join() === all.join());
        await running.stop();
        await cluster.client.delete(clusterAdmissionPolicyType, { name: 'team' });
        const left = all.map((line) => line.replace(' team=fail', ''));
        assert.deepEqual(await pass(), left);
      });
    },
  );
