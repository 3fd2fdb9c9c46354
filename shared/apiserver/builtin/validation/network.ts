/**
 * Checks of services and endpoints (kubernetes `pkg/apis/core/validation/validation.go`, ValidateService and
 * ValidateEndpoints; `pkg/apis/discovery/validation/validation.go`).
 *
 * @module
 */
import { isIPv4, isIPv6 } from 'node:net';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../schema/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../access.ts';
import {
  checkAddress,
  checkImmutable,
  checkLabels,
  checkName,
  checkOptionalName,
  checkPort,
  checkPortOrName,
  checkUnique,
  isAddress,
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

export function endpointsCauses(object: JsonObject): Cause[] {
  const causes: Cause[] = [];
  for (const [index, subset] of objectsAt(object, 'subsets').entries()) {
    const path = `subsets[${index}]`;
    const [addresses, notReady] = [objectsAt(subset, 'addresses'), objectsAt(subset, 'notReadyAddresses')];
    if (addresses.length === 0 && notReady.length === 0) {
      causes.push(fieldError.required(path, 'must specify `addresses` or `notReadyAddresses`'));
    }
    for (const [field, list] of Object.entries({ addresses, notReadyAddresses: notReady })) {
      for (const [position, address] of list.entries()) {
        const ip = textAt(address, 'ip');
        const at = `${path}.${field}[${position}]`;
        if (valueAt(address, 'ip') !== undefined) checkEndpointAddress(ip, `${at}.ip`, causes);
        checkOptionalName('dns-label', textAt(address, 'hostname'), `${at}.hostname`, causes);
      }
    }
    const ports = objectsAt(subset, 'ports');
    for (const [position, port] of ports.entries()) {
      const at = `${path}.ports[${position}]`;
      if (ports.length > 1) checkName('dns-label', textAt(port, 'name'), `${at}.name`, causes);
      checkPort(numberAt(port, 'port'), `${at}.port`, causes);
    }
  }
  return causes;
}

function checkEndpointAddress(address: string, path: string, causes: Cause[]): void {
  if (!isAddress(address)) return checkAddress(address, path, causes);
  const reason =
    address === '0.0.0.0' || address === '::'
      ? `may not be unspecified (${address})`
      : address.startsWith('127.') || address === '::1'
        ? 'may not be in the loopback range (127.0.0.0/8, ::1/128)'
        : address.startsWith('169.254.') || /^fe[89ab]/i.test(address)
          ? 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'
          : undefined;
  if (reason !== undefined) causes.push(fieldError.invalid(path, address, reason));
}

const [maxEndpoints, maxPorts, maxAddresses] = [1000, 20_000, 100];

export function endpointSliceCauses(slice: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const type = textAt(slice, 'addressType');
  if (valueAt(slice, 'addressType') === '') causes.push(fieldError.required('addressType'));
  const endpoints = objectsAt(slice, 'endpoints');
  if (endpoints.length > maxEndpoints) {
    causes.push(fieldError.tooMany('endpoints', endpoints.length, maxEndpoints));
  }
  for (const [index, endpoint] of endpoints.entries()) {
    const path = `endpoints[${index}].addresses`;
    const addresses = textsAt(endpoint, 'addresses');
    if (addresses.length === 0) causes.push(fieldError.required(path, 'must contain at least 1 address'));
    else if (addresses.length > maxAddresses) {
      causes.push(fieldError.tooMany(path, addresses.length, maxAddresses));
    }
    for (const [position, address] of addresses.entries()) {
      checkTypedAddress(type, address, `${path}[${position}]`, causes);
    }
    checkOptionalName('dns-label', textAt(endpoint, 'hostname'), `endpoints[${index}].hostname`, causes);
  }
  const ports = objectsAt(slice, 'ports');
  if (ports.length > maxPorts) causes.push(fieldError.tooMany('ports', ports.length, maxPorts));
  const seen = new Set<string>();
  for (const [index, port] of ports.entries()) {
    const name = textAt(port, 'name');
    checkOptionalName('dns-label', name, `ports[${index}].name`, causes);
    if (seen.has(name)) causes.push(fieldError.duplicate(`ports[${index}].name`, name));
    seen.add(name);
  }
  if (old !== undefined) checkImmutable(slice, old, ['addressType'], causes);
  return causes;
}

function checkTypedAddress(type: string, address: string, path: string, causes: Cause[]): void {
  if (type === 'FQDN') return checkName('dns-subdomain', address, path, causes);
  if (!isAddress(address)) return checkAddress(address, path, causes);
  if (type === 'IPv4' && !isIPv4(address)) {
    causes.push(fieldError.invalid(path, address, 'must be an IPv4 address'));
  } else if (type === 'IPv6' && !isIPv6(address)) {
    causes.push(fieldError.invalid(path, address, 'must be an IPv6 address'));
  } else checkEndpointAddress(address, path, causes);
}
