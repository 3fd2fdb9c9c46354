/** Checks of network policies (kubernetes `pkg/apis/networking/validation/validation.go`). */
import { BlockList, isIP } from 'node:net';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textsAt, valueAt } from '../../../json/fields.ts';
import { checkPort, checkPortOrName, checkSelector } from './checks.ts';

export function networkPolicyCauses(policy: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(policy, 'spec');
  checkSelector(objectAt(spec, 'podSelector'), 'spec.podSelector', causes);
  for (const [direction, side] of [
    ['ingress', 'from'],
    ['egress', 'to'],
  ] as const) {
    for (const [index, rule] of objectsAt(spec, direction).entries()) {
      const path = `spec.${direction}[${index}]`;
      for (const [position, port] of objectsAt(rule, 'ports').entries()) {
        checkPolicyPort(port, `${path}.ports[${position}]`, causes);
      }
      for (const [position, peer] of objectsAt(rule, side).entries()) {
        checkPeer(peer, `${path}.${side}[${position}]`, causes);
      }
    }
  }
  if (textsAt(spec, 'policyTypes').length > 2) {
    const words = 'may not specify more than two policyTypes';
    causes.push(fieldError.invalid('spec.policyTypes', spec['policyTypes'], words));
  }
  return causes;
}

function checkPolicyPort(port: JsonObject, path: string, causes: Cause[]): void {
  const [from, to] = [valueAt(port, 'port'), numberAt(port, 'endPort')];
  checkPortOrName(from, `${path}.port`, causes);
  if (to === undefined) return;
  const at = `${path}.endPort`;
  if (from === undefined) {
    causes.push(fieldError.invalid(at, to, 'may not be specified when `port` is not specified'));
  } else if (typeof from === 'string') {
    causes.push(fieldError.invalid(at, to, 'may not be specified when `port` is non-numeric'));
  } else if (typeof from === 'number' && to < from) {
    causes.push(fieldError.invalid(at, to, 'must be greater than or equal to `port`'));
  } else checkPort(to, at, causes);
}

function checkPeer(peer: JsonObject, path: string, causes: Cause[]): void {
  const given = ['podSelector', 'namespaceSelector', 'ipBlock'].filter(
    (field) => valueAt(peer, field) !== undefined,
  );
  for (const field of ['podSelector', 'namespaceSelector']) {
    checkSelector(objectAt(peer, field), `${path}.${field}`, causes);
  }
  if (given.length === 0) causes.push(fieldError.required(path, 'must specify a peer'));
  if (!given.includes('ipBlock')) return;
  checkBlock(objectAt(peer, 'ipBlock'), `${path}.ipBlock`, causes);
  if (given.length > 1)
    causes.push(fieldError.forbidden(path, 'may not specify both ipBlock and another peer'));
}

export const cidrWords = 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)';

interface Cidr {
  readonly address: string;
  readonly bits: number;
  readonly family: 'ipv4' | 'ipv6';
}

export function parseCidr(text: string): Cidr | undefined {
  const [address = '', prefix = '', ...rest] = text.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 0 || rest.length > 0 || !/^(?:0|[1-9]\d{0,2})$/.test(prefix)) return undefined;
  const bits = Number(prefix);
  if (bits > (version === 4 ? 32 : 128)) return undefined;
  return { address, bits, family: version === 4 ? 'ipv4' : 'ipv6' };
}

function checkBlock(block: JsonObject, path: string, causes: Cause[]): void {
  const text = valueAt(block, 'cidr');
  if (typeof text !== 'string') return;
  if (text === '') {
    causes.push(fieldError.required(`${path}.cidr`));
    return;
  }
  const cidr = parseCidr(text);
  if (cidr === undefined) {
    causes.push(fieldError.invalid(`${path}.cidr`, text, cidrWords));
    return;
  }
  for (const [index, exception] of textsAt(block, 'except').entries()) {
    const at = `${path}.except[${index}]`;
    const inner = parseCidr(exception);
    if (inner === undefined) causes.push(fieldError.invalid(at, exception, cidrWords));
    else if (!isWithin(inner, cidr)) {
      causes.push(fieldError.invalid(at, exception, 'must be a strict subset of `cidr`'));
    }
  }
}

function isWithin(inner: Cidr, outer: Cidr): boolean {
  if (inner.family !== outer.family || inner.bits <= outer.bits) return false;
  const list = new BlockList();
  list.addSubnet(outer.address, outer.bits, outer.family);
  return list.check(inner.address, inner.family);
}
