import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { body, bytes, double, number, tag, varint } from './bytes.fixture.ts';
import { decodeProtobuf } from './decode.ts';

/** A ConfigMap: 1 metadata, 2 data, 3 binaryData, 4 immutable. */
const configMap = (...parts: readonly Buffer[]): JsonObject =>
  decodeProtobuf(body('v1', 'ConfigMap', ...parts));
describe('requests of kubectl 1.32', () => {
  const sent = (text: string): JsonObject => decodeProtobuf(Buffer.from(text, 'base64'));

  test('create configmap a --from-literal=x=1 --from-literal=y=zwei', () => {
    const object = sent(
      'azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiYKEQoBYRIAGgAiACoAMgA4AEIAEgYKAXgSATESCQoBeRIEendlaRoAIgA=',
    );
    assert.deepEqual(object, {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'a' },
      data: { x: '1', y: 'zwei' },
    });
  });

  test('create deployment d --image=nginx:1 --port=80 --replicas=0', () => {
    const object = sent(
      'azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErIBChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQShAEIABIKCggKA2FwcBIBZBpsChoK' +
        'ABIAGgAiACoAMgA4AEIAWggKA2FwcBIBZBJOEjAKBW5naW54EgduZ2lueDoxKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIA' +
        'QgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=',
    );
    assert.deepEqual(object, {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'd', labels: { app: 'd' } },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app: 'd' } },
        template: {
          metadata: { labels: { app: 'd' } },
          spec: {
            containers: [{ name: 'nginx', image: 'nginx:1', ports: [{ containerPort: 80 }], resources: {} }],
          },
        },
        strategy: {},
      },
      status: {},
    });
  });
});

describe('fields', () => {
  test('zero is kept for pointers and for fields that JSON always has, and omitted otherwise', () => {
    assert.deepEqual(configMap(bytes(1, bytes(1), number(7, 0)), number(4, 0)), {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: {},
      immutable: false,
    });
    // A rule of a role: its verbs are a list, which has no zero; the RoleRef has three texts without omitempty.
    const binding = decodeProtobuf(
      body('rbac.authorization.k8s.io/v1', 'RoleBinding', bytes(3, bytes(3, 'r'))),
    );
    assert.deepEqual(binding['roleRef'], { apiGroup: '', kind: '', name: 'r' });
  });

  test('maps, bytes, texts of all of Unicode', () => {
    const { data, binaryData } = configMap(
      bytes(2, bytes(1, 'é'), bytes(2, '😀\ufffd\0')),
      bytes(2, bytes(2, 'no key')),
      bytes(2, bytes(1, '__proto__'), bytes(2, 'x'), bytes(9, 'of a later version')),
      bytes(3, bytes(1, 'b'), bytes(2, Buffer.from([0xff, 0, 0xfe]))),
      bytes(3, bytes(1, 'empty')),
    );
    assert.deepEqual(Object.entries(data as JsonObject), [
      ['é', '😀\ufffd\0'],
      ['', 'no key'],
      ['__proto__', 'x'],
    ]);
    assert.deepEqual(binaryData, { b: '/wD+', empty: '' });
  });

  test('for repeated fields, the last value counts, and messages are merged', () => {
    const { metadata, immutable } = configMap(
      bytes(1, bytes(1, 'a'), bytes(3, 'n')),
      number(4, 1),
      bytes(1, bytes(1, 'b')),
      number(4, 0),
    );
    assert.deepEqual(metadata, { name: 'b', namespace: 'n' });
    assert.equal(immutable, false);
  });

  test('fields that are not known are passed over', () => {
    const object = configMap(
      number(90, 2 ** 40),
      double(91, 1),
      Buffer.concat([tag(92, 5), Buffer.alloc(4)]),
      // A group, with a group and a text in it.
      Buffer.concat([tag(93, 3), tag(94, 3), bytes(1, 'x'), tag(94, 4), tag(93, 4)]),
      bytes(1, bytes(1, 'a'), bytes(99, 'x')),
    );
    assert.deepEqual(object['metadata'], { name: 'a' });
  });

  test('integers: to the last of an int64, packed or not', () => {
    const pod = (...parts: readonly Buffer[]) =>
      (decodeProtobuf(body('v1', 'Pod', bytes(2, ...parts)))['spec'] as JsonObject) ?? {};
    // 4 terminationGracePeriodSeconds, 5 activeDeadlineSeconds
    assert.equal(pod(number(4, -1))['terminationGracePeriodSeconds'], -1);
    assert.equal(pod(number(5, 2n ** 53n - 1n))['activeDeadlineSeconds'], 2 ** 53 - 1);
    assert.equal(pod(number(5, 2n ** 53n + 1n))['activeDeadlineSeconds'], 2n ** 53n + 1n);
    assert.equal(pod(number(5, -(2n ** 63n)))['activeDeadlineSeconds'], -(2n ** 63n));
    // 25 priority: an int32, of which Go takes the lower half.
    assert.equal(pod(number(25, 2 ** 32 + 5))['priority'], 5);
    assert.equal(pod(number(25, -5))['priority'], -5);
    // 14 securityContext, 4 supplementalGroups
    const packed = bytes(14, bytes(4, varint(1), varint(300)), number(4, 7));
    assert.deepEqual(pod(packed)['securityContext'], { supplementalGroups: [1, 300, 7] });
  });
});

describe('types with a JSON of their own', () => {
  const spec = (apiVersion: string, kind: string, ...parts: readonly Buffer[]): JsonObject =>
    decodeProtobuf(body(apiVersion, kind, bytes(2, ...parts)))['spec'] as JsonObject;

  test('times', () => {
    const created = configMap(bytes(1, bytes(8, number(1, 1_700_000_000), number(2, 9))));
    assert.deepEqual(created['metadata'], { creationTimestamp: '2023-11-14T22:13:20Z' });
    // Go's unset time, which is also sent as no bytes.
    assert.deepEqual(configMap(bytes(1, bytes(8, number(1, -62_135_596_800))))['metadata'], {});
    const lease = (acquired: Buffer, renewed: Buffer) =>
      spec('coordination.k8s.io/v1', 'Lease', bytes(3, acquired), bytes(4, renewed));
    const [seconds, before] = [number(1, 1_700_000_000), number(1, -1)];
    assert.deepEqual(
      lease(Buffer.concat([seconds, number(2, 123_456_789)]), Buffer.concat([before, number(2, 5000)])),
      { acquireTime: '2023-11-14T22:13:20.123456Z', renewTime: '1969-12-31T23:59:59.000005Z' },
    );
    assert.deepEqual(
      lease(Buffer.concat([seconds, number(2, -1000)]), Buffer.concat([before, number(2, 2_000_000_000)])),
      { acquireTime: '2023-11-14T22:13:19.999999Z', renewTime: '1970-01-01T00:00:01.000000Z' },
    );
  });

  test('quantities', () => {
    const hard = (key: string, ...value: readonly Buffer[]) => bytes(1, bytes(1, key), ...value);
    const quota = spec('v1', 'ResourceQuota', hard('cpu', bytes(2, bytes(1, '2'))), hard('none'));
    assert.deepEqual(quota, { hard: { cpu: '2', none: '0' } });
  });

  test('texts or numbers', () => {
    const service = spec(
      'v1',
      'Service',
      bytes(1, number(3, 80), bytes(4, number(1, 1), bytes(3, 'http'))),
      bytes(1, number(3, 81), bytes(4, number(2, 8080))),
      bytes(1, number(3, 82)),
    );
    assert.deepEqual(service['ports'], [
      { port: 80, targetPort: 'http' },
      { port: 81, targetPort: 8080 },
      { port: 82, targetPort: 0 },
    ]);
  });

  test('JSON in bytes: managed fields, defaults and enumerations of schemas', () => {
    const managed = configMap(bytes(1, bytes(17, bytes(1, 'me'), bytes(7, bytes(1, '{"f:data":{}}')))));
    assert.deepEqual(managed['metadata'], {
      managedFields: [{ manager: 'me', fieldsV1: { 'f:data': {} } }],
    });
    // spec 2, versions 7, schema 4, openAPIV3Schema 1; in it default 8, enum 20, items 24, additionalProperties 30
    const crd = spec(
      'apiextensions.k8s.io/v1',
      'CustomResourceDefinition',
      bytes(
        7,
        bytes(
          4,
          bytes(
            1,
            bytes(8, bytes(1, '9007199254740993')),
            double(9, 2.5),
            bytes(20, bytes(1, '"a"')),
            bytes(20),
            bytes(24, bytes(1, bytes(3, '#/x'))),
            bytes(29, bytes(1, 'p'), bytes(2, bytes(30, number(1, 1)))),
            bytes(29, bytes(1, 'q'), bytes(2, bytes(30, bytes(2, bytes(5, 'string'))))),
            number(38, 0),
          ),
        ),
      ),
    );
    const [version] = crd['versions'] as { schema: { openAPIV3Schema: unknown } }[];
    assert.deepEqual(version?.schema.openAPIV3Schema, {
      default: 9007199254740993n,
      maximum: 2.5,
      enum: ['a', null],
      items: { $ref: '#/x' },
      properties: {
        p: { additionalProperties: true },
        q: { additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-preserve-unknown-fields': false,
    });
  });

  test('fields of an inlined struct are next to those of the outer one', () => {
    const pod = spec(
      'v1',
      'Pod',
      bytes(1, bytes(1, 'tmp'), bytes(2, bytes(2))),
      bytes(2, bytes(1, 'a'), bytes(11, bytes(1, bytes(1, bytes(1, 'true'))), number(4, 7))),
      bytes(34, bytes(1, bytes(1, 'debug')), bytes(2, 'a')),
    );
    assert.deepEqual(pod, {
      volumes: [{ name: 'tmp', emptyDir: {} }],
      containers: [
        { name: 'a', resources: {}, readinessProbe: { exec: { command: ['true'] }, periodSeconds: 7 } },
      ],
      ephemeralContainers: [{ name: 'debug', resources: {}, targetContainerName: 'a' }],
    });
  });
});

test('DeleteOptions, which every group has', () => {
  const options = (apiVersion: string) =>
    decodeProtobuf(
      body(apiVersion, 'DeleteOptions', number(1, 0), bytes(2, bytes(1, 'u')), bytes(4, 'Orphan')),
    );
  for (const apiVersion of ['v1', 'apps/v1', 'example.com/v1alpha1']) {
    assert.deepEqual(options(apiVersion), {
      kind: 'DeleteOptions',
      apiVersion,
      gracePeriodSeconds: 0,
      preconditions: { uid: 'u' },
      propagationPolicy: 'Orphan',
    });
  }
});
