import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { listAt, numberAt, objectAt, objectsAt, textAt, valueAt } from '../../../json/fields.ts';
import { ageColumn, column, nameColumn, since } from './column.ts';

function nodeStatus(node: JsonObject): string {
  const ready = objectsAt(node, 'status', 'conditions').find((one) => textAt(one, 'type') === 'Ready');
  const states = [
    ready === undefined ? 'Unknown' : textAt(ready, 'status') === 'True' ? 'Ready' : 'NotReady',
    ...(valueAt(node, 'spec', 'unschedulable') === true ? ['SchedulingDisabled'] : []),
  ];
  return states.join(',');
}

const rolePrefix = 'node-role.kubernetes.io/';

function nodeRoles(node: JsonObject): string {
  const labels = objectAt(node, 'metadata', 'labels');
  const roles = Object.keys(labels).flatMap((name) => {
    if (name.startsWith(rolePrefix)) return [name.slice(rolePrefix.length)];
    return name === 'kubernetes.io/role' ? [textAt(labels, name)] : [];
  });
  const named = roles.filter((role) => role !== '');
  return [...new Set(named)].sort().join(',') || '<none>';
}

function address(type: string) {
  return (node: JsonObject): string => {
    const found = objectsAt(node, 'status', 'addresses').find((one) => textAt(one, 'type') === type);
    return found === undefined ? '<none>' : textAt(found, 'address');
  };
}

function systemInfo(name: string, description: string, field: string): Column {
  return column(name, description, (node) => textAt(node, 'status', 'nodeInfo', field) || '<unknown>', {
    wide: true,
  });
}

export const nodeColumns: readonly Column[] = [
  nameColumn,
  column('Status', 'Whether the node is ready, and whether it accepts new pods.', nodeStatus),
  column('Roles', 'Roles of the node.', nodeRoles),
  ageColumn,
  column('Version', 'Version of the kubelet.', (node) =>
    textAt(node, 'status', 'nodeInfo', 'kubeletVersion'),
  ),
  column('Internal-IP', 'Address inside the cluster.', address('InternalIP'), { wide: true }),
  column('External-IP', 'Address outside the cluster.', address('ExternalIP'), { wide: true }),
  systemInfo('OS-Image', 'Operating system.', 'osImage'),
  systemInfo('Kernel-Version', 'Version of the kernel.', 'kernelVersion'),
  systemInfo('Container-Runtime', 'Container runtime and its version.', 'containerRuntimeVersion'),
];

export const namespaceColumns: readonly Column[] = [
  nameColumn,
  column('Status', 'Whether the namespace is in use or being deleted.', (object) =>
    textAt(object, 'status', 'phase'),
  ),
  ageColumn,
];

const eventSource = (event: JsonObject): string => {
  const component = textAt(event, 'source', 'component') || textAt(event, 'reportingComponent');
  const host = textAt(event, 'source', 'host') || textAt(event, 'reportingInstance');
  return host === '' ? component : `${component}, ${host}`;
};

function firstSeen(event: JsonObject, now: Date): string {
  return since(textAt(event, 'firstTimestamp') || textAt(event, 'eventTime'), now);
}

function lastSeen(event: JsonObject, now: Date): string {
  const last = textAt(event, 'series', 'lastObservedTime') || textAt(event, 'lastTimestamp');
  return last === '' ? firstSeen(event, now) : since(last, now);
}

function eventCount(event: JsonObject): number {
  const series = numberAt(event, 'series', 'count');
  if (series !== undefined) return series;
  // An event that was recorded without a count happened once.
  return numberAt(event, 'count') || 1;
}

function eventObject(event: JsonObject): string {
  const object = objectAt(event, 'involvedObject');
  const kind = textAt(object, 'kind').toLowerCase();
  const name = textAt(object, 'name');
  return name === '' ? kind : `${kind}/${name}`;
}

/** For core/v1 events. Events of events.k8s.io have the same columns, read from their core form. */
export const eventColumns: readonly Column[] = [
  column('Last Seen', 'When it was last observed.', lastSeen),
  column('Type', 'Normal or Warning.', (event) => textAt(event, 'type')),
  column('Reason', 'Reason of the event, in one word.', (event) => textAt(event, 'reason')),
  column('Object', 'Object that the event is about.', eventObject),
  column('Subobject', 'Part of the object.', (event) => textAt(event, 'involvedObject', 'fieldPath'), {
    wide: true,
  }),
  column('Source', 'Component that reported it.', eventSource, { wide: true }),
  column('Message', 'Human-readable description.', (event) => textAt(event, 'message').trim()),
  column('First Seen', 'When it was first observed.', firstSeen, { wide: true }),
  column('Count', 'Number of times it was observed.', eventCount, { wide: true }),
  { ...nameColumn, priority: 1 },
];

export const secretColumns: readonly Column[] = [
  nameColumn,
  column('Type', 'Type of the secret.', (secret) => textAt(secret, 'type')),
  column('Data', 'Number of values.', (secret) => Object.keys(objectAt(secret, 'data')).length),
  ageColumn,
];

export const configMapColumns: readonly Column[] = [
  nameColumn,
  column(
    'Data',
    'Number of values.',
    (map) => Object.keys(objectAt(map, 'data')).length + Object.keys(objectAt(map, 'binaryData')).length,
  ),
  ageColumn,
];

export const serviceAccountColumns: readonly Column[] = [
  nameColumn,
  column('Secrets', 'Number of secrets it names.', (account) => listAt(account, 'secrets').length),
  ageColumn,
];

export const leaseColumns: readonly Column[] = [
  nameColumn,
  column('Holder', 'Holder of the lease.', (lease) => textAt(lease, 'spec', 'holderIdentity')),
  ageColumn,
];

export const priorityClassColumns: readonly Column[] = [
  nameColumn,
  column('Value', 'The priority.', (object) => numberAt(object, 'value') ?? 0, { type: 'integer' }),
  column(
    'Global-Default',
    'Whether pods without a class get this one.',
    (object) => valueAt(object, 'globalDefault') === true,
    { type: 'boolean' },
  ),
  ageColumn,
  column('PreemptionPolicy', 'Whether its pods preempt others.', (object) =>
    textAt(object, 'preemptionPolicy'),
  ),
];
