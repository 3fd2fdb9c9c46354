/**
 * Columns of services and what belongs to them.
 *
 * @module
 */
import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { listAt, numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../access.ts';
import { ageColumn, column, firstThree, labelsText, nameColumn, shownSelector } from './column.ts';

/** Addresses of a load balancer; kubectl's own are cut at 16 characters, unless in wide output. */
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
  column('Type', 'How the service can be reached.', (service) => textAt(service, 'spec', 'type')),
  column('Cluster-IP', 'Address inside of the cluster.', (service) => {
    const [first] = textsAt(service, 'spec', 'clusterIPs');
    return first ?? '<none>';
  }),
  column('External-IP', 'Addresses outside of the cluster.', externalAddress),
  column('Port(s)', 'Ports of the service.', servicePorts),
  ageColumn,
  column(
    'Selector',
    'Labels of the pods behind it.',
    (service) => labelsText(objectAt(service, 'spec', 'selector')),
    {
      wide: true,
    },
  ),
];

function joinHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function endpointsText(object: JsonObject): string {
  const subsets = objectsAt(object, 'subsets');
  const texts = subsets.flatMap((subset) => {
    const addresses = objectsAt(subset, 'addresses').map((address) => textAt(address, 'ip'));
    const ports = objectsAt(subset, 'ports');
    if (ports.length === 0) return addresses;
    return ports.flatMap((port) =>
      addresses.map((address) => joinHostPort(address, numberAt(port, 'port') ?? 0)),
    );
  });
  return subsets.length === 0 ? '<none>' : firstThree(texts, '');
}

export const endpointsColumns: readonly Column[] = [
  nameColumn,
  column('Endpoints', 'Addresses and ports behind the service.', endpointsText),
  ageColumn,
];

export const endpointSliceColumns: readonly Column[] = [
  nameColumn,
  column('AddressType', 'Kind of the addresses.', (slice) => textAt(slice, 'addressType')),
  column('Ports', 'Ports of every endpoint.', (slice) =>
    firstThree(
      objectsAt(slice, 'ports').map((port) => {
        const number = numberAt(port, 'port');
        return number === undefined ? textAt(port, 'name') || '*' : String(number);
      }),
      '<unset>',
    ),
  ),
  column('Endpoints', 'Addresses of the endpoints.', (slice) =>
    firstThree(
      objectsAt(slice, 'endpoints').flatMap((endpoint) => textsAt(endpoint, 'addresses')),
      '<unset>',
    ),
  ),
  ageColumn,
];

function hosts(ingress: JsonObject): string {
  const rules = objectsAt(ingress, 'spec', 'rules');
  const named = rules.map((rule) => textAt(rule, 'host')).filter((host) => host !== '');
  if (named.length === 0) return '*';
  const shown = named.slice(0, 3).join(',');
  return named.length > 3 ? `${shown} + ${rules.length - 3} more...` : shown;
}

export const ingressColumns: readonly Column[] = [
  nameColumn,
  column(
    'Class',
    'Class of the controller that serves it.',
    (ingress) => textAt(ingress, 'spec', 'ingressClassName') || '<none>',
  ),
  column('Hosts', 'Hosts whose requests it takes.', hosts),
  column('Address', 'Addresses of its load balancer.', loadBalancerText),
  column('Ports', 'Ports that it takes requests on.', (ingress) =>
    listAt(ingress, 'spec', 'tls').length > 0 ? '80, 443' : '80',
  ),
  ageColumn,
];

export const ingressClassColumns: readonly Column[] = [
  nameColumn,
  column('Controller', 'Controller that serves the class.', (object) => textAt(object, 'spec', 'controller')),
  column('Parameters', 'What else the controller has to know.', (object) => {
    const parameters = objectAt(object, 'spec', 'parameters');
    if (Object.keys(parameters).length === 0) return '<none>';
    const group = textAt(parameters, 'apiGroup');
    return `${textAt(parameters, 'kind')}${group === '' ? '' : `.${group}`}/${textAt(parameters, 'name')}`;
  }),
  ageColumn,
];

export const networkPolicyColumns: readonly Column[] = [
  nameColumn,
  column('Pod-Selector', 'Labels of the pods that it is about.', (policy) =>
    shownSelector(valueAt(policy, 'spec', 'podSelector')),
  ),
  ageColumn,
];
