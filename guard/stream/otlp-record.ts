/** Converts a guard's line into an OTLP log record. */
import type { Attributes, LogRecord } from '../../lib/otlp/log-record.ts';
import type { StoredRecord } from '../../lib/spool/record.ts';
import { type FindingHead, type ObjectReference, type Severity } from './finding.ts';
import { ocsfClasses, type OcsfEvent, type OcsfMapping, ocsfVersion } from './ocsf.ts';
import { type ReadFinding, readFinding } from './read-finding.ts';

/** `SeverityNumber` of OpenTelemetry (INFO 9 to FATAL 21), `severity_id` of OCSF, and its name. */
const severityNumbers: Readonly<Record<Severity, readonly [otel: number, ocsf: number, name: string]>> = {
  info: [9, 1, 'Informational'],
  low: [12, 2, 'Low'],
  medium: [13, 3, 'Medium'],
  high: [17, 4, 'High'],
  critical: [21, 5, 'Critical'],
};

/** `action_id` and `disposition_id` of the profile security_control. */
const actions = {
  allowed: { action_id: 1, action: 'Allowed', disposition_id: 1, disposition: 'Allowed' },
  denied: { action_id: 2, action: 'Denied', disposition_id: 2, disposition: 'Blocked' },
  observed: { action_id: 3, action: 'Observed', disposition_id: 17, disposition: 'Logged' },
} as const;

export interface RecordOptions {
  /** Keyed by the guard's name. */
  readonly mappings: ReadonlyMap<string, OcsfMapping>;
  /** Version of Rampart. */
  readonly version: string;
}

/**
 * The body is the message for people, and `raw_data` the line as written. The attributes are those of OCSF, and `rampart.*` for the keys
 * that all findings have. A line that is not a finding is sent unchanged.
 */
export function otlpRecord(
  { id, line, acceptedMs }: StoredRecord,
  { mappings, version }: RecordOptions,
): LogRecord {
  const text = line.toString();
  const observedNs = BigInt(Math.trunc(acceptedMs)) * 1_000_000n;
  const finding = readFinding(text);
  const always = { 'log.record.uid': id, raw_data: text };
  if (finding === undefined) {
    return { timeNs: 0n, observedNs, severityNumber: 0, severityText: '', body: text, attributes: always };
  }
  const { head, timeNs } = finding;
  return {
    timeNs,
    observedNs,
    severityNumber: severityNumbers[head.severity][0],
    severityText: head.severity,
    body: head.message,
    attributes: {
      ...ofHead(finding),
      'metadata.version': ocsfVersion,
      'metadata.profiles': ['container', 'host', 'security_control'],
      'metadata.uid': id,
      'metadata.product.name': 'Rampart',
      'metadata.product.vendor_name': 'Rampart',
      'metadata.product.version': version,
      ...ofEvent(mappings.get(head.guard)?.(finding)),
      ...always,
    },
  };
}

/** The attributes that all findings have. */
function ofHead({ head, timeNs }: ReadFinding): Attributes {
  const { guard, kind, node, severity, object, policy, verdict } = head;
  const [, severityId, severityName] = severityNumbers[severity];
  return {
    ...{ 'rampart.guard': guard, 'rampart.kind': kind, 'rampart.verdict': verdict },
    ...referenceAttributes('rampart.object', object),
    ...referenceAttributes('rampart.policy', policy),
    time: timeNs / 1_000_000n,
    ...{ severity_id: severityId, severity: severityName },
    ...(node.name !== '' && { 'device.hostname': node.name }),
    ...policyAttributes(head),
  };
}

function referenceAttributes(prefix: string, reference: ObjectReference | null): Attributes {
  if (reference === null) return {};
  const { kind, namespace, name } = reference;
  return {
    [`${prefix}.kind`]: kind,
    [`${prefix}.namespace`]: namespace === '' ? undefined : namespace,
    [`${prefix}.name`]: name,
  };
}

function policyAttributes({ policy }: FindingHead): Attributes {
  if (policy === null) return {};
  const { kind, namespace, name } = policy;
  const uid = namespace === '' ? name : `${namespace}/${name}`;
  return { 'policy.name': name, 'policy.uid': uid, 'policy.type': kind };
}

/** The attributes of the event's class; a finding without a class becomes a Base Event. */
function ofEvent(event: OcsfEvent | undefined): Attributes {
  if (event === undefined) {
    return { class_uid: 0, class_name: 'Base Event', category_uid: 0, activity_id: 0, type_uid: 0 };
  }
  const { uid, name, category } = ocsfClasses[event.class];
  const [activityId, activityName] = event.activity;
  return {
    ...{ class_uid: uid, class_name: name, category_uid: category[0], category_name: category[1] },
    ...{ activity_id: activityId, activity_name: activityName },
    type_uid: uid * 100 + activityId,
    type_name: `${name}: ${activityName}`,
    ...(event.action && actions[event.action]),
    ...event.attributes,
  };
}
