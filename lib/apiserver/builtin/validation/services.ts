/** Checks of services (kubernetes `pkg/apis/core/validation/validation.go`, ValidateService). */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import {
  checkAddress,
  checkLabels,
  checkName,
  checkOptionalName,
  checkPort,
  checkPortOrName,
  checkUnique,
} from './checks.ts';

const [firstNodePort, lastNodePort] = [30_000, 32_767];

export function serviceCauses(service: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(service, 'spec');
  const type = textAt(spec, 'type');
  checkLabels(objectAt(spec, 'selector'), 'spec.selector', causes);
  checkServicePorts(spec, type, causes);
  checkClusterAddresses(spec, type, causes);
  for (const [index, address] of textsAt(spec, 'externalIPs').entries()) {
    checkAddress(address, `spec.externalIPs[${index}]`, causes);
  }
  if (type === 'ExternalName') {
    const name = textAt(spec, 'externalName').replace(/\.$/, '');
    checkName('dns-subdomain', name, 'spec.externalName', causes);
  }
  const timeout = numberAt(spec, 'sessionAffinityConfig', 'clientIP', 'timeoutSeconds');
  if (timeout !== undefined && (timeout <= 0 || timeout > 86_400)) {
    const words = 'must be greater than 0 and less than 86400';
    causes.push(fieldError.invalid('spec.sessionAffinityConfig.clientIP.timeoutSeconds', timeout, words));
  }
  const external = type === 'LoadBalancer' || type === 'NodePort';
  const policy = textAt(spec, 'externalTrafficPolicy');
  if (policy !== '' && !external && textsAt(spec, 'externalIPs').length === 0) {
    const words = 'may only be set for externally-accessible services';
    causes.push(fieldError.invalid('spec.externalTrafficPolicy', policy, words));
  }
  if (old !== undefined) checkAddressStays(spec, objectAt(old, 'spec'), causes);
  return causes;
}

function checkServicePorts(spec: JsonObject, type: string, causes: Cause[]): void {
  const ports = objectsAt(spec, 'ports');
  const headless = textAt(spec, 'clusterIP') === 'None';
  if (ports.length === 0 && !headless && type !== 'ExternalName')
    causes.push(fieldError.required('spec.ports'));
  const seen = new Set<string>();
  for (const [index, port] of ports.entries()) {
    const at = `spec.ports[${index}]`;
    const [name, number, nodePort] = [
      textAt(port, 'name'),
      numberAt(port, 'port'),
      numberAt(port, 'nodePort'),
    ];
    if (ports.length > 1) checkName('dns-label', name, `${at}.name`, causes);
    else checkOptionalName('dns-label', name, `${at}.name`, causes);
    checkPort(number, `${at}.port`, causes);
    checkPortOrName(valueAt(port, 'targetPort'), `${at}.targetPort`, causes);
    if (nodePort !== undefined && nodePort !== 0) checkNodePort(nodePort, type, at, causes);
    const key = { port: number ?? 0, protocol: textAt(port, 'protocol') };
    const taken = JSON.stringify(key);
    if (seen.has(taken)) causes.push(fieldError.duplicate(at, { protocol: key.protocol, port: key.port }));
    seen.add(taken);
  }
  const names = ports.map((port) => textAt(port, 'name'));
  checkUnique(names, (index) => `spec.ports[${index}].name`, causes);
}

function checkNodePort(port: number, type: string, path: string, causes: Cause[]): void {
  if (type === 'ClusterIP' || type === 'ExternalName') {
    const words = `may not be used when \`type\` is '${type}'`;
    causes.push(fieldError.forbidden(`${path}.nodePort`, words));
  } else if (port < firstNodePort || port > lastNodePort) {
    const words = `provided port is not in the valid range. The range of valid ports is ${firstNodePort}-${lastNodePort}`;
    causes.push(fieldError.invalid(`${path}.nodePort`, port, words));
  }
}

function checkClusterAddresses(spec: JsonObject, type: string, causes: Cause[]): void {
  const addresses = textsAt(spec, 'clusterIPs');
  const first = textAt(spec, 'clusterIP');
  if (type === 'ExternalName') {
    if (first !== '')
      causes.push(
        fieldError.forbidden('spec.clusterIP', 'may not be set for services with type ExternalName'),
      );
    return;
  }
  if (first !== '' && addresses.length > 0 && addresses[0] !== first) {
    const words = 'first value must match `clusterIP`';
    causes.push(fieldError.invalid('spec.clusterIPs', addresses, words));
  }
  if (addresses.length > 2) {
    const words = 'may only hold up to 2 values';
    causes.push(fieldError.invalid('spec.clusterIPs', addresses, words));
  }
  for (const [index, address] of addresses.entries()) {
    if (address === 'None') {
      if (index > 0 || addresses.length > 1) {
        const words = "'None' must be the first and only value";
        causes.push(fieldError.invalid(`spec.clusterIPs[${index}]`, address, words));
      } else if (type !== 'ClusterIP') {
        const words = `may not be set to 'None' for ${type} services`;
        causes.push(fieldError.invalid('spec.clusterIPs[0]', address, words));
      }
    } else checkAddress(address, `spec.clusterIPs[${index}]`, causes);
  }
}

function checkAddressStays(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  if (textAt(spec, 'type') === 'ExternalName' || textAt(old, 'type') === 'ExternalName') return;
  const before = textsAt(old, 'clusterIPs')[0] ?? textAt(old, 'clusterIP');
  const addresses = textsAt(spec, 'clusterIPs');
  if (before === '' || addresses[0] === before) return;
  causes.push(fieldError.invalid('spec.clusterIPs[0]', addresses, 'may not change once set'));
}
