import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { parse } from 'yaml';

import type { Condition } from '../object/conditions.ts';
import { kitchenSinks, type sinkSpec } from './kitchen-sink.fixture.ts';
import { crdManifest, crdYaml } from './manifest.ts';
import {
  defineResource,
  isResource,
  type ObjectOf,
  type ResourceDefinition,
  resourceType,
  type WrittenObjectOf,
} from './resource.ts';
import { boolean, object, optional, type ReadOf, string, type WrittenOf } from './schema.ts';

/** Compiles only where the types are the same, in both directions and in what is optional and readonly. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <Yes extends true>(): Yes | undefined => undefined;

interface Read {
  readonly name: string;
  readonly mode: 'on' | 'off';
  readonly level: '1' | '2';
  readonly count: number;
  readonly ratio?: number;
  readonly enabled: boolean;
  readonly port?: number | string;
  readonly tags?: readonly string[];
  readonly rules: readonly { readonly name: string; readonly weight: number }[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly selector?: { readonly key: string };
  readonly limits: { readonly cpu: number };
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly value?: unknown;
  readonly until: string | null;
}
interface Written extends Omit<Read, 'mode' | 'count' | 'enabled' | 'rules' | 'limits'> {
  readonly mode?: 'on' | 'off';
  readonly count?: number;
  readonly enabled?: boolean;
  readonly rules: readonly { readonly name: string; readonly weight?: number }[];
  readonly limits?: { readonly cpu?: number };
}
type Flat<T> = { [Key in keyof T]: T[Key] };

suite('custom resources: types', () => {
  test('are inferred from the schema', () => {
    same<Same<Flat<ReadOf<typeof sinkSpec>>, Flat<Read>>>();
    same<Same<WrittenOf<typeof sinkSpec>['limits'], { readonly cpu?: number } | undefined>>();
    type Sink = ObjectOf<typeof kitchenSinks, 'v1'>;
    same<Same<NonNullable<NonNullable<Sink['status']>['conditions']>, readonly Condition[]>>();
    same<Same<ObjectOf<typeof kitchenSinks, 'v1alpha1'>['spec'], { readonly title: string } | undefined>>();
    const written: Written = { name: 'a', level: '1', rules: [{ name: 'r' }], until: null };
    const sink: WrittenObjectOf<typeof kitchenSinks, 'v1'> = { metadata: { name: 'a' }, spec: written };
    const back: Written = sink.spec;
    assert.equal(back, written);
    // @ts-expect-error -- a field that is required
    const without: WrittenOf<typeof sinkSpec> = { name: 'a', level: '1', until: null };
    // @ts-expect-error -- not one of the values
    const other: WrittenOf<typeof sinkSpec> = { ...written, level: '3' };
    // @ts-expect-error -- what is read has its defaults
    const read: ReadOf<typeof sinkSpec> = written;
    assert.ok(without && other && read);
    // @ts-expect-error -- a default of another type
    boolean({ default: 'yes' });
    // @ts-expect-error -- an option that strings do not have
    string({ minimum: 3 });
  });

  test('a resource for the client', () => {
    assert.deepEqual(resourceType(kitchenSinks, 'v1'), {
      group: 'test.rampart.dev',
      version: 'v1',
      plural: 'kitchensinks',
      kind: 'KitchenSink',
      namespaced: false,
    });
    // @ts-expect-error -- a version that does not exist
    assert.throws(() => resourceType(kitchenSinks, 'v2'), { code: 'RAMPART_INPUT' });
    assert.deepEqual(
      [isResource(kitchenSinks), isResource({ ...resourceType(kitchenSinks, 'v1') })],
      [true, false],
    );
    assert.deepEqual([isResource(null), isResource('v1')], [false, false]);
  });
});

suite('custom resources: manifests', () => {
  test('hold all that the resource says', () => {
    const { metadata, spec } = crdManifest(kitchenSinks);
    assert.equal(metadata.name, 'kitchensinks.test.rampart.dev');
    assert.deepEqual(spec.names, {
      kind: 'KitchenSink',
      listKind: 'KitchenSinkList',
      plural: 'kitchensinks',
      singular: 'kitchensink',
      shortNames: ['ks'],
    });
    const [alpha, v1] = spec.versions;
    const { schema: _alphaSchema, ...alphaRest } = alpha ?? {};
    assert.deepEqual(alphaRest, { name: 'v1alpha1', served: true, storage: false });
    const { schema, ...rest } = v1 ?? {};
    assert.deepEqual(rest, {
      name: 'v1',
      served: true,
      storage: true,
      subresources: { status: {} },
      additionalPrinterColumns: [
        { name: 'Mode', type: 'string', jsonPath: '.spec.mode', priority: 1 },
        { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      ],
    });
    const root = schema?.openAPIV3Schema as Readonly<Record<string, unknown>>;
    assert.deepEqual([root['description'], root['required']], ['A kitchen sink.', ['spec']]);
    const { required, properties } = (root['properties'] as { spec: unknown }).spec as {
      required: string[];
      properties: Record<string, unknown>;
    };
    assert.deepEqual(required, ['name', 'level', 'rules', 'until']);
    assert.deepEqual(properties['mode'], { type: 'string', enum: ['on', 'off'], default: 'on' });
    assert.deepEqual(properties['until'], { type: 'string', format: 'date-time', nullable: true });
    assert.deepEqual(properties['selector'], {
      type: 'object',
      required: ['key'],
      properties: { key: { type: 'string' } },
      'x-kubernetes-map-type': 'atomic',
    });
  });

  test('the YAML reads back as the manifest, by the rules of 1.1 too, and names its source', () => {
    const text = crdYaml(kitchenSinks, 'here/api.ts');
    assert.match(text, /^# Made from here\/api.ts by /);
    for (const version of ['1.1', '1.2'] as const) {
      assert.deepEqual(parse(text, { version }), structuredClone(crdManifest(kitchenSinks)));
    }
  });

  for (const [what, more] of Object.entries({
    'its group is not a domain': { group: 'test' },
    'its kind is not CamelCase': { kind: 'kitchen' },
    '"Things" is not a DNS label': { plural: 'Things' },
    '"v.1" is not a DNS label': { versions: { 'v.1': { fields: {} } } },
    'exactly one version must be stored': { versions: { v1: { fields: {} }, v2: { fields: {} } } },
  } satisfies Record<string, Partial<ResourceDefinition>>)) {
    test(`refused: ${what}`, () => {
      const definition: ResourceDefinition = {
        group: 'test.dev',
        kind: 'Thing',
        plural: 'things',
        scope: 'Cluster',
        versions: { v1: { fields: { spec: optional(object({})) } } },
        ...more,
      };
      assert.throws(
        () => crdManifest(defineResource(definition)),
        (error: Error) => error.message.includes(what),
      );
    });
  }
});
