import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { parse } from 'yaml';

import { compileSchema } from '../../lib/apiserver/schema/compiled-schema.ts';
import type { CrdManifest } from '../../lib/kube/crd/manifest.ts';
import type { KiveData, KiveMatch, KivePolicy } from './api.ts';
import { samplePolicy } from './policy/policy.fixture.ts';
import { samples } from './policy/samples.fixture.ts';

/** The schema of a committed manifest: the one that a cluster gets. */
function committed(plural: string, version: string) {
  const manifest = parse(
    readFileSync(join(import.meta.dirname, '../../deploy/guards/file-access/crd', `${plural}.yaml`), 'utf8'),
  ) as CrdManifest;
  return compileSchema(manifest.spec.versions.find(({ name }) => name === version)?.schema.openAPIV3Schema);
}

/** As users of Kive have written it. */
const sampleData = `
apiVersion: kivebpf.san7o.github.io/v1
kind: KiveData
metadata:
  annotations:
    kive-alert-version: v1
    kive-policy-name: kive-sample-policy
    callback: ""
    container-id: containerd://da9e46ae1873ec463c9dafd08d2be762867e92b740b5c5b4534c6ad0c270d1e5
    container-name: nginx
    namespace: default
    node_name: kive-worker2
    path: /secret.txt
    pod_ip: 10.244.1.2
    pod_name: nginx-pod
  creationTimestamp: "2025-07-25T08:06:12Z"
  generation: 1
  name: kive-data-nginx-pod-default-13667586
  namespace: kivebpf-system
  resourceVersion: "23395"
  uid: 788bcb67-a9de-480d-a179-e40234116459
  labels:
      trap-id: c4705ec263cc353100b6f18a129e32b67b79171bcb0c90b2731a7923ea4dcee
spec:
  inodeNo: 13667586
  devId: 3
  metadata:
    severity: critical
  kernelId: fc9a30d5-6140-4dd1-b8ef-c638f19ebd71
`;

/** A server's treatment of an object: dropped fields, errors, and the stored result. */
function take(plural: string, object: unknown, version = 'v1') {
  const schema = committed(plural, version);
  const stored = structuredClone(object);
  schema.applyDefaults(stored);
  const dropped = schema.prune(stored);
  return {
    dropped,
    causes: schema.validate(stored).map(({ field, message }) => `${field}: ${message}`),
    stored,
  };
}

/** Taken and shown in both versions: what one does not have would be lost where it is converted. */
function assertTaken(plural: string, object: unknown): void {
  for (const version of ['v1', 'v2alpha1']) {
    assert.deepEqual(take(plural, object, version), { dropped: [], causes: [], stored: object });
  }
}

const trap = { path: '/etc/shadow', matchAny: [{ namespace: 'shop' }] };
const policyWith = (more: object): KivePolicy => ({
  apiVersion: 'kivebpf.san7o.github.io/v1',
  kind: 'KivePolicy',
  metadata: { namespace: 'a', name: 'p' },
  spec: { traps: [{ ...trap, ...more }] },
});
const dataWith = (spec: KiveData['spec']): KiveData => ({
  apiVersion: 'kivebpf.san7o.github.io/v1',
  kind: 'KiveData',
  metadata: { namespace: 'kivebpf-system', name: 'd' },
  spec,
});

suite('KivePolicy', () => {
  test('reads objects written for Kive unchanged', () => assertTaken('kivepolicies', parse(samplePolicy)));

  test('each field, and each item of a match, on its own', () => {
    for (const more of [
      {},
      { create: false },
      { mode: 0 },
      { mode: 777 },
      { mode: '0444' },
      { mode: '0o400' },
      { mode: 511 },
      { mode: 44 },
      { path: '/..data/.hidden/...' },
      { path: '/*' },
      { path: '/etc/app/**' },
      { callback: 'https://[fd00::1]:8443/in?token=a@b' },
      { callback: '' },
      { callback: 'https://sink/in', callbackSecret: 'hook' },
      { callback: 'HTTPS://sink', callbackSecret: '0.a-b.c' },
      { metadata: {} },
      { processes: { except: ['/usr/bin/vault', '/..data/.x'] } },
      { processes: { only: ['/usr/bin/curl'] } },
    ]) {
      assertTaken('kivepolicies', policyWith(more));
    }
    for (const match of [
      { pod: 'nginx' },
      { namespace: 'shop' },
      { ip: '10.0.0.1' },
      { ip: 'fd00::1' },
      { containerName: '.*' },
      { pod: '' },
      { namespace: '', matchLabels: {} },
      { namespace: 'shop', containerName: '', ip: '', matchLabels: {} },
      { 'container-name': 'web.*' },
      { containerName: 'regex:^web-[0-9]+$' },
      { containerName: 'glob:web-*' },
      { matchLabels: { 'app.kubernetes.io/name': 'web' } },
      { host: true },
      { host: false, pod: '' },
    ] satisfies KiveMatch[]) {
      assertTaken('kivepolicies', policyWith({ matchAny: [match, { pod: 'other' }] }));
    }
    for (const alertVersion of ['', 'v1', 'v2alpha1', 'v99']) {
      assertTaken('kivepolicies', { ...policyWith({}), spec: { alertVersion, traps: [] } });
    }
  });

  for (const [what, more, cause] of [
    ['a path', { path: undefined }, 'spec.traps[0].path: Required value'],
    ['a path', { path: '' }, 'spec.traps[0].path: Invalid value'],
    ['a match', { matchAny: undefined }, 'spec.traps[0].matchAny: Required value'],
    ['a match', { matchAny: [] }, 'spec.traps[0].matchAny: Required value'],
    ['something in each match', { matchAny: [{}] }, 'spec.traps[0].matchAny[0]: Invalid value'],
    ['octal digits', { mode: '888' }, 'spec.traps[0].mode: Invalid value'],
    ['a mode that is not negative', { mode: -1 }, 'spec.traps[0].mode: Invalid value'],
    ['octal digits, not what YAML makes of 0444', { mode: 292 }, 'spec.traps[0].mode: Invalid value'],
    ['octal digits, not what YAML makes of 0644', { mode: 420 }, 'spec.traps[0].mode: Invalid value'],
    ...['/etc/*.conf', '/a/**/b', '/a/***', '/a*', '/a/*/*', '/a/b**', '/*/a/**'].map(
      (path) => ['a * only at the end', { path }, 'spec.traps[0].path: Invalid value'] as const,
    ),
    ['a path without NUL', { path: '/etc/sha\0dow' }, 'spec.traps[0].path: Invalid value'],
    ['a callback over HTTP', { callback: 'ftp://sink/alerts' }, 'spec.traps[0].callback: Invalid value'],
    ['a callback with a host', { callback: 'http:///alerts' }, 'spec.traps[0].callback: Invalid value'],
    ['a callback without a user', { callback: 'http://u:p@sink/' }, 'spec.traps[0].callback: Invalid value'],
    ['a callback for its Secret', { callbackSecret: 'hook' }, 'spec.traps[0].callbackSecret: Invalid value'],
    [
      'a callback for its Secret',
      { callback: '', callbackSecret: 'hook' },
      'spec.traps[0].callbackSecret: Invalid value',
    ],
    [
      'https for a Secret',
      { callback: 'http://sink/https:', callbackSecret: 'hook' },
      'spec.traps[0].callbackSecret: Invalid value',
    ],
    ...['', 'shop/hook', '../hook', 'Hook', 'hook.', 'hook\n'].map(
      (callbackSecret) =>
        [
          'the name of a Secret',
          { callback: 'https://sink/', callbackSecret },
          'spec.traps[0].callbackSecret: Invalid value',
        ] as const,
    ),
    [
      'a name of at most 253 characters',
      { callback: 'https://sink/', callbackSecret: 'a'.repeat(254) },
      'spec.traps[0].callbackSecret: Too long',
    ],
    [
      'a regular expression',
      { matchAny: [{ containerName: '(' }] },
      'spec.traps[0].matchAny[0].containerName: Invalid value',
    ],
    [
      'a regular expression without look-ahead',
      { matchAny: [{ containerName: '(?=a)' }] },
      'spec.traps[0].matchAny[0].containerName: Invalid value',
    ],
    ['something in each match', { matchAny: [{ host: false }] }, 'spec.traps[0].matchAny[0]: Required value'],
    [
      'the node itself alone in its match',
      { matchAny: [{ host: true, pod: '' }] },
      'spec.traps[0].matchAny[0].host: Invalid value',
    ],
    ['except or only', { processes: {} }, 'spec.traps[0].processes: Required value'],
    [
      'except or only, not both',
      { processes: { except: ['/a'], only: ['/a'] } },
      'spec.traps[0].processes: Required value',
    ],
    ['a program', { processes: { except: [] } }, 'spec.traps[0].processes.except: Invalid value'],
    ...['vault', '/usr/bin/', '/', '//vault', '/usr\0'].map(
      (path) =>
        [
          'the path of a program',
          { processes: { only: [path] } },
          'spec.traps[0].processes.only[0]: Invalid value',
        ] as const,
    ),
    ...['/usr/../vault', '/usr/.'].map(
      (path) =>
        [
          'a resolved path of a program',
          { processes: { except: [path] } },
          'spec.traps[0].processes.except[0]: Invalid value',
        ] as const,
    ),
    [
      'no creation on the node itself',
      { create: true, matchAny: [{ pod: 'a' }, { host: true }] },
      'spec.traps[0].create: Invalid value',
    ],
    [
      'what looks like an address',
      { matchAny: [{ ip: 'localhost' }] },
      'spec.traps[0].matchAny[0].ip: Invalid value',
    ],
  ] as const) {
    test(`needs ${what}: ${JSON.stringify(more)}`, () => {
      const { causes } = take('kivepolicies', JSON.parse(JSON.stringify(policyWith(more))));
      // Errors of its shape come first; the rules, which need a valid shape, are not run then.
      const [first, ...others] = causes.filter((text) => !/validation rules were not checked/.test(text));
      assert.ok(first?.startsWith(cause), first);
      assert.ok(
        others.every((text) => text.startsWith(cause.split(':', 1)[0] ?? '')),
        others.join(),
      );
    });
  }

  test('faults of a path are described, with the path', () => {
    for (const [path, why] of [
      ['etc/passwd', "path must be absolute; it is 'etc/passwd'"],
      ['/etc/', "path must be that of a file; it is '/etc/'"],
      ...['/etc/../shadow', '/etc/..', '/etc/./shadow', '/.'].map((one) => [
        one,
        `path must not contain '.' or '..' components; it is '${one}'`,
      ]),
    ] as [string, string][]) {
      const { causes } = take('kivepolicies', policyWith({ path }));
      assert.deepEqual(causes, [`spec.traps[0].path: Invalid value: "${path}": ${why}`]);
    }
  });

  test('reads each sample of Kive in its version, and loses nothing in the other version', () => {
    for (const [file, sample] of Object.entries(samples)) {
      const plural = sample.kind === 'KiveData' ? 'kivedata' : 'kivepolicies';
      const version = sample.apiVersion.replace(/.*\//, '');
      assert.deepEqual(take(plural, sample, version), { dropped: [], causes: [], stored: sample }, file);
      for (const other of ['v1', 'v2alpha1']) {
        assert.deepEqual(take(plural, sample, other).dropped, [], `${file} in ${other}`);
      }
    }
    assert.equal(Object.keys(samples).length, 10);
  });

  test('takes conditions in its status', () => {
    const condition = {
      type: 'Ready',
      status: 'True' as const,
      reason: 'Watching',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
      observedGeneration: 1,
    };
    assertTaken('kivepolicies', { ...policyWith({}), status: { conditions: [condition] } });
    const { causes } = take('kivepolicies', {
      ...policyWith({}),
      status: { conditions: [condition, condition] },
    });
    assert.match(causes.join(), /Duplicate value/);
  });
});

suite('KiveData', () => {
  test('reads objects that present and earlier versions of Kive write', () => {
    assertTaken('kivedata', parse(sampleData));
    assertTaken('kivedata', dataWith({ 'inode-no': 5, 'dev-id': 66_306, 'kernel-id': 'k', metadata: {} }));
    assertTaken('kivedata', dataWith({ inodeNo: 5, 'dev-id': 66_306, metadata: {} }));
  });

  test('needs a file', () => {
    const { causes } = take('kivedata', dataWith({ kernelId: 'k' }));
    assert.deepEqual(causes, [
      'spec.inodeNo: Required value: inodeNo is required',
      'spec.devId: Required value: devId is required',
    ]);
  });
});
