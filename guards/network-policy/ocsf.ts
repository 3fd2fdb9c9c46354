/** Refused packets, packets that would be refused without monitor mode, and allowed connections, as OCSF's Network Activity. */
import type { Attributes } from '../../lib/otlp/log-record.ts';
import { integerAt, type OcsfEvent, type OcsfMapping, textAt } from '../../guard/stream/ocsf.ts';

/** `direction_id`, from the point of view of the pod whose policies decided. */
const directions: Readonly<Record<string, readonly [id: number, name: string]>> = {
  ingress: [1, 'Inbound'],
  egress: [2, 'Outbound'],
};

type Outcome = Pick<OcsfEvent, 'activity' | 'action'>;

const refused: Outcome = { activity: [5, 'Refuse'], action: 'denied' };
const passed: Readonly<Record<string, Outcome>> = {
  allowed: { activity: [1, 'Open'], action: 'allowed' },
  'would-refuse': { activity: [6, 'Traffic'], action: 'observed' },
};

export const networkPolicyOcsf: OcsfMapping = ({ head, keys }) => {
  const [protocol, direction] = [textAt(keys, 'protocol'), textAt(keys, 'direction')];
  if (protocol === undefined || direction === undefined) return undefined;
  const [directionId, directionName] = directions[direction] ?? [0, 'Unknown'];
  return {
    class: 'networkActivity',
    ...(passed[head.verdict] ?? refused),
    attributes: {
      ...endpoint('src_endpoint', keys['source']),
      ...endpoint('dst_endpoint', keys['destination']),
      'connection_info.protocol_name': protocol.toLowerCase(),
      'connection_info.direction_id': directionId,
      'connection_info.direction': directionName,
    },
  };
};

/** A pod is named `namespace/name`. */
function endpoint(prefix: string, end: unknown): Attributes {
  const [namespace, pod] = [textAt(end, 'namespace'), textAt(end, 'pod')];
  return {
    [`${prefix}.ip`]: textAt(end, 'address'),
    [`${prefix}.port`]: integerAt(end, 'port'),
    [`${prefix}.name`]: pod === undefined ? undefined : `${namespace ?? ''}/${pod}`,
  };
}
