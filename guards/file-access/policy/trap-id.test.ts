import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { anyTrap, trapOn } from './policy.fixture.ts';
import { canonicalJson, kiveDataName, trapId, type DataSubject } from './trap-id.ts';

test('the id is of the canonical JSON and the alert version', () => {
  const trap = { ...trapOn('/secret.txt', { pod: 'a', namespace: 'b' }), create: false, callback: '' };
  const json = '{"matchAny":[{"namespace":"b","pod":"a"}],"path":"/secret.txt"}';
  assert.equal(canonicalJson(trap), json);
  assert.equal(trapId(trap, 'v1'), createHash('sha256').update(`${json}v1`).digest('hex').slice(0, 63));
  assert.notEqual(trapId(trap, 'v2'), trapId(trap, 'v1'));
  assert.notEqual(trapId({ ...trap, mode: 0 }, 'v1'), trapId(trap, 'v1'));
});

test('the order of keys plays no part, everything else does', () => {
  fc.assert(
    fc.property(anyTrap, anyTrap, (a, b) => {
      const turned = Object.fromEntries(Object.entries(a).toReversed()) as typeof a;
      assert.equal(trapId(turned, 'v1'), trapId(a, 'v1'));
      assert.equal(trapId(a, 'v1') === trapId(b, 'v1'), canonicalJson(a) === canonicalJson(b));
      assert.match(trapId(a, 'v1'), /^[0-9a-f]{63}$/);
    }),
  );
});

const subject: DataSubject = {
  policyNamespace: 'kivebpf-system',
  policyName: 'p',
  slot: '0:/secret.txt',
  containerId: 'containerd://da9e46',
  podName: 'nginx-pod',
  podNamespace: 'default',
};

test('the name says which pod, and is another one for each trap and container', () => {
  assert.match(kiveDataName(subject), /^kive-data-nginx-pod-default-[0-9a-f]{16}$/);
  const others = [
    subject,
    { ...subject, policyNamespace: 'x' },
    { ...subject, policyName: 'x' },
    { ...subject, slot: '1:/secret.txt' },
    { ...subject, containerId: 'containerd://ffff' },
  ].map(kiveDataName);
  assert.equal(new Set(others).size, others.length);
});

test('the name is a DNS subdomain whatever the pod is called', () => {
  const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  const podName = fc
    .array(label, { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join('.').slice(0, 253));
  fc.assert(
    fc.property(podName, label, (name, podNamespace) => {
      const long = kiveDataName({ ...subject, podName: name, podNamespace });
      assert.ok(long.length <= 253);
      assert.match(long, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
    }),
  );
});
