import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { created, resourceOf, updated } from './builtin.fixture.ts';
import { canonicalAmount, parseQuantity } from './quantities.ts';
import { pullPolicy } from './defaults/pod.ts';

const pod = `
apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop }
spec:
  containers:
    - name: web
      image: nginx
      resources: { limits: { cpu: 1, memory: 64Mi } }
    - name: log
      image: busybox:1.36
      resources: { requests: { cpu: 1500m } }
`;

const specOf = (object: JsonObject): JsonObject => object['spec'] as JsonObject;

suite('Pod', () => {
  test('a new pod gets the defaults of a cluster, including those of admission', () => {
    const { object, causes, unknown } = created(pod);
    assert.deepEqual({ unknown, causes }, { unknown: [], causes: [] });
    const { containers, ...rest } = specOf(object) as { containers: readonly JsonObject[] };
    assert.deepEqual(rest, {
      dnsPolicy: 'ClusterFirst',
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
      priority: 0,
      restartPolicy: 'Always',
      schedulerName: 'default-scheduler',
      securityContext: {},
      serviceAccount: 'default',
      serviceAccountName: 'default',
      terminationGracePeriodSeconds: 30,
      tolerations: [
        {
          effect: 'NoExecute',
          key: 'node.kubernetes.io/not-ready',
          operator: 'Exists',
          tolerationSeconds: 300,
        },
        {
          effect: 'NoExecute',
          key: 'node.kubernetes.io/unreachable',
          operator: 'Exists',
          tolerationSeconds: 300,
        },
      ],
    });
    assert.deepEqual(containers[0]?.['resources'], {
      limits: { cpu: '1', memory: '64Mi' },
      requests: { cpu: '1', memory: '64Mi' },
    });
    assert.deepEqual(containers[1]?.['resources'], { requests: { cpu: '1500m' } });
    assert.deepEqual(object['status'], { phase: 'Pending', qosClass: 'Burstable' });
  });

  const qos: readonly (readonly [string, string])[] = [
    ['{}', 'BestEffort'],
    ['{ limits: { cpu: 1, memory: 1Gi } }', 'Guaranteed'],
    ['{ limits: { cpu: 1, memory: 1Gi }, requests: { cpu: 1000m, memory: 1024Mi } }', 'Guaranteed'],
    ['{ limits: { cpu: 1, memory: 1Gi }, requests: { cpu: 500m } }', 'Burstable'],
    ['{ requests: { memory: 1Gi } }', 'Burstable'],
    ['{ requests: { "example.com/gpu": 1 }, limits: { "example.com/gpu": 1 } }', 'BestEffort'],
  ];
  for (const [resources, wanted] of qos) {
    test(`resources ${resources} are ${wanted}`, () => {
      const { object } = created(
        `{ apiVersion: v1, kind: Pod, metadata: { name: a }, spec: { containers: [{ name: a, image: a, resources: ${resources} }] } }`,
      );
      assert.equal((object['status'] as JsonObject)['qosClass'], wanted);
    });
  }

  test('the status of a new pod is not the client’s', () => {
    const { object } = created(`${pod}\nstatus: { phase: Running }`);
    assert.equal((object['status'] as JsonObject)['phase'], 'Pending');
  });

  test('an empty text is filled in as an absent one is', () => {
    const { object, causes } = created(pod.replace('spec:', 'spec:\n  dnsPolicy: ""\n  restartPolicy: ""'));
    assert.deepEqual(causes, []);
    assert.equal(specOf(object)['dnsPolicy'], 'ClusterFirst');
    assert.equal(specOf(object)['restartPolicy'], 'Always');
  });

  test('ports of the host are those of the containers in its network', () => {
    const { object, causes } = created(
      pod
        .replace('spec:', 'spec:\n  hostNetwork: true')
        .replace('image: nginx', 'image: nginx\n      ports: [{ containerPort: 80 }]'),
    );
    assert.deepEqual(causes, []);
    const [web] = specOf(object)['containers'] as readonly JsonObject[];
    assert.deepEqual(web?.['ports'], [{ containerPort: 80, hostPort: 80, protocol: 'TCP' }]);
  });

  const broken: readonly (readonly [string, string, readonly string[]])[] = [
    ['no container', '{ containers: [] }', ['spec.containers: Required value']],
    ['nothing', '{}', ['spec.containers: Required value']],
    [
      'two containers of one name',
      '{ containers: [{ name: a, image: a }, { name: a, image: b }] }',
      ['spec.containers[1].name: Duplicate value: "a"'],
    ],
    [
      'an init container of the same name',
      '{ containers: [{ name: a, image: a }], initContainers: [{ name: a, image: b }] }',
      ['spec.initContainers[0].name: Duplicate value: "a"'],
    ],
    ['no name', '{ containers: [{ image: a }] }', ['spec.containers[0].name: Required value']],
    [
      'an image with spaces around it',
      '{ containers: [{ name: a, image: " a" }] }',
      ['spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace'],
    ],
    [
      'a policy in small letters',
      '{ restartPolicy: always, containers: [{ name: a, image: a }] }',
      ['spec.restartPolicy: Unsupported value: "always": supported values: "Always", "OnFailure", "Never"'],
    ],
    [
      'a variable without a source',
      '{ containers: [{ name: a, image: a, env: [{ name: A, valueFrom: {} }] }] }',
      [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`',
      ],
    ],
    [
      'more requested than allowed',
      '{ containers: [{ name: a, image: a, resources: { requests: { cpu: 2 }, limits: { cpu: 1 } } }] }',
      [
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
      ],
    ],
    [
      'a probe without a handler',
      '{ containers: [{ name: a, image: a, livenessProbe: { periodSeconds: 5 } }] }',
      ['spec.containers[0].livenessProbe: Required value: must specify a handler type'],
    ],
    [
      'one host port twice',
      '{ containers: [{ name: a, image: a, ports: [{ containerPort: 1, hostPort: 9 }, { containerPort: 2, hostPort: 9 }] }] }',
      ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"'],
    ],
    [
      'a volume of two kinds',
      '{ containers: [{ name: a, image: a }], volumes: [{ name: v, emptyDir: {}, hostPath: { path: / } }] }',
      ['spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type'],
    ],
    [
      'a text where a number belongs',
      '{ containers: [{ name: a, image: a, ports: [{ containerPort: "http" }] }] }',
      [
        'json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32',
      ],
    ],
    [
      'a number that is too large',
      '{ priority: 3000000000, containers: [{ name: a, image: a }] }',
      ['json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32'],
    ],
    [
      'no name server',
      '{ dnsPolicy: None, containers: [{ name: a, image: a }] }',
      ['spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None'],
    ],
  ];
  for (const [what, spec, causes] of broken) {
    test(`${what} is refused`, () => {
      assert.deepEqual(
        created(`{ apiVersion: v1, kind: Pod, metadata: { name: a }, spec: ${spec} }`).causes,
        causes,
      );
    });
  }

  test('images, deadlines and more tolerations may change; all else may not', () => {
    const first = created(pod);
    const fine = updated(first, (object) => {
      const spec = specOf(object) as { containers: JsonObject[]; tolerations: JsonObject[] };
      (spec.containers[0] as JsonObject)['image'] = 'nginx:2';
      spec.tolerations.push({ key: 'a', operator: 'Exists' });
      specOf(object)['activeDeadlineSeconds'] = 60;
    });
    assert.deepEqual(fine.causes, []);
    const changes: readonly ((spec: JsonObject) => void)[] = [
      (spec) => (spec['nodeName'] = 'other'),
      (spec) => (spec['hostNetwork'] = true),
      (spec) => (((spec['containers'] as JsonObject[])[0] ??= {})['command'] = ['sh']),
    ];
    for (const change of changes) {
      const { causes } = updated(first, (object) => change(specOf(object)));
      assert.equal(causes.length, 1);
      assert.match(causes[0] ?? '', /^spec: Forbidden: pod updates may not change fields other than/);
    }
    const fewer = updated(first, (object) => (specOf(object)['containers'] as JsonObject[]).pop());
    assert.deepEqual(fewer.causes, [
      'spec.containers: Forbidden: pod updates may not add or remove containers',
    ]);
    const less = updated(first, (object) => (specOf(object)['tolerations'] = []));
    assert.deepEqual(less.causes, [
      'spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds',
    ]);
  });

  test('fields that a client omits in an update are kept', () => {
    const first = created(pod);
    const { causes } = updated(first, (object) => {
      for (const field of ['serviceAccountName', 'serviceAccount', 'priority', 'preemptionPolicy']) {
        delete specOf(object)[field];
      }
    });
    assert.deepEqual(causes, []);
  });

  test('how long a pod that is deleted stays', () => {
    const { strategy } = resourceOf('v1', 'Pod');
    const grace = (spec: JsonObject, phase: string, asked?: number): number | undefined =>
      strategy.gracePeriodSeconds?.({ spec, status: { phase } }, asked);
    assert.equal(grace({}, 'Pending'), 0);
    assert.equal(grace({ nodeName: 'n' }, 'Running'), 30);
    assert.equal(grace({ nodeName: 'n', terminationGracePeriodSeconds: 5 }, 'Running'), 5);
    assert.equal(grace({ nodeName: 'n', terminationGracePeriodSeconds: 5 }, 'Running', 60), 60);
    assert.equal(grace({ nodeName: 'n' }, 'Running', 0), 0);
    assert.equal(grace({ nodeName: 'n' }, 'Succeeded', 60), 0);
    assert.equal(grace({ nodeName: 'n' }, 'Failed'), 0);
  });

  test('containers for debugging are added, and stay', () => {
    const sub = resourceOf('v1', 'Pod').subresources.get('ephemeralcontainers');
    assert.ok(sub?.validate);
    const { object } = created(pod);
    const debug = { name: 'debug', image: 'busybox', imagePullPolicy: 'Always' };
    const sent = { ...object, spec: { hostNetwork: true, ephemeralContainers: [debug] } };
    const added = sub.write(object, sent);
    assert.equal(specOf(added)['hostNetwork'], undefined);
    assert.deepEqual(specOf(added)['ephemeralContainers'], [debug]);
    assert.deepEqual(sub.validate(added, object), []);
    const removed = sub.write(added, { ...object, spec: {} });
    assert.deepEqual(
      sub.validate(removed, added).map(({ message }) => message.trim()),
      ['Forbidden: existing ephemeral containers "debug" may not be removed'],
    );
  });
});

test('which images are pulled always', () => {
  const policies = {
    nginx: 'Always',
    'nginx:latest': 'Always',
    'nginx:1': 'IfNotPresent',
    'host:5000/nginx': 'Always',
    'host:5000/nginx:1': 'IfNotPresent',
    'nginx@sha256:0': 'IfNotPresent',
    'nginx:latest@sha256:0': 'Always',
  };
  for (const [image, policy] of Object.entries(policies)) assert.equal(pullPolicy(image), policy, image);
});

test('amounts: canonical ones stay, and mean the same (apimachinery quantity_test.go has most of these)', () => {
  const amounts: Record<string, string> = {
    '0': '0',
    '1000m': '1',
    '0.5': '500m',
    '1500': '1500',
    '100000': '100k',
    '1024Mi': '1Gi',
    '1.5Gi': '1536Mi',
    '512': '512',
    '0.5Ki': '512',
    '1e3': '1e3',
    '12e6': '12e6',
    '0.0001': '1m',
    '-1500m': '-1500m',
    '100Ki': '100Ki',
  };
  for (const [sent, shown] of Object.entries(amounts)) assert.equal(canonicalAmount(sent), shown, sent);
  assert.equal(canonicalAmount(2), '2');
  assert.equal(canonicalAmount('two'), 'two');
  const suffixes = ['', 'm', 'k', 'M', 'G', 'Ki', 'Mi', 'Gi', 'e3', 'E'];
  fc.assert(
    fc.property(fc.integer({ min: -99_999, max: 99_999 }), fc.constantFrom(...suffixes), (number, suffix) => {
      const text = `${number}${suffix}`;
      const canonical = String(canonicalAmount(text));
      assert.equal(canonicalAmount(canonical), canonical);
      assert.equal(parseQuantity(canonical)?.nanos, parseQuantity(text)?.nanos);
    }),
  );
});
