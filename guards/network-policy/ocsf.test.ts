import { suite, test } from 'node:test';

import { assertHas, received } from '../../guard/stream/ocsf.fixture.ts';
import { flowLine } from './flow-line.ts';
import { type Refusal, refusalLine } from './refusal-line.ts';
import { networkPolicyOcsf } from './ocsf.ts';

const refusal: Refusal = {
  ...{
    verdict: 'refused',
    direction: 'ingress',
    protocol: 'TCP',
    policies: ['shop/db'],
    reason: 'No rule allows it.',
  },
  source: { address: '10.0.0.3', port: 40_000, namespace: 'shop', pod: 'web' },
  destination: { address: '10.0.0.4', port: 5432, namespace: 'shop', pod: 'db' },
};
const valuesOf = (of: Refusal) =>
  received(refusalLine(of, { nodeName: 'n1', timeMs: 1_795_000_000_000 }), networkPolicyOcsf).values;

suite('a refused packet as Network Activity', () => {
  test('both ends, protocol and direction', () => {
    assertHas(valuesOf(refusal), {
      ...{ class_uid: 4001, activity_id: 5, activity_name: 'Refuse', action: 'Denied' },
      ...{ 'src_endpoint.ip': '10.0.0.3', 'src_endpoint.port': 40_000, 'src_endpoint.name': 'shop/web' },
      ...{ 'dst_endpoint.ip': '10.0.0.4', 'dst_endpoint.port': 5432, 'dst_endpoint.name': 'shop/db' },
      ...{ 'connection_info.protocol_name': 'tcp', 'connection_info.direction_id': 1 },
      'policy.uid': 'shop/db',
    });
  });

  test('one that passes in monitor mode is observed', () => {
    assertHas(valuesOf({ ...refusal, verdict: 'would-refuse' }), {
      ...{ class_uid: 4001, activity_id: 6, activity_name: 'Traffic', action: 'Observed' },
      'policy.uid': 'shop/db',
    });
  });

  test('a refusal without a pod, without ports, outward', () => {
    const values = valuesOf({
      ...refusal,
      direction: 'egress',
      protocol: '132',
      destination: { address: 'fd00::1' },
    });
    assertHas(values, {
      ...{ 'dst_endpoint.ip': 'fd00::1', 'dst_endpoint.port': undefined, 'dst_endpoint.name': undefined },
      ...{ 'connection_info.protocol_name': '132', 'connection_info.direction': 'Outbound' },
    });
  });

  test('an allowed connection to the pod behind a Service', () => {
    const line = flowLine(
      {
        ...{ direction: 'ingress', protocol: 'TCP', source: refusal.source, folded: 0 },
        destination: { ...refusal.destination, translatedFrom: { address: '10.96.0.1', port: 80 } },
      },
      { policy: 'shop/db', nodeName: 'n1', timeMs: 1_795_000_000_000 },
    );
    assertHas(received(line, networkPolicyOcsf).values, {
      ...{ class_uid: 4001, activity_id: 1, activity_name: 'Open', action: 'Allowed', severity_id: 1 },
      ...{ 'src_endpoint.name': 'shop/web', 'dst_endpoint.ip': '10.0.0.4', 'dst_endpoint.port': 5432 },
      ...{ 'connection_info.direction': 'Inbound', 'policy.uid': 'shop/db' },
    });
  });
});
