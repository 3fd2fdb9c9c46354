import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { parse } from 'yaml';

import { compileSchema } from '../shared/apiserver/schema/compiled-schema.ts';
import { kitchenSinks } from '../shared/kube/crd/kitchen-sink.fixture.ts';
import { crdManifest, type CrdManifest } from '../shared/kube/crd/manifest.ts';
import { differences, expectedManifests, writeManifests } from './crds.ts';

const top = dirname(import.meta.dirname);

/** A tree with one guard whose api.ts is this. */
function tree(api: string): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'rampart-crds-'));
  mkdirSync(join(path, 'systems/guard'), { recursive: true });
  const at = (file: string): string => JSON.stringify(pathToFileURL(join(top, 'shared/kube/crd', file)).href);
  const imports = `import { defineResource } from ${at('resource.ts')};
import { integer, object, string } from ${at('schema.ts')};\n`;
  writeFileSync(join(path, 'systems/guard/api.ts'), imports + api);
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

const things = `export const things = defineResource({ group: 'test.dev', kind: 'Thing', plural: 'things',
  scope: 'Cluster', versions: { v1: { fields: { spec: object({ name: string() }) } } } });
export const other = 3;`;

suite('manifests of custom resources', () => {
  test('the schemas of all our resources are structural, and their rules compile', async () => {
    const manifests = await expectedManifests(top);
    assert.ok(manifests.size >= 2);
    for (const [path, text] of manifests) {
      for (const { schema } of (parse(text) as CrdManifest).spec.versions) {
        compileSchema(schema.openAPIV3Schema, { path });
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
        ratio: 0.5,
        port: '80%',
        tags: ['a', 'b'],
        labels: { a: 'b' },
        selector: { key: 'k' },
        parameters: { any: { thing: 1 } },
        value: [1, 'x'],
        template: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { more: true } },
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
    const path = 'systems/guard/crd/things.yaml';
    const copy = 'deploy/crd/things.yaml';
    const file = join(guard.path, path);
    assert.deepEqual(await differences(guard.path), [`${path}: is missing`, `${copy}: is missing`]);
    assert.deepEqual(await writeManifests(guard.path), [path, copy]);
    assert.deepEqual(await differences(guard.path), []);
    assert.deepEqual(await writeManifests(guard.path), []);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('scope: Cluster', 'scope: Namespaced'));
    const line = text.split('\n').indexOf('  scope: Cluster') + 1;
    assert.deepEqual(await differences(guard.path), [
      `${path}:${line}: is "  scope: Namespaced", the schema says "  scope: Cluster"`,
    ]);
    writeFileSync(file, `${text}more: true\n`);
    assert.match(
      (await differences(guard.path)).join(),
      /things.yaml:\d+: is "more: true", the schema says ""/,
    );
    const stray = join(guard.path, 'systems/guard/crd/old.yaml');
    writeFileSync(stray, text);
    writeFileSync(join(guard.path, 'deploy/crd/old.yaml'), text);
    const strays = ['deploy/crd/old.yaml', 'systems/guard/crd/old.yaml'];
    assert.deepEqual(
      (await differences(guard.path)).slice(-2),
      strays.map((one) => `${one}: no resource in api.ts has this manifest`),
    );
    assert.deepEqual(await writeManifests(guard.path), [path, ...strays]);
    assert.deepEqual(await differences(guard.path), []);
  });

  test('two resources of one name are refused', async () => {
    using guard = tree(`${things}\nexport const again = things;`);
    await assert.rejects(differences(guard.path), /two resources called things/);
  });

  test('the committed manifests are those of the schemas', async () => {
    assert.deepEqual(await differences(top), []);
  });
});
