/** A small cluster, and what policies do to packets in it: said by engine and judge alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PolicyEngine } from './engine/engine.ts';
import { isAllowed } from './engine/evaluate.fixture.ts';
import type { NamespaceObject, PodObject, PolicyObject, PolicySpec } from './engine/objects.ts';
import { judge } from './judge/judge.ts';

interface PodParts {
  readonly labels?: Record<string, string>;
  readonly ports?: readonly { name: string; containerPort: number; protocol?: string }[];
  readonly hostNetwork?: boolean;
  readonly phase?: string;
  readonly startTime?: string;
  readonly deletionTimestamp?: string;
}

export function pod(key: string, ips: string, parts: PodParts = {}): PodObject {
  const [namespace = '', name = ''] = key.split('/');
  const {
    labels = { app: name },
    ports = [],
    hostNetwork,
    phase = 'Running',
    startTime,
    deletionTimestamp,
  } = parts;
  const [podIP = '', ...others] = ips.split(' ');
  return {
    metadata: { namespace, name, labels, deletionTimestamp },
    spec: { nodeName: 'node', hostNetwork, containers: [{ ports }] },
    status: { phase, podIP, podIPs: others.map((ip) => ({ ip })), startTime },
  };
}

export function policy(key: string, spec: PolicySpec | undefined): PolicyObject {
  const [namespace = '', name = ''] = key.split('/');
  return { metadata: { namespace, name }, spec };
}

const namespaces: readonly NamespaceObject[] = ['x', 'y', 'a', 'ab'].map((name) => ({
  metadata: { name, labels: { ns: name } },
}));
export const http = { name: 'http', containerPort: 80 };
const pods: readonly PodObject[] = [
  pod('x/a', '10.0.0.1 fd00::1', { ports: [http, { name: 'dns', containerPort: 53, protocol: 'UDP' }] }),
  pod('x/b', '10.0.0.2 fd00::2', { ports: [{ name: 'http', containerPort: 8080 }] }),
  pod('y/a', '10.0.0.3 fd00::3', { ports: [http] }),
  pod('y/b', '10.0.0.4 fd00::4'),
];
export const outside = '192.0.2.1';

/** `from to protocol port`; IPv6 pods have an address like `fd00::1`. */
export type Expected = readonly [
  allowed: boolean,
  from: string,
  to: string,
  port?: number,
  protocol?: string,
];

export function holds(
  policies: readonly PolicyObject[],
  expected: readonly Expected[],
  others: readonly PodObject[] = [],
) {
  const all = [...pods, ...others];
  const engine = new PolicyEngine('node');
  for (const one of policies) engine.upsertPolicy(one);
  for (const one of all) engine.upsertPod(one);
  for (const one of namespaces) engine.upsertNamespace(one);
  for (const [allowed, from, to, port = 80, protocol = 'TCP'] of expected) {
    const packet = { from, to, port, protocol };
    const judged = judge(policies, all, namespaces, packet);
    const what = JSON.stringify([packet, judged]);
    assert.equal(judged.allowed, allowed, `judge: ${what}`);
    const made = isAllowed(engine.rules, 'ingress', packet) && isAllowed(engine.rules, 'egress', packet);
    assert.equal(made, allowed, `engine: ${what}`);
  }
  return engine;
}

export const [xa, xb, ya, yb] = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'] as const;
export const toA = { podSelector: { matchLabels: { app: 'a' } } };
export const ingress = (rule: NonNullable<PolicySpec['ingress']>[number]) => [
  policy('x/p', { ...toA, ingress: [rule] }),
];
export const egress = (rule: NonNullable<PolicySpec['egress']>[number]) => [
  policy('x/p', { ...toA, policyTypes: ['Egress'], egress: [rule] }),
];
export const app = (...values: string[]) => ({ matchExpressions: [{ key: 'app', operator: 'In', values }] });

export type Cases = Readonly<
  Record<string, readonly [readonly PolicyObject[], readonly Expected[], (readonly PodObject[])?]>
>;

export function testEach(cases: Cases): void {
  for (const [title, [policies, expected, others]] of Object.entries(cases)) {
    test(title, () => void holds(policies, expected, others));
  }
}
