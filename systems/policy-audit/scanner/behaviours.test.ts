/**
 * What Kubewarden's audit scanner does with which policies, and where it is wrong what is right (docs/policy-audit.md).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { until } from '../../../shared/observe/until.fixture.ts';
import {
  type AdmissionPolicy,
  admissionPolicyType,
  type ClusterAdmissionPolicyGroup,
  clusterAdmissionPolicyGroupType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import type { ReportKind, ReportsBy } from '../reports/report.ts';
import { type RunningScanner, ScanCluster } from './scan.fixture.ts';

const lookup = new URL('../../../test/policies/lookup.wapc.wasm', import.meta.url).pathname;

const forms: readonly (readonly [ReportKind, ReportsBy])[] = [
  ['policyreport', 'object'],
  ['openreports', 'object'],
  ['policyreport', 'namespace'],
  ['openreports', 'namespace'],
];

for (const [reportKind, reportsBy] of forms)
  suite(`audits into ${reportKind} by ${reportsBy}`, () => {
    let cluster: ScanCluster;
    let running: RunningScanner;

    before(async () => {
      cluster = await ScanCluster.start();
      await cluster.setNamespace('shop', { tier: 'front' });
      await cluster.setNamespace('other', {});
      await cluster.setObject('configmaps', 'shop', 'cart', { app: 'cart' });
      await cluster.setObject('secrets', 'shop', 'key', {});
      await cluster.setObject('configmaps', 'other', 'cart', {});
      const modules = {
        fetch: async () => ({ bytes: readFileSync(lookup), digest: 'sha256:0' }),
      };
      running = await cluster.startScanner({ modules, reportKind, reportsBy });
    });
    after(async () => {
      await running.stop();
      await cluster[Symbol.asyncDispose]();
    });

    /** All reports while the policy is there; `isThere` says when it has been looked at. */
    const linesWith = async (name: string, more: object, isThere: () => boolean): Promise<string[]> => {
      await cluster.setPolicy(name, { more });
      await until(isThere);
      await running.scanner.pass(AbortSignal.timeout(20_000));
      const lines = await cluster.lines(reportKind);
      await cluster.deletePolicy(name);
      await until(async () => (await cluster.reports(reportKind)).length === 0);
      return lines;
    };
    const isOpen = (name: string) => () =>
      running.policies.audited.some(({ policy }) => policy.id === `clusterwide-${name}`);
    const rule = (more: object): object => ({
      rules: [
        { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'], ...more },
      ],
    });

    const configMaps = ['other ConfigMap cart: p=pass', 'shop ConfigMap cart: p=pass'];
    const cases: readonly (readonly [what: string, more: object, lines: readonly string[]])[] = [
      ['all operations are also CREATE', rule({ operations: ['*'] }), configMaps],
      ['DELETE alone is left out', rule({ operations: ['DELETE'] }), []],
      ['subresources are left out', rule({ resources: ['pods/exec', 'configmaps/status'] }), []],
      ['a kind of one scope is not of the other', rule({ scope: 'Cluster' }), []],
      ['a version that is not served', rule({ apiVersions: ['v1beta1'] }), []],
      [
        'one bad rule spoils only itself',
        {
          rules: [
            {
              apiGroups: ['nowhere.example'],
              apiVersions: ['v1'],
              resources: ['things'],
              operations: ['CREATE'],
            },
            { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
          ],
        },
        configMaps,
      ],
      ['backgroundAudit: false', { backgroundAudit: false }, []],
      [
        'match conditions hold',
        { matchConditions: [{ name: 'c', expression: "object.metadata.namespace == 'shop'" }] },
        ['shop ConfigMap cart: p=pass'],
      ],
      [
        'object selectors hold',
        { objectSelector: { matchLabels: { app: 'cart' } } },
        ['shop ConfigMap cart: p=pass'],
      ],
      [
        'namespace selectors are held to Namespaces themselves',
        {
          ...rule({ resources: ['namespaces', 'configmaps'] }),
          namespaceSelector: { matchLabels: { tier: 'front' } },
        },
        ['Namespace shop: p=pass', 'shop ConfigMap cart: p=pass'],
      ],
      [
        'wildcards are all kinds that are served, Events, Leases, policies and reports aside',
        {
          ...rule({ resources: ['*'] }),
          namespaceSelector: { matchLabels: { tier: 'front' } },
          objectSelector: {},
        },
        ['shop ConfigMap cart: p=pass', 'shop Secret key: p=pass'],
      ],
    ];
    for (const [what, more, lines] of cases) {
      test(what, async () => {
        const found = await linesWith('p', more, isOpen('p'));
        const own = found.filter((line) => /ConfigMap|Secret|Namespace shop/.test(line));
        assert.deepEqual(
          what.startsWith('wildcards') ? own.filter((line) => line.startsWith('shop')) : own,
          lines,
        );
      });
    }

    test('monitor mode forces the severity info, and an unknown severity is left out', async () => {
      const severities = async (mode: string, severity: string): Promise<(string | undefined)[]> => {
        const annotations = { 'io.kubewarden.policy.severity': severity };
        await cluster.setPolicy('p', { more: { mode }, annotations });
        await until(async () => (await cluster.reports(reportKind)).length === 2);
        const found = (await cluster.reports(reportKind)).flatMap(({ results }) =>
          results.map((one) => one.severity),
        );
        await cluster.deletePolicy('p');
        await until(async () => (await cluster.reports(reportKind)).length === 0);
        return found;
      };
      assert.deepEqual(await severities('monitor', 'critical'), ['info', 'info']);
      assert.deepEqual(await severities('protect', 'critical'), ['critical', 'critical']);
      assert.deepEqual(await severities('protect', 'dreadful'), [undefined, undefined]);
    });

    test('an expression that fails is an error with its cause, and leaves the results of others alone', async () => {
      await cluster.setPolicy('fails', { expression: 'object.data.nothing == "x"' });
      await cluster.setPolicy('holds', {});
      await until(async () =>
        (await cluster.lines(reportKind)).includes('shop ConfigMap cart: fails=error holds=pass'),
      );
      const report = (await cluster.reports(reportKind)).find(({ scope }) => scope?.namespace === 'shop');
      assert.match(report?.results[0]?.message ?? '', /no such key: (data|nothing)/);
      assert.deepEqual(report?.summary, { pass: 1, fail: 0, warn: 0, error: 1, skip: 0 });
      for (const name of ['fails', 'holds']) await cluster.deletePolicy(name);
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });

    test('what a policy asked the cluster for is asked again when that changes, and by it alone', async () => {
      const payload = { api_version: 'v1', kind: 'Namespace', name: 'other', disable_cache: false };
      await cluster.setPolicy('asks', {
        more: {
          module: 'registry://registry.example/policies/lookup:v1',
          contextAwareResources: [{ apiVersion: 'v1', kind: 'Namespace' }],
          namespaceSelector: { matchLabels: { tier: 'front' } },
          settings: { calls: [{ namespace: 'kubernetes', operation: 'get_resource', payload }] },
        },
      });
      await cluster.setPolicy('still', { more: { namespaceSelector: { matchLabels: { tier: 'front' } } } });
      const said = async (): Promise<string> =>
        (await cluster.reports(reportKind))[0]?.results[0]?.message ?? '';
      await until(async () => (await said()).includes('"name":"other"'));
      // The kind is followed from now on; what may have changed until then is looked at once.
      await running.scanner.pass(AbortSignal.timeout(20_000));
      await until(() => running.scanner.evaluations > 0);
      const { evaluations } = running.scanner;
      await cluster.setNamespace('other', { season: 'winter' });
      await until(async () => (await said()).includes('winter'));
      await running.scanner.pass(AbortSignal.timeout(20_000));
      assert.equal(running.scanner.evaluations - evaluations, 1);
      for (const name of ['asks', 'still']) await cluster.deletePolicy(name);
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });

    test('a policy of a namespace is about it alone, a group says why, a ValidatingAdmissionPolicy is audited', async () => {
      const rules = [
        { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
      ];
      const settings = { validations: [{ expression: 'false', message: 'never' }] };
      await cluster.client.create(admissionPolicyType, {
        metadata: { name: 'own', namespace: 'shop' },
        spec: { module: 'cel-policy', mutating: false, rules, settings },
      } as unknown as AdmissionPolicy);
      await cluster.client.create(clusterAdmissionPolicyGroupType, {
        metadata: { name: 'both' },
        spec: {
          rules,
          expression: 'never() || always()',
          message: 'neither',
          namespaceSelector: { matchLabels: { tier: 'front' } },
          policies: {
            never: { module: 'cel-policy', settings },
            always: { module: 'cel-policy', settings: { validations: [{ expression: 'true' }] } },
          },
        },
      } as unknown as ClusterAdmissionPolicyGroup);
      await cluster.client.create(validatingAdmissionPolicies, {
        metadata: { name: 'vap' },
        spec: {
          matchConstraints: { resourceRules: rules, namespaceSelector: { matchLabels: { tier: 'front' } } },
          validations: [{ expression: "object.metadata.name != 'cart'", message: 'no carts' }],
        },
      });
      await cluster.client.create(validatingAdmissionPolicyBindings, {
        metadata: { name: 'everywhere' },
        spec: { policyName: 'vap', validationActions: ['Deny'] },
      });
      await until(async () =>
        (await cluster.lines(reportKind)).includes(
          'shop ConfigMap cart: group-both=pass namespaced-shop-own=fail vap/everywhere=fail',
        ),
      );
      assert.equal((await cluster.reports(reportKind)).length, 1);
      const [report] = await cluster.reports(reportKind);
      const last = report?.results.at(-1);
      assert.deepEqual(
        [last?.source, last?.policy, last?.properties['binding'], last?.message],
        ['ValidatingAdmissionPolicy', 'vap/everywhere', 'everywhere', 'no carts'],
      );
      const signal = AbortSignal.timeout(10_000);
      await cluster.client.delete(admissionPolicyType, { namespace: 'shop', name: 'own' }, { signal });
      await cluster.client.delete(clusterAdmissionPolicyGroupType, { name: 'both' }, { signal });
      await cluster.client.delete(validatingAdmissionPolicyBindings, { name: 'everywhere' }, { signal });
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });
  });
