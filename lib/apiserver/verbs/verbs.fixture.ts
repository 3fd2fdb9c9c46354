/**
 * Kinds made for tests of the verbs, and short ways to ask for things: widgets, as a CustomResourceDefinition makes
 * them, in two versions and with the subresources `status` and `scale`; pods, as a built-in kind is; namespaces.
 */
import { applyTypeOf } from '../apply/type.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { patchTypeOf } from '../patch/merge-keys.ts';
import { ApiError } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import { Registry } from '../resources/registry.ts';
import { plainResource } from '../resources/resource.fixture.ts';
import type { Resource, ResourceModel, Strategy, Subresource, Verb } from '../resources/resource.ts';
import { compileSchema } from '../schema/compiled-schema.ts';
import { fieldError } from '../schema/field-error.ts';
import { cloneJson, isObject, type JsonObject } from '../../json/json.ts';
import { openStore, type Store } from '../store/store.ts';
import type { StoreOptions } from '../store/store-options.ts';
import type { PatchMediaType, ResourceAnswer, ResourceRequest, WatchEvent } from './request.ts';
import { Verbs, type VerbsOptions } from './verbs.ts';

const text = { type: 'string' };
const integer = { type: 'integer', format: 'int64' };
const objectOf = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const texts = { type: 'object', additionalProperties: text };

const head = { apiVersion: text, kind: text, metadata: { type: 'object' } };

const widgetSchema = objectOf({
  ...head,
  spec: objectOf(
    {
      size: { type: 'string', default: 'medium', enum: ['small', 'medium', 'large'] },
      replicas: { type: 'integer', minimum: 0 },
      serial: integer,
      parts: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        items: objectOf({ name: text, count: { type: 'integer' } }, { required: ['name'] }),
      },
      free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      frozen: {
        type: 'string',
        'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'is frozen' }],
      },
    },
    {},
  ),
  status: objectOf({ phase: text, replicas: { type: 'integer' } }),
});

const containers = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: objectOf(
    {
      name: text,
      image: text,
      args: { type: 'array', items: text },
      env: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        items: objectOf({ name: text, value: text }),
      },
      ports: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['containerPort', 'protocol'],
        items: objectOf({ name: text, containerPort: integer, protocol: { type: 'string', default: 'TCP' } }),
      },
      imagePullPolicy: { type: 'string', default: 'IfNotPresent' },
      resources: objectOf({ limits: texts, requests: texts }),
      volumeMounts: {
        type: 'array',
        items: objectOf({ name: text, mountPath: text, readOnly: { type: 'boolean' } }),
      },
    },
    { required: ['name'] },
  ),
};

const podSchema = objectOf({
  ...head,
  spec: objectOf({
    containers,
    nodeName: text,
    nodeSelector: texts,
    restartPolicy: { type: 'string', default: 'Always' },
    serviceAccountName: text,
    terminationGracePeriodSeconds: { type: 'integer', default: 30 },
    tolerations: { type: 'array', items: objectOf({ key: text, operator: text, effect: text }) },
    volumes: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: objectOf({ name: text, emptyDir: { type: 'object' } }),
    },
  }),
  status: objectOf({ phase: text, podIP: text }),
});

const namespaceSchema = objectOf({
  ...head,
  spec: objectOf({ finalizers: { type: 'array', items: text } }),
  status: objectOf({ phase: text }),
});

const scaleSchema = objectOf({
  ...head,
  spec: objectOf({ replicas: { type: 'integer' } }),
  status: objectOf({ replicas: { type: 'integer' } }),
});

function modelOf(schema: object, patchType: ResourceModel['patchType'], strict = true): ResourceModel {
  return {
    schema: compileSchema(schema, { strict }),
    applyType: applyTypeOf(schema as JsonObject),
    patchType,
  };
}

const part = (object: JsonObject, name: string): JsonObject => {
  const value = object[name];
  return isObject(value) ? value : {};
};

const status = (): Subresource => ({
  name: 'status',
  verbs: new Set(['get', 'patch', 'update']),
  group: '',
  version: '',
  kind: '',
  read: (object) => object,
  write: (object, { status: sent }) => {
    const { status: _old, ...rest } = object;
    return sent === undefined ? rest : { ...rest, status: sent };
  },
  model: undefined,
  openApi: undefined,
  resetFields: (object) => Object.keys(object).filter((name) => name !== 'status'),
});

const scale: Subresource = {
  name: 'scale',
  verbs: new Set(['get', 'patch', 'update']),
  group: 'autoscaling',
  version: 'v1',
  kind: 'Scale',
  read: (object) => {
    const { name, namespace, uid, resourceVersion, creationTimestamp } = part(object, 'metadata');
    return {
      apiVersion: 'autoscaling/v1',
      kind: 'Scale',
      metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
      spec: { replicas: part(object, 'spec')['replicas'] ?? 0 },
      status: { replicas: part(object, 'status')['replicas'] ?? 0 },
    };
  },
  write: (object, sent) => ({
    ...object,
    spec: { ...part(object, 'spec'), replicas: part(sent, 'spec')['replicas'] },
  }),
  model: modelOf(scaleSchema, new Map()),
  openApi: undefined,
  resetFields: () => ['status'],
};

interface Described extends Partial<Omit<Resource, 'strategy'>> {
  readonly kind: string;
  readonly plural: string;
  readonly strategy?: Partial<Strategy>;
}

function resourceOf(described: Described): Resource {
  return {
    ...plainResource(described),
    openApi: { name: described.kind, definitions: new Map() },
    model: modelOf({ type: 'object' }, new Map()),
    ...described,
    strategy: {
      nameRule: 'dns-subdomain',
      generation: 'all',
      resetFields: ['status'],
      ...described.strategy,
    },
  };
}

/** Widgets; the second version calls `spec.size` `spec.extent` and is not the stored one. */
export function widgets(): readonly [Resource, Resource] {
  const base: Described = {
    kind: 'Widget',
    plural: 'widgets',
    group: 'example.com',
    isCustom: true,
    model: modelOf(widgetSchema, undefined),
    subresources: new Map([
      ['status', status()],
      ['scale', scale],
    ]),
    selectableFields: new Map([['spec.size', (object) => String(part(object, 'spec')['size'] ?? '')]]),
    strategy: { allowUnconditionalUpdate: false },
  };
  const renamed = (object: JsonObject, apiVersion: string, from: string, to: string): JsonObject => {
    const { [from]: value, ...spec } = part(object, 'spec');
    return { ...object, apiVersion, spec: value === undefined ? spec : { ...spec, [to]: value } };
  };
  const second = resourceOf({
    ...base,
    version: 'v2',
    storedApiVersion: 'example.com/v1',
    deprecation: 'example.com/v2 Widget is deprecated',
    model: modelOf(
      { ...widgetSchema, properties: { ...widgetSchema.properties, spec: extentSpec } },
      undefined,
    ),
    codec: {
      decode: (stored) => renamed(stored, 'example.com/v2', 'size', 'extent'),
      encode: (object) => renamed(object, 'example.com/v1', 'extent', 'size'),
    },
  });
  return [resourceOf(base), second];
}

const extentSpec = objectOf({
  extent: { type: 'string', default: 'medium' },
  replicas: { type: 'integer' },
});

/** Pods: strategic merge patches, time to end where they run on a node. */
export function pods(): Resource {
  return resourceOf({
    kind: 'Pod',
    plural: 'pods',
    model: modelOf(podSchema, patchTypeOf('v1', 'Pod'), false),
    subresources: new Map([['status', status()]]),
    selectableFields: new Map([
      ['spec.nodeName', (object) => String(part(object, 'spec')['nodeName'] ?? '')],
      ['status.phase', (object) => String(part(object, 'status')['phase'] ?? '')],
    ]),
    strategy: {
      prepareForCreate: (object) => {
        object['status'] = { phase: 'Pending' };
      },
      validate: (object, old) => {
        const [node, before] = [object, old].map((one) => part(one ?? {}, 'spec')['nodeName']);
        return before !== undefined && node !== before
          ? [fieldError.forbidden('spec.nodeName', 'may not be changed')]
          : [];
      },
      warnings: (object) => (part(object, 'spec')['nodeName'] === 'old' ? ['spec.nodeName: old node'] : []),
      gracePeriodSeconds: (object, asked) =>
        part(object, 'spec')['nodeName'] === undefined ? 0 : (asked ?? 30),
    },
  });
}

/** Leases: PUT creates them, nothing counts their changes. */
export function leases(): Resource {
  return resourceOf({
    kind: 'Lease',
    plural: 'leases',
    group: 'coordination.k8s.io',
    model: modelOf(objectOf({ ...head, spec: objectOf({ holderIdentity: text }) }), new Map(), false),
    strategy: { generation: 'none', resetFields: [], allowCreateOnUpdate: true },
  });
}

export function namespaces(): Resource {
  const finalizersOf = (object: JsonObject): readonly unknown[] => {
    const { finalizers } = part(object, 'spec');
    return Array.isArray(finalizers) ? finalizers : [];
  };
  return resourceOf({
    kind: 'Namespace',
    plural: 'namespaces',
    namespaced: false,
    model: modelOf(namespaceSchema, new Map(), false),
    subresources: new Map([
      ['status', status()],
      [
        'finalize',
        {
          ...status(),
          name: 'finalize',
          write: (object: JsonObject, sent: JsonObject) => ({ ...object, spec: sent['spec'] ?? {} }),
          resetFields: () => ['status'],
        },
      ],
    ]),
    strategy: {
      nameRule: 'dns-label',
      generation: 'none',
      prepareForCreate: (object) => {
        object['spec'] = { finalizers: ['kubernetes'] };
        object['status'] = { phase: 'Active' };
      },
      prepareForUpdate: (object, old) => {
        object['spec'] = old['spec'];
      },
      hasOwnFinalizers: (object) => finalizersOf(object).length > 0,
      markDeleted: (object) => {
        object['status'] = { phase: 'Terminating' };
      },
    },
  });
}

export interface Asked {
  readonly resource?: Resource;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>> | string;
  readonly body?: unknown;
  readonly duplicates?: readonly string[];
  readonly patchType?: PatchMediaType;
  readonly userAgent?: string;
  readonly signal?: AbortSignal;
}

/** Verbs over a store of their own. */
export class Bench implements AsyncDisposable {
  readonly store: Store;
  readonly registry = new Registry();
  readonly clock = new ManualClock(0);
  readonly verbs: Verbs;
  readonly widget: Resource;
  readonly widget2: Resource;
  readonly pod = pods();
  readonly lease = leases();
  readonly namespace = namespaces();
  /** Those of the last request. */
  warnings: string[] = [];

  private constructor(store: Store, options: Partial<VerbsOptions>) {
    this.store = store;
    const [first, second] = widgets();
    this.widget = first;
    this.widget2 = second;
    this.registry.add([first, second]);
    for (const resource of [this.pod, this.lease, this.namespace]) this.registry.add([resource]);
    this.verbs = new Verbs({ store, registry: this.registry, clock: this.clock, ...options });
  }

  /** With the namespaces `default` and `other`. */
  static async open(options: Partial<VerbsOptions> = {}, store: Partial<StoreOptions> = {}): Promise<Bench> {
    const bench = new Bench(openStore({ path: ':memory:', ...store }), options);
    for (const name of ['default', 'other']) {
      await bench.ask('create', { resource: bench.namespace, namespace: '', body: { metadata: { name } } });
    }
    return bench;
  }

  request(verb: Verb, asked: Asked): ResourceRequest {
    const { resource = this.widget, subresource, query = {}, body, duplicates = [] } = asked;
    this.warnings = [];
    return {
      verb,
      resource,
      subresource: subresource === undefined ? undefined : resource.subresources.get(subresource),
      namespace: asked.namespace ?? (resource.namespaced ? 'default' : ''),
      name: asked.name ?? '',
      query: new URLSearchParams(query),
      body: body === undefined ? undefined : { value: cloneJson(body), duplicates },
      patchType: asked.patchType,
      user: { name: 'admin', groups: [] },
      userAgent: asked.userAgent ?? 'tester/1.0',
      warnings: this.warnings,
      signal: asked.signal ?? new AbortController().signal,
    };
  }

  ask(verb: Verb, asked: Asked = {}): Promise<ResourceAnswer> {
    return this.verbs.handle(this.request(verb, asked));
  }

  /** The object of an answer. */
  async object(verb: Verb, asked: Asked = {}): Promise<JsonObject> {
    return itemOf(await this.ask(verb, asked)).object;
  }

  /** Why a request is refused; throws where it is not. */
  async refusal(verb: Verb, asked: Asked = {}): Promise<ApiError['status']> {
    try {
      await this.ask(verb, asked);
    } catch (error) {
      if (error instanceof ApiError) return error.status;
      throw error;
    }
    throw new Error('the request was not refused');
  }

  /** A watch, read by `next`. */
  async watch(asked: Asked = {}): Promise<AsyncIterator<readonly WatchEvent[]>> {
    const answer = await this.ask('watch', asked);
    if (answer.kind !== 'watch') throw new Error(`an answer of kind ${answer.kind}`);
    return answer.watch.events[Symbol.asyncIterator]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.verbs[Symbol.dispose]();
    await this.store[Symbol.asyncDispose]();
  }
}

export function itemOf(answer: ResourceAnswer): Item {
  if (answer.kind !== 'item') throw new Error(`an answer of kind ${answer.kind}`);
  return answer.item;
}

/** The metadata of an object. */
export function meta(object: JsonObject): JsonObject {
  return part(object, 'metadata');
}

export function widget(name: string, more: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  return { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name, ...metadata }, ...more };
}

export function pod(name: string, spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...metadata },
    spec: { containers: [{ name: 'main', image: 'busybox' }], ...spec },
  };
}
