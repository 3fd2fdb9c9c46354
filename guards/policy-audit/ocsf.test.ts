import { suite, test } from 'node:test';

import { assertHas, received } from '../../guard/stream/ocsf.fixture.ts';
import type { ObjectReference } from '../../guard/stream/finding.ts';
import { type PolicyFinding, policyFindingLine, type PolicyVerdict } from './findings/policy-finding.ts';
import { policyOcsf } from './ocsf.ts';

const object: ObjectReference = { kind: 'Pod', namespace: 'shop', name: 'web' };
const policy: ObjectReference = { kind: 'ClusterAdmissionPolicy', namespace: '', name: 'no-root' };

function valuesOf(verdict: PolicyVerdict, more: Partial<PolicyFinding>): Readonly<Record<string, unknown>> {
  const line = policyFindingLine(
    { object, policy, verdict, severity: 'medium', message: 'It is so.' },
    { origin: 'audit', policyId: 'clusterwide-no-root', reason: 'root is not allowed', folded: 0, ...more },
    1_795_000_000_000,
  );
  return received(line, policyOcsf).values;
}

suite('findings of policies, by the names of OCSF', () => {
  test('a finding about an object: a Compliance Finding that opens and closes', () => {
    const failing = valuesOf('failing', {});
    assertHas(failing, {
      ...{ class_uid: 2003, activity_id: 1, activity_name: 'Create', status_id: 1, status: 'New' },
      'compliance.control': 'no-root',
      'compliance.status_id': 3,
      'compliance.status': 'Fail',
      'compliance.status_detail': 'root is not allowed',
      'finding_info.title': 'It is so.',
      'finding_info.uid': 'policy-audit:Pod/shop/web:ClusterAdmissionPolicy//no-root',
      resources: [{ type: 'Pod', namespace: 'shop', name: 'web' }],
      'policy.uid': 'no-root',
    });
    assertHas(valuesOf('passing', { reason: '' }), {
      ...{ activity_id: 3, activity_name: 'Close', status: 'Resolved', 'compliance.status': 'Pass' },
      'finding_info.uid': failing['finding_info.uid'],
    });
    assertHas(valuesOf('errored', { origin: 'policy' }), { class_uid: 2003, 'compliance.status': 'Errored' });
  });

  test('a finding about a write: API Activity', () => {
    const write = { origin: 'admission', operation: 'CREATE', user: 'eve' } as const;
    assertHas(valuesOf('rejected', write), {
      ...{ class_uid: 6003, activity_id: 1, activity_name: 'Create', action: 'Denied', status: 'Failure' },
      ...{ 'api.operation': 'CREATE', 'api.service.name': 'kubernetes', 'actor.user.name': 'eve' },
      resources: [{ type: 'Pod', namespace: 'shop', name: 'web' }],
      status_detail: 'root is not allowed',
    });
    assertHas(valuesOf('monitored', { ...write, operation: 'UPDATE' }), {
      ...{ activity_name: 'Update', action: 'Observed', status: undefined },
    });
    assertHas(valuesOf('errored', { ...write, operation: 'CONNECT' }), {
      ...{ activity_id: 99, activity_name: 'CONNECT', action: undefined },
    });
  });
});
