/**
 * Kinds as the rooms builtin/ and custom/ make them, small: pods, config maps, deployments with a scale, events (whose
 * name is a column), and widgets of a CustomResourceDefinition in two versions.
 */
import type { Item } from '../resources/item.ts';
import { Registry } from '../resources/registry.ts';
import { plainResource } from '../resources/resource.fixture.ts';
import type { Column, Resource, Subresource } from '../resources/resource.ts';
import { isObject, type JsonObject } from '../../json/json.ts';

const text = { type: 'string' };
const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
const meta = 'io.k8s.apimachinery.pkg.apis.meta.v1';
const typeMeta = { apiVersion: text, kind: text, metadata: { allOf: [ref(`${meta}.ObjectMeta`)] } };

const builtInDefinitions: ReadonlyMap<string, JsonObject> = new Map<string, JsonObject>([
  [
    `${meta}.ObjectMeta`,
    {
      type: 'object',
      description: 'Metadata of an object.',
      properties: {
        name: { ...text, description: 'The name.' },
        annotations: { type: 'object', additionalProperties: text },
        labels: { type: 'object', additionalProperties: text },
        namespace: text,
        ownerReferences: { type: 'array', items: ref(`${meta}.OwnerReference`) },
      },
    },
  ],
  [`${meta}.OwnerReference`, { type: 'object', properties: { uid: text } }],
  [
    'io.k8s.api.core.v1.Pod',
    {
      type: 'object',
      description: 'A group of containers.',
      properties: {
        ...typeMeta,
        spec: { allOf: [ref('io.k8s.api.core.v1.PodSpec')], description: 'What should run.' },
        status: { type: 'object', properties: { phase: text } },
      },
      'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Pod' }],
    },
  ],
  [
    'io.k8s.api.core.v1.PodSpec',
    {
      type: 'object',
      required: ['containers'],
      properties: {
        containers: {
          type: 'array',
          items: ref('io.k8s.api.core.v1.Container'),
          description: 'Its containers.',
        },
        nodeName: text,
        volumes: { type: 'array', items: { type: 'object', properties: { name: text } } },
      },
    },
  ],
  [
    'io.k8s.api.core.v1.Container',
    {
      type: 'object',
      required: ['name'],
      properties: {
        name: text,
        image: { ...text, description: 'Where its files come from.' },
        port: { format: 'int-or-string', oneOf: [{ type: 'integer' }, { type: 'string' }] },
      },
    },
  ],
  [
    'io.k8s.api.core.v1.ConfigMap',
    { type: 'object', properties: { ...typeMeta, data: { type: 'object', additionalProperties: text } } },
  ],
  ['io.k8s.api.core.v1.Event', { type: 'object', properties: { ...typeMeta, reason: text } }],
  [
    'io.k8s.api.apps.v1.Deployment',
    {
      type: 'object',
      properties: { ...typeMeta, spec: { type: 'object', properties: { replicas: { type: 'integer' } } } },
    },
  ],
  [
    'io.k8s.api.autoscaling.v1.Scale',
    {
      type: 'object',
      properties: { ...typeMeta, spec: { type: 'object', properties: { replicas: { type: 'integer' } } } },
    },
  ],
]);

const widget: JsonObject = {
  type: 'object',
  description: 'A widget.',
  required: ['spec'],
  properties: {
    spec: {
      type: 'object',
      description: 'What the widget should be.',
      required: ['size'],
      properties: {
        size: { type: 'integer', format: 'int32', minimum: 1, maximum: 9, description: 'How large it is.' },
        color: { type: 'string', enum: ['red', 'green'], default: 'red' },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        port: { 'x-kubernetes-int-or-string': true },
        parts: { type: 'array', items: { type: 'object', properties: { name: text } } },
      },
    },
    status: { type: 'object', nullable: true, properties: { phase: text } },
  },
};

const status = (group: string, version: string, kind: string): Subresource => ({
  name: 'status',
  verbs: new Set(['get', 'patch', 'update']),
  group,
  version,
  kind,
  read: (object) => object,
  write: (object) => object,
  model: undefined,
  openApi: undefined,
  resetFields: () => [],
});

const scale: Subresource = {
  ...status('autoscaling', 'v1', 'Scale'),
  name: 'scale',
  openApi: { name: 'io.k8s.api.autoscaling.v1.Scale', definitions: builtInDefinitions },
};

const column = (
  name: string,
  priority: number,
  path: readonly string[],
  type: Column['type'] = 'string',
): Column => ({
  name,
  type,
  format: '',
  description: `The ${name}.`,
  priority,
  cell: (object) => {
    let value: unknown = object;
    for (const field of path) value = isObject(value) ? value[field] : undefined;
    return typeof value === 'string' || typeof value === 'number' ? value : null;
  },
});

const age: Column = {
  ...column('Age', 0, []),
  type: 'date',
  cell: (object, now) => {
    const { metadata } = object;
    const created = isObject(metadata) ? metadata['creationTimestamp'] : undefined;
    return typeof created === 'string' ? `${(now.getTime() - Date.parse(created)) / 1000}s` : '<unknown>';
  },
};

type Parts = Pick<Resource, 'group' | 'kind' | 'openApi' | 'plural' | 'version'> & Partial<Resource>;

export function resourceOf(parts: Parts): Resource {
  return {
    ...plainResource(parts),
    ...parts,
    // Code that only lists kinds must not compile schemas.
    get model(): never {
      throw new Error(`the schema of ${parts.plural} is not needed here`);
    },
  };
}

const builtIn = (name: string) => ({ name, definitions: builtInDefinitions });

export const pods = resourceOf({
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
  shortNames: ['po'],
  categories: ['all'],
  openApi: builtIn('io.k8s.api.core.v1.Pod'),
  subresources: new Map([['status', status('', 'v1', 'Pod')]]),
  columns: [column('Status', 0, ['status', 'phase']), age, column('Node', 1, ['spec', 'nodeName'])],
});

export const configMaps = resourceOf({
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  shortNames: ['cm'],
  openApi: builtIn('io.k8s.api.core.v1.ConfigMap'),
});

export const events = resourceOf({
  group: '',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  openApi: builtIn('io.k8s.api.core.v1.Event'),
  columns: [column('Reason', 0, ['reason']), column('Name', 1, ['metadata', 'name'])],
});

export const deployments = resourceOf({
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  shortNames: ['deploy'],
  categories: ['all'],
  openApi: builtIn('io.k8s.api.apps.v1.Deployment'),
  subresources: new Map([
    ['scale', scale],
    ['status', status('apps', 'v1', 'Deployment')],
  ]),
});

export const widgetGroup = 'stable.example.com';

/** A version of widgets; each call gives another instance. */
export function widgetsOf(version: string, schema: JsonObject = widget): Resource {
  const name = `com.example.stable.${version}.Widget`;
  return resourceOf({
    group: widgetGroup,
    version,
    plural: 'widgets',
    kind: 'Widget',
    shortNames: ['wd'],
    categories: ['all', 'things'],
    storedApiVersion: `${widgetGroup}/v1`,
    isCustom: true,
    openApi: { name, definitions: new Map([[name, schema]]) },
    subresources: new Map([['status', status(widgetGroup, version, 'Widget')]]),
    columns: [
      column('Size', 0, ['spec', 'size'], 'integer'),
      column('Color', 1, ['spec', 'color']),
      column('Phase', 0, ['status', 'phase']),
    ],
  });
}

export const widgets = widgetsOf('v1');

export function registryOf(): Registry {
  const registry = new Registry();
  registry.add([pods]);
  registry.add([configMaps]);
  registry.add([events]);
  registry.add([deployments]);
  registry.add([widgets, widgetsOf('v1beta1')]);
  return registry;
}

/** The object of a JSON text that is one. */
export function objectOf(json: string | Item): JsonObject {
  const value: unknown = JSON.parse(typeof json === 'string' ? json : json.text);
  if (!isObject(value)) throw new TypeError('no JSON object');
  return value;
}
