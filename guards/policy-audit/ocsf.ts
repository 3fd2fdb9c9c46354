/** Policies' results for objects as OCSF's Compliance Finding, and those for writes as API Activity. */
import {
  findingActivity,
  findingAttributes,
  type OcsfEvent,
  type OcsfMapping,
  resourceAttributes,
  textAt,
} from '../../guard/stream/ocsf.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';

export const policyOcsf: OcsfMapping = (finding) =>
  textAt(finding.keys, 'operation') === undefined ? ofObject(finding) : ofWrite(finding);

/** `activity_id` of API Activity. OCSF has no CONNECT. */
const activities: Readonly<Record<string, OcsfEvent['activity']>> = {
  CREATE: [1, 'Create'],
  UPDATE: [3, 'Update'],
  DELETE: [4, 'Delete'],
};

function ofWrite({ head, keys }: ReadFinding): OcsfEvent {
  const operation = textAt(keys, 'operation') ?? '';
  const { verdict } = head;
  return {
    class: 'apiActivity',
    activity: activities[operation] ?? [99, operation],
    ...(verdict === 'rejected' && { action: 'denied' }),
    ...(verdict === 'monitored' && { action: 'observed' }),
    attributes: {
      'api.operation': operation,
      'api.service.name': 'kubernetes',
      'actor.user.name': textAt(keys, 'user'),
      ...resourceAttributes(head),
      ...(verdict === 'rejected' && { status_id: 2, status: 'Failure' }),
      status_detail: textAt(keys, 'reason'),
    },
  };
}

/** `compliance.status_id`. */
const complianceStatus: Readonly<Record<string, readonly [id: number, name: string]>> = {
  passing: [1, 'Pass'],
  failing: [3, 'Fail'],
  errored: [99, 'Errored'],
};

function ofObject({ head, keys }: ReadFinding): OcsfEvent | undefined {
  const status = complianceStatus[head.verdict];
  if (status === undefined) return undefined;
  const isClosed = head.verdict === 'passing';
  return {
    class: 'complianceFinding',
    activity: findingActivity(isClosed),
    action: 'observed',
    attributes: {
      ...findingAttributes(head, isClosed),
      ...resourceAttributes(head),
      'compliance.control': head.policy?.name ?? textAt(keys, 'policyId'),
      'compliance.status_id': status[0],
      'compliance.status': status[1],
      'compliance.status_detail': textAt(keys, 'reason'),
    },
  };
}
