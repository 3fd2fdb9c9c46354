// Objects as Go's types have them: what is refused, what is left out.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';

import { knownKinds } from '../protobuf/fields.ts';
import { anyObject } from '../protobuf/messages.fixture.ts';
import { cloneJson, type JsonObject } from '../../json/json.ts';
import { created, updated } from './builtin.fixture.ts';
import { takeGoForm } from './go-form.ts';

function formed(object: JsonObject): JsonObject {
  const copy = cloneJson(object) as JsonObject;
  takeGoForm(copy, String(object['apiVersion']), String(object['kind']));
  return copy;
}

function refusal(object: JsonObject): string {
  try {
    formed(object);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
}

const pod = (spec: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'Pod', spec });
const container = (more: JsonObject): JsonObject => pod({ containers: [{ name: 'a', image: 'a', ...more }] });
const policy = (spec: JsonObject): JsonObject => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'p' },
  spec,
});

test('a protobuf object has this form', () => {
  for (const known of knownKinds()) {
    const [apiVersion = '', kind = ''] = known.split(' ');
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const object = anyObject(seed, apiVersion, kind);
        assert.deepEqual(formed(object), object);
      }),
      { numRuns: 20 },
    );
  }
});

suite('a value of the wrong type is refused in the words of Go', () => {
  const go = 'json: cannot unmarshal';
  const cases: readonly (readonly [JsonObject, string])[] = [
    [pod({ hostNetwork: 'yes' }), `${go} string into Go struct field PodSpec.spec.hostNetwork of type bool`],
    [
      pod({ containers: {} }),
      `${go} object into Go struct field PodSpec.spec.containers of type []v1.Container`,
    ],
    [
      pod({ containers: ['a'] }),
      `${go} string into Go struct field PodSpec.spec.containers of type v1.Container`,
    ],
    [
      container({ image: 1 }),
      `${go} number into Go struct field Container.spec.containers.image of type string`,
    ],
    [
      container({ args: [true] }),
      `${go} bool into Go struct field Container.spec.containers.args of type string`,
    ],
    [pod({ priority: 1.5 }), `${go} number 1.5 into Go struct field PodSpec.spec.priority of type int32`],
    [
      pod({ nodeSelector: [] }),
      `${go} array into Go struct field PodSpec.spec.nodeSelector of type map[string]string`,
    ],
    [
      pod({ nodeSelector: { a: 1 } }),
      `${go} number into Go struct field PodSpec.spec.nodeSelector of type string`,
    ],
    // Fields of a struct that stands inline are the outer one's.
    [
      pod({ volumes: [{ name: 'a', hostPath: 'x' }] }),
      `${go} string into Go struct field Volume.spec.volumes.hostPath of type v1.HostPathVolumeSource`,
    ],
    [container({ livenessProbe: { tcpSocket: { port: true } } }), `${go} bool into Go value of type int32`],
    [
      { apiVersion: 'v1', kind: 'Pod', spec: 'x' },
      `${go} string into Go struct field Pod.spec of type v1.PodSpec`,
    ],
    [
      { apiVersion: 'v1', kind: 'Pod', status: { startTime: 5 } },
      `${go} number into Go value of type string`,
    ],
    [
      { apiVersion: 'v1', kind: 'Pod', status: { startTime: 'now' } },
      'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
    ],
  ];
  for (const [object, message] of cases) test(message, () => assert.equal(refusal(object), message));
});

suite('values that Go cannot distinguish from absent ones are omitted', () => {
  test('nulls, also in lists and maps', () => {
    const { spec } = formed(
      pod({
        containers: [{ name: 'a', args: ['x', null], env: null }, null],
        nodeSelector: { a: null },
        tolerations: null,
      }),
    );
    assert.deepEqual(spec, {
      containers: [{ name: 'a', args: ['x', ''] }, {}],
      nodeSelector: { a: '' },
    });
  });

  test('empty values of fields that are not pointers', () => {
    const { spec } = formed(
      pod({
        hostNetwork: false,
        nodeName: '',
        priority: 0,
        hostUsers: false,
        volumes: [{ name: 'a', emptyDir: {} }],
        overhead: {},
        containers: [],
      }),
    );
    assert.deepEqual(spec, { priority: 0, hostUsers: false, volumes: [{ name: 'a', emptyDir: {} }] });
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', roleRef: { name: '' } };
    assert.deepEqual(formed(role)['roleRef'], { name: '' }, 'no omitempty');
  });

  test('the empty lists of a NetworkPolicy', () => {
    const { object } = created(
      policy({ podSelector: {}, policyTypes: ['Egress'], egress: [], ingress: [{ from: [], ports: [] }] }),
    );
    assert.deepEqual(object['spec'], { podSelector: {}, policyTypes: ['Egress'], ingress: [{}] });
  });

  test('an extension and a default of a definition keep any JSON', () => {
    const schema = { type: 'object', description: null, properties: { a: { default: { b: null, c: [] } } } };
    const versions = [{ name: 'v1', schema: { openAPIV3Schema: schema } }];
    const crd = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      spec: { versions },
    };
    const { description: _null, ...kept } = schema;
    assert.deepEqual((formed(crd)['spec'] as JsonObject)['versions'], [
      { name: 'v1', schema: { openAPIV3Schema: kept } },
    ]);
  });
});

test('a NetworkPolicy without a spec refuses all that comes in', () => {
  for (const spec of [undefined, null]) {
    const { spec: _replaced, ...rest } = policy({});
    const first = created(spec === undefined ? rest : { ...rest, spec });
    assert.deepEqual(first.causes, []);
    assert.deepEqual(first.object['spec'], { podSelector: {}, policyTypes: ['Ingress'] });
  }
  const { object } = updated(created(policy({ podSelector: {} })), (one) => delete one['spec']);
  assert.deepEqual(object['spec'], { podSelector: {}, policyTypes: ['Ingress'] });
});

test('unset times of events are null', () => {
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e', namespace: 'default' },
    involvedObject: { namespace: 'default' },
    eventTime: null,
  };
  const first = created(event);
  assert.deepEqual(first.causes, []);
  const { eventTime, firstTimestamp, lastTimestamp } = first.object;
  assert.deepEqual([eventTime, firstTimestamp, lastTimestamp], [null, null, null]);
  const again = updated(first, () => {});
  assert.deepEqual([again.causes, again.object], [[], first.object]);
});
