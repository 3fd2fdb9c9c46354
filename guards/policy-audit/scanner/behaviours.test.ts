/**
 * The behaviour of Kubewarden's audit scanner for each policy, or the right one where it is wrong
 * (docs/policy-audit.md).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import type { ResourceType } from '../../../lib/kube/object/object.ts';
import { deepSuite } from '../../../lib/testing/depth.fixture.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import {
  type AdmissionPolicy,
  admissionPolicyType,
  type ClusterAdmissionPolicyGroup,
  clusterAdmissionPolicyGroupType,
  clusterAdmissionPolicyType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import type { ReportsBy } from '../reports/report.ts';
import { type RunningScanner, ScanCluster } from './scan.fixture.ts';

/** By the last part of a reference without its tag: `registry.example/policies/lookup:v1`. */
function fetched(reference: string): Uint8Array {
  const name = /([\w-]+):v1$/.exec(reference)?.[1] ?? '';
  if (name === 'absent') throw new Error('the registry is away');
  return readFileSync(new URL(`../../../test/policies/${name}.wapc.wasm`, import.meta.url));
}

const forms: readonly (readonly [ReportKind, ReportsBy])[] = [
  ['policyreport', 'object'],
  ['openreports', 'object'],
  ['policyreport', 'namespace'],
  ['openreports', 'namespace'],
];

for (const [at, [reportKind, reportsBy]] of forms.entries())
  (at === 0 ? suite : deepSuite)(`audits into ${reportKind} by ${reportsBy}`, () => {
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
        fetch: async (reference: string) => ({
          bytes: fetched(reference),
          digest: `sha256:${reference.length}`,
        }),
      };
      running = await cluster.startScanner({ modules, reportKind, reportsBy });
    });
    after(async () => {
      await running.stop();
      await cluster[Symbol.asyncDispose]();
    });

    /** All reports while the policy is there; `exists` says when it has been looked at. */
    const linesWith = async (name: string, more: object, exists: () => boolean): Promise<string[]> => {
      await cluster.setPolicy(name, { more });
      await until(exists);
      await running.scanner.pass(patience());
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
      // Upstream's order: a wildcard, no CREATE, a kind that is not served, another scope, backgroundAudit. None counts as an error here.
      ['a wildcard without CREATE', rule({ resources: ['*'], operations: ['UPDATE', 'DELETE'] }), []],
      [
        'a wildcard, and backgroundAudit: false',
        { ...rule({ resources: ['*'] }), backgroundAudit: false },
        [],
      ],
      [
        'a kind that is not served, without CREATE',
        rule({ resources: ['things'], operations: ['DELETE'] }),
        [],
      ],
      ['a kind that is not served, of another scope', rule({ resources: ['things'], scope: 'Cluster' }), []],
      ['a PolicyServer that is not there: it is not needed', { policyServer: 'nowhere' }, configMaps],
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

    test('severity and category come from the annotations; monitor mode forces info, and an unknown severity is omitted', async () => {
      type Reported = readonly [severity: string | undefined, category: string | undefined];
      const reported = async (mode: string, annotations: Record<string, string>): Promise<Reported[]> => {
        await cluster.setPolicy('p', { more: { mode }, annotations });
        await until(async () => (await cluster.reports(reportKind)).length === 2);
        const found = (await cluster.reports(reportKind)).flatMap(({ results }) =>
          results.map(({ severity, category }): Reported => [severity, category]),
        );
        await cluster.deletePolicy('p');
        await until(async () => (await cluster.reports(reportKind)).length === 0);
        assert.deepEqual(found[1], found[0]);
        return found.slice(1);
      };
      const severity = (value: string): Record<string, string> => ({
        'io.kubewarden.policy.severity': value,
      });
      const category = { 'io.kubewarden.policy.category': 'Carts' };
      for (const [mode, annotations, expected] of [
        ['monitor', { ...severity('critical'), ...category }, ['info', 'Carts']],
        ['monitor', {}, ['info', undefined]],
        ['protect', { ...severity('critical'), ...category }, ['critical', 'Carts']],
        ['protect', severity('low'), ['low', undefined]],
        ['protect', severity('dreadful'), [undefined, undefined]],
        ['protect', category, [undefined, 'Carts']],
      ] as const)
        assert.deepEqual(await reported(mode, annotations), [expected], JSON.stringify([mode, annotations]));
    });

    test('properties are texts, and say what the policy is', async () => {
      const rules = [
        { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
      ];
      const front = { namespaceSelector: { matchLabels: { tier: 'front' } } };
      const cel = { module: 'cel-policy', settings: { validations: [{ expression: 'true' }] } };
      const module = (name: string): object => ({
        module: `registry://registry.example/policies/${name}:v1`,
      });
      const reads = { contextAwareResources: [{ apiVersion: 'v1', kind: 'Namespace' }] };
      await cluster.setPolicy('validates', { more: front });
      await cluster.setPolicy('mutates', {
        more: { ...front, ...module('owner'), settings: {}, mutating: true },
      });
      await cluster.setPolicy('reads', {
        more: { ...front, ...module('lookup'), ...reads, settings: { calls: [] } },
      });
      const own = { metadata: { name: 'own', namespace: 'shop' }, spec: { ...cel, mutating: false, rules } };
      await cluster.client.create(admissionPolicyType, own as unknown as AdmissionPolicy);
      const group = {
        metadata: { name: 'both' },
        spec: { rules, ...front, expression: 'a()', message: 'no', policies: { a: { ...cel, ...reads } } },
      };
      await cluster.client.create(
        clusterAdmissionPolicyGroupType,
        group as unknown as ClusterAdmissionPolicyGroup,
      );
      const results = await until(async () => {
        const [report, ...others] = await cluster.reports(reportKind);
        return others.length === 0 && report?.results.length === 5 ? report.results : undefined;
      });
      const expected: Readonly<Record<string, readonly [ResourceType, Record<string, string>]>> = {
        'clusterwide-validates': [clusterAdmissionPolicyType, { validating: 'true' }],
        'clusterwide-mutates': [clusterAdmissionPolicyType, { mutating: 'true' }],
        'clusterwide-reads': [clusterAdmissionPolicyType, { validating: 'true', 'context-aware': 'true' }],
        'clusterwide-group-both': [
          clusterAdmissionPolicyGroupType,
          { validating: 'true', 'context-aware': 'true' },
        ],
        'namespaced-shop-own': [admissionPolicyType, { validating: 'true', 'policy-namespace': 'shop' }],
      };
      assert.deepEqual(results.map(({ policy }) => policy).toSorted(), Object.keys(expected).toSorted());
      for (const { policy, properties } of results) {
        const [type, more] = expected[policy] ?? [];
        assert.ok(type);
        const { 'policy-name': name = '' } = properties;
        const namespace = properties['policy-namespace'];
        const { metadata } = await cluster.client.get(type, { name, ...(namespace && { namespace }) });
        const { uid = '', resourceVersion = '' } = metadata;
        assert.equal(policy.endsWith(name), true);
        assert.deepEqual(
          properties,
          { ...more, 'policy-name': name, 'policy-uid': uid, 'policy-resource-version': resourceVersion },
          policy,
        );
      }
      for (const name of ['validates', 'mutates', 'reads']) await cluster.deletePolicy(name);
      await cluster.client.delete(admissionPolicyType, { namespace: 'shop', name: 'own' });
      await cluster.client.delete(clusterAdmissionPolicyGroupType, { name: 'both' });
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });

    test('a policy that is not active is left out, and says why; others go on', async () => {
      await cluster.setPolicy('absent', {
        more: { module: 'registry://registry.example/policies/absent:v1' },
      });
      await cluster.setPolicy('holds', {});
      await until(async () => (await cluster.reports(reportKind)).length === 2);
      await running.scanner.pass(patience());
      assert.deepEqual(await cluster.lines(reportKind), [
        'other ConfigMap cart: holds=pass',
        'shop ConfigMap cart: holds=pass',
      ]);
      assert.match(
        running.policies.problems.get('clusteradmissionpolicies/absent') ?? '',
        /the registry is away/,
      );
      await cluster.setPolicy('absent', {});
      await until(async () =>
        (await cluster.lines(reportKind)).includes('shop ConfigMap cart: absent=pass holds=pass'),
      );
      for (const name of ['absent', 'holds']) await cluster.deletePolicy(name);
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });

    test('a module that traps is an error with a message, of that policy alone', async () => {
      const traps = { module: 'registry://registry.example/policies/unruly:v1', settings: { do: 'trap' } };
      await cluster.setPolicy('holds', {});
      await cluster.setPolicy('traps', { more: traps });
      const line = 'shop ConfigMap cart: holds=pass traps=error';
      await until(async () => (await cluster.lines(reportKind)).includes(line));
      const [report] = await cluster.reports(reportKind);
      const error = report?.results.find(({ result }) => result === 'error');
      assert.match(error?.message ?? '', /unreachable|trap/i);
      for (const name of ['traps', 'holds']) await cluster.deletePolicy(name);
      await until(async () => (await cluster.reports(reportKind)).length === 0);
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

    test('a policy is evaluated again when an answer of the cluster changes, and no other policy is', async () => {
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
      await running.scanner.pass(patience());
      await until(() => running.scanner.evaluations > 0);
      const { evaluations } = running.scanner;
      await cluster.setNamespace('other', { season: 'winter' });
      await until(async () => (await said()).includes('winter'));
      await running.scanner.pass(patience());
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
      const signal = patience();
      await cluster.client.delete(admissionPolicyType, { namespace: 'shop', name: 'own' }, { signal });
      await cluster.client.delete(clusterAdmissionPolicyGroupType, { name: 'both' }, { signal });
      await cluster.client.delete(validatingAdmissionPolicyBindings, { name: 'everywhere' }, { signal });
      await until(async () => (await cluster.reports(reportKind)).length === 0);
    });
  });
