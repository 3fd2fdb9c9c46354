import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { parse } from 'yaml';

import { compileSchema } from '../lib/apiserver/schema/compiled-schema.ts';
import { SchemaNode } from '../lib/apiserver/schema/node.ts';
import { RuleCosts, ruleLimit, schemaLimit } from '../lib/apiserver/schema/rules/rule-costs.ts';
import { compileRuleTree } from '../lib/apiserver/schema/rules/rule-tree.ts';
import { kitchenSinks } from '../lib/kube/crd/kitchen-sink.fixture.ts';
import { crdManifest, type CrdManifest } from '../lib/kube/crd/manifest.ts';
import { guards } from '../apps/guards.ts';
import type { Guard } from '../guard/guard.ts';
import { differences, writeManifests } from './manifests.ts';

const top = dirname(import.meta.dirname);

/** A tree with one guard whose api.ts is this. */
function tree(api: string): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'rampart-manifests-'));
  mkdirSync(join(path, 'guards/guard'), { recursive: true });
  const at = (file: string): string => JSON.stringify(pathToFileURL(join(top, 'lib/kube/crd', file)).href);
  const imports = `import { defineResource } from ${at('resource.ts')};
import { integer, object, string } from ${at('schema.ts')};\n`;
  writeFileSync(join(path, 'guards/guard/api.ts'), imports + api);
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

const things = `export const things = defineResource({ group: 'test.dev', kind: 'Thing', plural: 'things',
  scope: 'Cluster', versions: { v1: { fields: { spec: object({ name: string() }) } } } });
export const other = 3;`;

const thingGuard: Guard = {
  name: 'guard',
  summary: 'guards things',
  resources: [],
  parse: () => undefined,
  rights: {
    agent: [{ apiGroups: ['test.dev'], resources: ['things'], verbs: ['watch'], why: 'To know.' }],
    viewer: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'], inSystem: true }],
  },
};

suite('manifests of custom resources', () => {
  test('the schemas of all definitions in deploy/ are structural, and their rules compile within half of the budgets', (t) => {
    const files = readdirSync(join(top, 'deploy'), { recursive: true, encoding: 'utf8' });
    const definitions = files
      .filter((file) => file.endsWith('.yaml') && !file.startsWith('chart/'))
      .map((file) => readFileSync(join(top, 'deploy', file), 'utf8'))
      .filter((text) => /^kind: CustomResourceDefinition$/m.test(text))
      .map((text) => parse(text) as CrdManifest);
    assert.ok(definitions.length > 20);
    for (const definition of definitions) {
      for (const version of definition.spec.versions) {
        const path = `${definition.metadata.name} ${version.name}`;
        const { schema } = compileSchema(version.schema.openAPIV3Schema, { path });
        const costs = new RuleCosts(false);
        compileRuleTree(new SchemaNode(schema), true, path, costs);
        const [costliest] = costs.expressions;
        if (costliest === undefined) continue;
        const words = `${costliest.field}: ${costliest.cost} of ${costs.total}`;
        t.diagnostic(words);
        assert.ok(costliest.cost <= ruleLimit / 2 && costs.total <= schemaLimit / 2, words);
      }
    }
  });

  test('all that a schema can say is taken, and means what its type says', () => {
    const [alpha, v1] = crdManifest(kitchenSinks).spec.versions;
    compileSchema(alpha?.schema.openAPIV3Schema);
    const schema = compileSchema(v1?.schema.openAPIV3Schema);
    const spec: object = { name: 'a', level: '1', rules: [{ name: 'r' }], until: null };
    const object = { apiVersion: 'test.rampart.dev/v1', kind: 'KitchenSink', metadata: { name: 'x' }, spec };
    schema.applyDefaults(object);
    assert.deepEqual(schema.validate(object), []);
    assert.deepEqual(object.spec, {
      ...spec,
      rules: [{ name: 'r', weight: 1 }],
      mode: 'on',
      count: 3,
      enabled: true,
      limits: { cpu: 1 },
    });
    const more = {
      ...object,
      spec: {
        ...object.spec,
        ratio: 1,
        port: '80%',
        tags: ['a', 'b'],
        labels: { a: 'b' },
        selector: { key: 'k' },
        parameters: { any: { thing: 1 } },
        value: [1, 'x'],
      },
    };
    assert.deepEqual(schema.prune(more), []);
    assert.deepEqual(schema.validate(more, object), []);
    const wrong = (change: object): string =>
      schema
        .validate({ ...more, spec: { ...more.spec, ...change } }, object)
        .map(({ field, message }) => `${field}: ${message}`)
        .join();
    assert.match(wrong({ name: 'b' }), /spec.name: .*the name stays/);
    assert.match(wrong({ enabled: false }), /spec: Forbidden: a ratio is for what is enabled/);
    assert.match(wrong({ tags: ['a', 'a'] }), /Duplicate/);
    assert.match(wrong({ rules: [{ name: 'r', weight: 0 }] }), /every weight is above 0/);
    assert.match(wrong({ port: '80' }), /spec.port/);
  });

  test('written once, then in order; an edited, a missing and a stray manifest are named', async () => {
    using guard = tree(things);
    const path = 'deploy/guards/guard/crd/things.yaml';
    const all = 'deploy/guards/kustomization.yaml';
    const component = 'deploy/guards/guard/kustomization.yaml';
    const file = join(guard.path, path);
    const found = (): Promise<string[]> => differences(guard.path, [thingGuard]);
    const write = (): Promise<string[]> => writeManifests(guard.path, [thingGuard]);
    const monitoring = [
      'kustomization.yaml',
      'prometheusrule.yaml',
      'podmonitors.yaml',
      'dashboard.json',
      'service.yaml',
    ];
    const files = [
      ...[path, all, component, 'deploy/base/admission.yaml'],
      ...monitoring.map((name) => `deploy/monitoring/${name}`),
      'deploy/uninstall/role.yaml',
    ];
    assert.deepEqual(
      await found(),
      files.map((one) => `${one}: is missing`),
    );
    assert.deepEqual(await write(), files);
    assert.deepEqual(await found(), []);
    assert.deepEqual(await write(), []);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('scope: Cluster', 'scope: Namespaced'));
    const line = text.split('\n').indexOf('  scope: Cluster') + 1;
    assert.deepEqual(await found(), [
      `${path}:${line}: is "  scope: Namespaced", the code says "  scope: Cluster"`,
    ]);
    writeFileSync(file, `${text}more: true\n`);
    assert.match((await found()).join(), /things.yaml:\d+: is "more: true", the code says ""/);
    const strays = ['deploy/guards/gone/kustomization.yaml', 'deploy/guards/guard/crd/old.yaml'];
    mkdirSync(join(guard.path, 'deploy/guards/gone'));
    for (const stray of strays) writeFileSync(join(guard.path, stray), text);
    assert.deepEqual(
      (await found()).slice(-2),
      strays.map((one) => `${one}: nothing in the code has this manifest`),
    );
    assert.deepEqual(await write(), [path, ...strays]);
    assert.deepEqual(await found(), []);
  });

  test('a component has what its guard needs, with the reasons, and nothing else', async () => {
    using guard = tree(things);
    await writeManifests(guard.path, [thingGuard]);
    const text = readFileSync(join(guard.path, 'deploy/guards/guard/kustomization.yaml'), 'utf8');
    const component = parse(text) as {
      readonly resources: unknown;
      readonly patches: readonly { readonly target: object; readonly patch: string }[];
    };
    assert.deepEqual(component.resources, ['crd/things.yaml']);
    const flag = [{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value: '--guards=guard' }];
    const rule = (value: object): object[] => [{ op: 'add', path: '/rules/-', value }];
    assert.deepEqual(
      component.patches.map(({ target, patch }) => [target, parse(patch) as unknown]),
      [
        [{ kind: 'DaemonSet', name: 'rampart-agent' }, flag],
        [{ kind: 'Deployment', name: 'rampart-operator' }, flag],
        [
          { kind: 'ClusterRole', name: 'rampart-agent' },
          rule({ apiGroups: ['test.dev'], resources: ['things'], verbs: ['watch'] }),
        ],
        [
          { kind: 'Role', name: 'rampart-viewer' },
          rule({ apiGroups: [''], resources: ['pods'], verbs: ['list'] }),
        ],
      ],
    );
    assert.match(text, /# To know\.\n\s+- op: add/);
  });

  test('two resources of one name are refused', async () => {
    using guard = tree(`${things}\nexport const again = things;`);
    await assert.rejects(differences(guard.path, [thingGuard]), /two resources called things/);
  });

  test('the committed manifests are those of the code', async () => {
    assert.deepEqual(await differences(top, guards), []);
  });
});
