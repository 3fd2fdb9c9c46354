import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Guard, right } from '../../guard/guard.ts';
import { policyExceptions } from '../../guards/policy-audit/api.ts';
import { guards } from '../guards.ts';
import { keyOf, listOf } from './rights.ts';

test('the right that shows an object: of its kind, by whatever plural its API has', () => {
  for (const [name, kind, expected] of [
    ['network-policy', 'NetworkPolicy', 'list networking.k8s.io/networkpolicies/ a'],
    ['policy-audit', 'AdmissionPolicyGroup', 'list policies.kubewarden.io/admissionpolicygroups/ a'],
    ['policy-audit', 'PolicyException', 'list rampart.dev/policyexceptions/ a'],
    ['file-integrity', 'FileIntegrity', 'list fileintegrity.openshift.io/fileintegrities/ a'],
    ['bpf-programs', 'BpfNsApplication', 'list bpfman.io/bpfnsapplications/ a'],
    // It is not of the guard.
    ['network-policy', 'Pod', undefined],
    ['file-access', 'NetworkPolicy', undefined],
  ] as const) {
    const guard = guards.find((one) => one.name === name);
    const question = listOf(guard, kind, 'a');
    assert.equal(question && keyOf(question), expected, kind);
  }
  const oxen = { group: 'oxen.example.com', kind: 'Ox', plural: 'oxen' };
  const guard = {
    resources: [{ ...policyExceptions, ...oxen }],
    rights: { viewer: [right(oxen.group, ['oxen'], ['list'])] },
  } as Partial<Guard> as Guard;
  assert.deepEqual(listOf(guard, 'Ox', ''), {
    ...{ verb: 'list', group: oxen.group, resource: 'oxen', namespace: '' },
  });
});
