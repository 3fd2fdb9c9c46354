/** The objects of a large cluster, and how the API takes them. */
import type { PodObject, PolicyObject } from '../../guards/network-policy/engine/objects.ts';
import { namespaceOf, podOf, policyOf } from './engine.ts';

const PODS = 10_000;
const LOCAL_PODS = 50;
const POLICIES = 5000;
const PODS_PER_NAMESPACE = 50;

export const localNode = 'node-0';

export function objects(shrink: number) {
  const pods = Math.ceil(PODS / shrink);
  const nodes = Math.max(1, Math.ceil(pods / LOCAL_PODS));
  const namespaces = Math.ceil(pods / PODS_PER_NAMESPACE);
  const all = Array.from({ length: pods }, (_, at): PodObject => {
    // Those of a node are of many namespaces.
    const node = (at + Math.floor(at / nodes)) % nodes;
    return complete(podOf(at, node, namespaces), node, Math.floor(at / nodes));
  });
  const policies = Array.from({ length: Math.ceil(POLICIES / shrink) }, (_, at): PolicyObject => {
    const { metadata, spec } = policyOf(at, namespaces);
    // Without the rule for a named port of whoever has it: each such policy needs an element for each of these.
    return { metadata, ...(spec && { spec: { ...spec, egress: spec.egress?.slice(0, 1) ?? [] } }) };
  });
  const local = all.filter(({ spec }) => spec?.nodeName === localNode);
  const selects = ({ metadata, spec }: PolicyObject, pod: PodObject): boolean =>
    metadata.namespace === pod.metadata.namespace &&
    spec?.podSelector?.matchLabels?.['app'] === pod.metadata.labels?.['app'];
  return {
    namespaces: Array.from({ length: namespaces }, (_, at) => namespaceOf(at)),
    pods: all,
    policies,
    local: local.filter((pod) => policies.some((policy) => selects(policy, pod))).length,
    needed: policies.filter((policy) => local.some((pod) => selects(policy, pod))).length,
  };
}

/** As the API takes it; each node has a block of its own for its pods. */
function complete(pod: PodObject, node: number, place: number): PodObject {
  const podIP = `10.${node >> 8}.${node & 255}.${place + 2}`;
  const podIPv6 = `fd00:0:0:${node.toString(16)}::${(place + 2).toString(16)}`;
  const container = {
    name: 'main',
    image: 'example.org/app',
    ports: [{ name: 'http', containerPort: 8080 }],
  };
  return {
    ...pod,
    spec: { nodeName: pod.spec?.nodeName ?? '', containers: [container] },
    status: { phase: 'Running', podIP, podIPs: [{ ip: podIP }, { ip: podIPv6 }] },
  };
}

export function pathOf({ metadata }: PodObject): string {
  return `/api/v1/namespaces/${metadata.namespace}/pods`;
}

export function statusOf(pod: PodObject, status: object): [string, string, object] {
  return ['PUT', `${pathOf(pod)}/${pod.metadata.name}/status`, { ...pod, status }];
}
