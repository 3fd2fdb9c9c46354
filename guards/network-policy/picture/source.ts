import type { Picture, PictureContext, PictureSource } from '../../../guard/picture.ts';
import { type KubeObject, namespaces, type Pod, pods } from '../../../lib/kube/object/object.ts';
import { networkPolicies } from '../api.ts';
import type { NamespaceObject, PodObject, PolicyObject } from '../engine/objects.ts';
import { refusalOf } from '../refusal-line.ts';
import { readNodeFacts } from '../status/node-facts.ts';
import type { PicturedPod } from './groups.ts';
import { legend, matrixOf, title } from './matrix.ts';

export const networkPolicyPicture: PictureSource = {
  async read(context) {
    const [policies, known, places, agents] = await Promise.all([
      all(context, 'networkpolicies', networkPolicies, (policy) => policy as PolicyObject),
      all(context, 'pods', pods, picturedPod),
      all(context, 'namespaces', namespaces, ({ metadata }: KubeObject): NamespaceObject => ({ metadata })),
      context.agents(),
    ]);
    if (policies === undefined || known === undefined || places === undefined) return unknown;
    const monitoring = (agents ?? []).filter(
      ({ guards }) => readNodeFacts(guards.get('network-policy')?.facts)?.mode === 'monitor',
    );
    return await matrixOf(
      {
        ...{ policies, pods: known, namespaces: places },
        monitoringNodes: new Set(monitoring.map(({ nodeName }) => nodeName)),
      },
      context.findings.flatMap((finding) => refusalOf(finding) ?? []),
    );
  },
};

const unknown: Picture = {
  ...{ form: 'grid', title, axes: ['from', 'to'], unit: 'refused packets', items: [], legend },
  notes: ['Who may talk to whom is not known: it follows from NetworkPolicies, pods and Namespaces.'],
};

async function all<T extends KubeObject, U>(
  { list, orForbidden }: PictureContext,
  name: string,
  type: Parameters<typeof list<T>>[0],
  take: (object: T) => U,
): Promise<U[] | undefined> {
  return await orForbidden(name, async () => {
    const found: U[] = [];
    // Parsed item by item: only a tenth of each pod is kept.
    await list(type, (object) => void found.push(take(object)));
    return found;
  });
}

function picturedPod(pod: Pod): PicturedPod {
  const { metadata, spec, status } = pod as PodObject & Pick<Pod, 'metadata'>;
  const { name, namespace, labels, creationTimestamp, deletionTimestamp } = metadata;
  const { nodeName, hostNetwork, containers, initContainers } = spec ?? {};
  const { phase, podIP, podIPs, startTime } = status ?? {};
  return {
    workload: workloadOf(pod),
    metadata: { name, namespace, labels, creationTimestamp, deletionTimestamp },
    spec: {
      ...{ nodeName, hostNetwork },
      containers: containers?.map(({ ports }) => ({ ports })),
      initContainers: initContainers?.map(({ ports, restartPolicy }) => ({ ports, restartPolicy })),
    },
    status: { phase, podIP, podIPs, startTime },
  };
}

/**
 * The name of the workload. A ReplicaSet is one version of a Deployment, and a Job one run of a CronJob: the name
 * is derived from theirs.
 */
function workloadOf({ metadata }: Pod): string {
  const { name = '', labels = {}, ownerReferences = [] } = metadata;
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner === undefined || owner.kind === 'Node') return name;
  const hash = labels['pod-template-hash'];
  if (owner.kind === 'ReplicaSet' && hash !== undefined && owner.name.endsWith(`-${hash}`))
    return owner.name.slice(0, -hash.length - 1);
  return owner.kind === 'Job' ? owner.name.replace(/-\d{8,}$/, '') : owner.name;
}
