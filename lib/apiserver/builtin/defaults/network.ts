/**
 * Defaults of services and network policies that depend on other fields (kubernetes `pkg/apis/core/v1/defaults.go`,
 * `pkg/apis/networking/v1/defaults.go`, `pkg/registry/core/service/storage/alloc.go`).
 */
import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { JsonObject } from '../../../json/json.ts';
import { listAt, madeObject, objectsAt, setDefault, textAt, textsAt, valueAt } from '../../../json/fields.ts';

function defaultService(service: JsonObject): void {
  const spec = madeObject(service, 'spec');
  const type = textAt(spec, 'type');
  for (const port of objectsAt(spec, 'ports')) {
    if (!valueAt(port, 'targetPort')) port['targetPort'] = valueAt(port, 'port') ?? 0;
  }
  if (textAt(spec, 'sessionAffinity') !== 'ClientIP') delete spec['sessionAffinityConfig'];
  else {
    const clientIp = madeObject(madeObject(spec, 'sessionAffinityConfig'), 'clientIP');
    setDefault(clientIp, 'timeoutSeconds', 10_800);
  }
  const external = type === 'LoadBalancer' || type === 'NodePort';
  if (external || (type === 'ClusterIP' && listAt(spec, 'externalIPs').length > 0)) {
    setDefault(spec, 'externalTrafficPolicy', 'Cluster');
  }
  if (external || type === 'ClusterIP') setDefault(spec, 'internalTrafficPolicy', 'Cluster');
  if (type === 'LoadBalancer') setDefault(spec, 'allocateLoadBalancerNodePorts', true);
}

/** Prepares a new service, and gives it an address. */
export function prepareService(service: JsonObject): void {
  defaultService(service);
  service['status'] = { loadBalancer: {} };
  const spec = madeObject(service, 'spec');
  if (textAt(spec, 'type') !== 'ExternalName') giveAddress(service, spec);
}

/** A service keeps its addresses, unless it becomes an ExternalName. */
export function prepareServiceUpdate(service: JsonObject, old: JsonObject): void {
  defaultService(service);
  const spec = madeObject(service, 'spec');
  if (textAt(spec, 'type') === 'ExternalName') {
    if (textAt(old, 'spec', 'type') === 'ExternalName') return;
    for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) {
      if (JSON.stringify(valueAt(old, 'spec', field)) === JSON.stringify(spec[field])) delete spec[field];
    }
    return;
  }
  for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) {
    const before = valueAt(old, 'spec', field);
    if (before !== undefined) setDefault(spec, field, before);
  }
  giveAddress(service, spec);
}

function giveAddress(service: JsonObject, spec: JsonObject): void {
  const [first] = textsAt(spec, 'clusterIPs');
  setDefault(spec, 'clusterIP', first ?? '');
  if (textAt(spec, 'clusterIP') === '') spec['clusterIP'] = clusterAddress(service);
  if (listAt(spec, 'clusterIPs').length === 0) spec['clusterIPs'] = [spec['clusterIP']];
  if (listAt(spec, 'ipFamilies').length === 0) {
    spec['ipFamilies'] = textsAt(spec, 'clusterIPs').map((address) => (isIPv6(address) ? 'IPv6' : 'IPv4'));
  }
  setDefault(spec, 'ipFamilyPolicy', 'SingleStack');
}

const rangeStart = (10 << 24) | (96 << 16);
const rangeBits = 20;

/** An address in 10.96.0.0/12, derived from the name, so always the same. Among a thousand services, two may get the same address. */
function clusterAddress(service: JsonObject): string {
  const [namespace, name] = [textAt(service, 'metadata', 'namespace'), textAt(service, 'metadata', 'name')];
  if (namespace === 'default' && name === 'kubernetes') return '10.96.0.1';
  const digest = createHash('sha256').update(`${namespace}/${name}`).digest();
  // Excludes the network's own address, that of `kubernetes`, and the last one.
  const offset = 2 + (digest.readUInt32BE() % (2 ** rangeBits - 3));
  const address = rangeStart + offset;
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff).join('.');
}

export function defaultNetworkPolicy(policy: JsonObject): void {
  const spec = madeObject(policy, 'spec');
  // `spec` and `podSelector` are not pointers in Go, so they always exist: an empty policy selects all pods, and refuses ingress.
  madeObject(spec, 'podSelector');
  if (listAt(spec, 'policyTypes').length > 0) return;
  // Without `policyTypes`, every policy applies to ingress.
  spec['policyTypes'] = listAt(spec, 'egress').length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
}
