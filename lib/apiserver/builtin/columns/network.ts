import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import { ageColumn, column, labelsText, nameColumn, shownSelector } from './column.ts';

/** Addresses of a load balancer. Not truncated, although Kubernetes cuts them at 16 characters unless the output is wide. */
function loadBalancerText(object: JsonObject): string {
  const addresses = objectsAt(object, 'status', 'loadBalancer', 'ingress')
    .map((one) => textAt(one, 'ip') || textAt(one, 'hostname'))
    .filter((address) => address !== '');
  return [...new Set(addresses)].sort().join(',');
}

function externalAddress(service: JsonObject): string {
  const external = textsAt(service, 'spec', 'externalIPs');
  switch (textAt(service, 'spec', 'type')) {
    case 'ClusterIP':
    case 'NodePort':
      return external.join(',') || '<none>';
    case 'LoadBalancer': {
      const balancer = loadBalancerText(service);
      return [...(balancer === '' ? [] : [balancer]), ...external].join(',') || '<pending>';
    }
    case 'ExternalName':
      return textAt(service, 'spec', 'externalName');
    default:
      return '<unknown>';
  }
}

function servicePorts(service: JsonObject): string {
  const texts = objectsAt(service, 'spec', 'ports').map((port) => {
    const nodePort = numberAt(port, 'nodePort') ?? 0;
    const number = numberAt(port, 'port') ?? 0;
    return `${number}${nodePort > 0 ? `:${nodePort}` : ''}/${textAt(port, 'protocol')}`;
  });
  return texts.join(',') || '<none>';
}

export const serviceColumns: readonly Column[] = [
  nameColumn,
  column('Type', 'How the service is exposed.', (service) => textAt(service, 'spec', 'type')),
  column('Cluster-IP', 'Address inside the cluster.', (service) => {
    const [first] = textsAt(service, 'spec', 'clusterIPs');
    return first ?? '<none>';
  }),
  column('External-IP', 'Addresses outside the cluster.', externalAddress),
  column('Port(s)', 'Ports of the service.', servicePorts),
  ageColumn,
  column(
    'Selector',
    'Labels of the pods behind the service.',
    (service) => labelsText(objectAt(service, 'spec', 'selector')),
    {
      wide: true,
    },
  ),
];

export const networkPolicyColumns: readonly Column[] = [
  nameColumn,
  column('Pod-Selector', 'Labels of the selected pods.', (policy) =>
    shownSelector(valueAt(policy, 'spec', 'podSelector')),
  ),
  ageColumn,
];
