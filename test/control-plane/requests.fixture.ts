/** Requests at random: sound ones, ones that are a little wrong, and nonsense. */
import type { Random } from '../../lib/testing/depth.fixture.ts';
import { definitions, type Sample, samples } from './manifests.fixture.ts';
import { damage, type Json, mixed, mutate, textOf, texts, yamlOf } from './mutate.fixture.ts';
import { patchOf } from './patches.fixture.ts';

export interface RandomRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** An earlier answer that is sent again, unchanged or changed. */
export interface Heard {
  readonly tokens: string[];
  readonly versions: string[];
  readonly uids: string[];
}

const namespaces = [
  'default',
  'default',
  'default',
  'default',
  'default',
  'fuzz-a',
  'fuzz-b',
  'nowhere',
] as const;
const objectNames = ['a', 'a', 'b', 'c'] as const;
const accepts = [
  'application/json',
  'application/yaml',
  'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
  'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
  'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json',
  'application/vnd.kubernetes.protobuf,application/json',
  '*/*',
  'text/html',
  'application/json;as=Nonsense;v=v1;g=x',
  ';;,,q=',
] as const;
const selectors = [
  'app=web',
  'app!=web',
  'app in (web, x),tier',
  '!app',
  'app notin ()',
  'a=b,,',
  'in in (in)',
  'app>1',
  '(',
  'x'.repeat(300),
  '/=/',
  'é=1',
  'metadata.name=a',
  'metadata.namespace!=default,metadata.name==a',
  'spec.nodeName=n',
  'status.phase!=Running',
  'spec.color=red',
  'involvedObject.name=a',
  'spec.color=\\,',
  'a\\',
  '=',
  '__proto__=x',
  'constructor.name=x',
] as const;

function queryOf(random: Random, heard: Heard): string {
  if (random.chance(0.65)) return '';
  const any = (): string => random.pick(texts).slice(0, 300);
  const version = (): string =>
    random.pick([...heard.versions.slice(-20), '0', '1', '99999999', '-1', any()]);
  const token = (): string => {
    const known = heard.tokens[random.below(heard.tokens.length)];
    if (known === undefined || random.chance(0.1)) return any();
    if (random.chance(0.5)) return known;
    return random.chance(0.5)
      ? damage(random, Buffer.from(known)).toString()
      : damage(random, Buffer.from(known, 'base64url')).toString('base64url');
  };
  const parameters: readonly (readonly [string, () => string])[] = [
    ['labelSelector', () => random.pick([...selectors, any()])],
    ['fieldSelector', () => random.pick([...selectors, any()])],
    ['limit', () => random.pick(['1', '2', '0', '-1', '9223372036854775808', '1e3', any()])],
    ['continue', token],
    ['resourceVersion', version],
    ['resourceVersionMatch', () => random.pick(['Exact', 'NotOlderThan', 'x', ''])],
    ['timeoutSeconds', () => random.pick(['1', '0', '-5', '99999999999', any()])],
    ['watch', () => random.pick(['0', 'false', 'x', ''])],
    ['allowWatchBookmarks', () => random.pick(['true', 'x'])],
    ['sendInitialEvents', () => random.pick(['true', 'false', 'x'])],
    ['fieldManager', () => random.pick(['m1', 'm2', 'm3', any()])],
    ['fieldValidation', () => random.pick(['Strict', 'Warn', 'Ignore', 'x'])],
    ['dryRun', () => random.pick(['All', '', 'x'])],
    ['force', () => random.pick(['true', 'false', 'x'])],
    ['pretty', () => random.pick(['true', 'x'])],
    ['propagationPolicy', () => random.pick(['Foreground', 'Background', 'Orphan', 'x'])],
    ['gracePeriodSeconds', () => random.pick(['0', '1', '-1', 'x'])],
    ['orphanDependents', () => random.pick(['true', 'x'])],
    ['ignoreStoreReadErrorWithClusterBreakingPotential', () => 'true'],
    [any(), any],
  ];
  const pairs = Array.from({ length: 1 + random.below(4) }, () => {
    const [name, value] = random.pick(parameters);
    const text = `${encodeURIComponent(name.toWellFormed())}=${encodeURIComponent(value().toWellFormed())}`;
    return random.chance(0.02) ? `${text}%zz&=&;` : text;
  });
  return `?${pairs.join('&')}`;
}

function manifestOf(random: Random, { object }: Sample, name: string, heard: Heard): Json {
  const given = { ...(object['metadata'] as object), name } as Record<string, Json>;
  if (random.chance(0.1)) {
    const more: readonly (readonly [string, Json])[] = [
      ['uid', random.pick([...heard.uids.slice(-20), 'x'])],
      ['resourceVersion', random.pick([...heard.versions.slice(-20), 'x', '0'])],
      ['finalizers', random.pick<Json>([['example.com/f'], ['f'], ['foregroundDeletion'], [], null])],
      ['deletionTimestamp', '2025-01-02T03:04:05Z'],
      ['generateName', random.pick(['g-', '', 'x'.repeat(300)])],
      ['generation', random.pick([5, -1, 2 ** 53])],
      ['selfLink', '/x'],
      [
        'ownerReferences',
        [
          {
            apiVersion: 'v1',
            kind: 'ConfigMap',
            name: 'a',
            uid: random.pick([...heard.uids.slice(-20), 'none']),
            ...(random.chance(0.5) && { controller: true, blockOwnerDeletion: true }),
          },
        ],
      ],
      [
        'managedFields',
        [
          {
            manager: 'm1',
            operation: random.pick(['Apply', 'Update', 'x']),
            apiVersion: object['apiVersion'] ?? 'v1',
            fieldsType: 'FieldsV1',
            fieldsV1: { 'f:data': { 'f:a': {}, 'k:{"name":"x"}': { '.': {} }, 'v:1': {}, 'i:0': {} } },
          },
        ],
      ],
    ];
    const [key, value] = random.pick(more);
    given[key] = value;
  }
  return mutate(random, { ...object, metadata: given }, mixed(random));
}

/** A message in protocol buffers: field numbers and strings. */
function message(...fields: readonly (readonly [number, string | Buffer])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      const bytes = Buffer.from(value as string);
      return [Buffer.from([(number << 3) | 2, ...varint(bytes.length)]), bytes];
    }),
  );
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

/** As clients in Go send it: magic, and a runtime.Unknown (apimachinery, pkg/runtime/generated.proto). */
function protobufOf(random: Random, { object }: Sample, name: string): Buffer {
  const metadata = message([1, name], [11, message([1, 'app'], [2, 'web'])]);
  const raw = message([1, metadata], [2, message([1, 'key'], [2, 'value'])]);
  const type = message([1, object['apiVersion'] as string], [2, object['kind'] as string]);
  return Buffer.concat([
    Buffer.from('k8s\0'),
    message([1, type], [2, random.chance(0.5) ? damage(random, raw) : raw]),
  ]);
}

const bodyTypes = [
  'application/json',
  'application/json',
  'application/json',
  'application/json',
  'application/json',
  'application/json',
  'application/json; charset=utf-8',
  'application/yaml',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/vnd.kubernetes.protobuf',
  'text/plain',
  '',
] as const;

const deletion: readonly Json[] = [
  { propagationPolicy: 'Foreground' },
  { propagationPolicy: 'Orphan', kind: 'DeleteOptions', apiVersion: 'v1' },
  { preconditions: { uid: 'x', resourceVersion: '1' } },
  { gracePeriodSeconds: -1, dryRun: ['x'] },
  { dryRun: ['All'] },
  [],
  {},
];

const tails = [
  'status',
  'scale',
  'finalize',
  'binding',
  'eviction',
  'log',
  'approval',
  'token',
  'x',
  '..',
  '%00',
] as const;

export function randomRequest(random: Random, heard: Heard): RandomRequest {
  const sample = random.chance(0.25) ? (samples[0] as Sample) : random.pick(samples);
  const name = sample.path === definitions ? 'things.fuzz.example.com' : random.pick(objectNames);
  const wanted = sample.path.endsWith('/v1/namespaces') ? random.pick(['fuzz-a', 'fuzz-b', 'default']) : name;
  const collection = sample.path.replace('NS', random.pick(namespaces));
  const kind = random.below(100);
  const one = `${collection}/${wanted}${random.chance(0.1) ? `/${random.pick(tails)}` : ''}`;
  const headers: Record<string, string> = random.chance(0.15) ? { accept: random.pick(accepts) } : {};
  const request = (method: string, path: string, body?: Buffer, type?: string): RandomRequest => {
    if (type !== undefined && type !== '') headers['content-type'] = type;
    const sent = body !== undefined && random.chance(0.06) ? damage(random, body) : body;
    return {
      method,
      path: twisted(random, path) + queryOf(random, heard),
      headers,
      ...(sent && { body: sent }),
    };
  };
  if (kind < 40) {
    const type = random.pick(bodyTypes);
    const manifest = manifestOf(random, sample, wanted, heard);
    let body: Buffer = Buffer.from(type === 'application/yaml' ? yamlOf(random, manifest) : textOf(manifest));
    if (type.endsWith('protobuf')) body = protobufOf(random, sample, wanted);
    return kind < 28 ? request('POST', collection, body, type) : request('PUT', one, body, type);
  }
  if (kind < 66) {
    const { type, text } = patchOf(random, manifestOf(random, sample, wanted, heard));
    return request('PATCH', one, Buffer.from(text), random.chance(0.03) ? random.pick(bodyTypes) : type);
  }
  if (kind < 74) {
    const body = random.chance(0.3)
      ? Buffer.from(textOf(mutate(random, random.pick(deletion), mixed(random) >> 1)))
      : undefined;
    return request('DELETE', one, body, body && 'application/json');
  }
  if (kind < 75) {
    // A definition that is gone takes its kind with it.
    return sample.path === definitions ? request('GET', collection) : request('DELETE', collection);
  }
  if (kind < 85) return request('GET', one);
  if (kind < 97)
    return request('GET', random.chance(0.2) ? collection.replace(/\/namespaces\/[^/]+/, '') : collection);
  if (kind < 99)
    return request(
      random.pick(['GET', 'HEAD', 'OPTIONS', 'POST']),
      random.pick([
        '/',
        '/api',
        '/apis',
        '/version',
        '/openapi/v2',
        '/openapi/v3/api/v1',
        '/apis/x/v1/y',
        '/livez/x',
        '/api/v1/watch/pods/a',
      ]),
    );
  return request(random.pick(['HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'LOCK']), one);
}

function twisted(random: Random, path: string): string {
  if (!random.chance(0.03)) return path;
  const parts = path.split('/');
  const at = 1 + random.below(parts.length - 1);
  parts[at] = random.pick([
    '',
    '.',
    '..',
    '%2f',
    '%00',
    '%zz',
    'v2',
    'constructor',
    '__proto__',
    'é',
    'A',
    ...texts.map((text) => text.slice(0, 300)),
  ]);
  return parts
    .map((part, index) => (index === at && !part.startsWith('%') ? encodeURIComponent(part) : part))
    .join('/');
}
