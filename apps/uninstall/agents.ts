/**
 * Cleans every node: changes the agents' DaemonSet so that its pods run `rampart uninstall node` instead. Each of them has what its agent
 * had (image, options, capabilities, mounts), and no agent can come back in between.
 */
import { systemNamespace } from '../../guard/guard.ts';
import { agentWorkload } from '../../guard/removal.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { orUndefined } from '../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { type Condition, isConditionTrue } from '../../lib/kube/object/conditions.ts';
import { type DaemonSet, daemonSets, type Pod, pods } from '../../lib/kube/object/object.ts';
import { follow } from './follow.ts';
import type { Selected } from './selected.ts';

const { name } = agentWorkload;
const target = { namespace: systemNamespace, name };
export const agents: Selected & { readonly type: typeof daemonSets } = {
  type: daemonSets,
  namespace: systemNamespace,
  fieldSelector: `metadata.name=${name}`,
};
const agentCommand = 'agent';
const cleaningAnnotation = 'rampart.dev/uninstall';
/** How long to wait for the next clean node. It may never come: an image that cannot be pulled, a node that is off. */
const STALLED_MS = 120_000;

interface CleanOptions {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  readonly stalledMs?: number;
}

/** @returns the nodes that are not clean, with the reasons; undefined if the agents have no DaemonSet. */
export async function cleanNodes(options: CleanOptions): Promise<readonly string[] | undefined> {
  const { client, signal, say, stalledMs = STALLED_MS } = options;
  const found = await orUndefined(client.get(daemonSets, target, { signal }));
  if (found === undefined) return undefined;
  if (found.spec?.template.metadata?.annotations?.[cleaningAnnotation] === undefined)
    await client.patch(daemonSets, target, { type: 'merge', body: cleaningPatch(found) }, { signal });
  let said = '';
  let last: DaemonSet | undefined = found;
  await follow(agents, {
    ...{ client, signal, stalledMs },
    progress: ([daemonSet]) => {
      last = daemonSet;
      if (daemonSet === undefined) return undefined;
      const { wanted, clean } = countsOf(daemonSet);
      const text = `nodes cleaned: ${clean} of ${wanted ?? '?'}`;
      if (text !== said) say((said = text));
      return clean === wanted ? undefined : text;
    },
  });
  if (last === undefined) return undefined;
  const { wanted, clean } = countsOf(last);
  return clean === wanted ? [] : await notClean(options, (wanted ?? 0) - clean);
}

/** `wanted` is undefined until the change is in the API server's cache, and the controller has seen it. */
function countsOf({ metadata, spec, status }: DaemonSet): {
  readonly wanted?: number;
  readonly clean: number;
} {
  const isChanged = spec?.template.metadata?.annotations?.[cleaningAnnotation] !== undefined;
  if (!isChanged || status === undefined || (status.observedGeneration ?? 0) < (metadata.generation ?? 0))
    return { clean: 0 };
  const { desiredNumberScheduled: wanted, updatedNumberScheduled: updated = 0, numberReady: ready } = status;
  // Ready pods are not all clean: some may be agents that still run.
  return { wanted, clean: Math.max(0, updated + ready - Math.max(wanted, updated)) };
}

/** A JSON merge patch: lists are replaced as a whole. */
export function cleaningPatch({ spec }: DaemonSet): object {
  const { containers = [], volumes = [] } = spec?.template.spec ?? {};
  const agent = containers.find(({ args }) => args?.[0] === agentCommand);
  if (agent === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot clean the nodes with DaemonSet ${systemNamespace}/${name}`,
      why: `it has no container with the argument ${agentCommand}`,
      next: 'Run `rampart uninstall node` on each node, delete the DaemonSet, and try again',
    });
  }
  const { image, imagePullPolicy, command, args = [], env, securityContext } = agent;
  const mounts = agent.volumeMounts ?? [];
  const parents = new Map(
    volumes.flatMap(({ name: volume, hostPath }) => {
      const [, parent] = /^(\/.+)\/rampart$/.exec(hostPath?.path ?? '') ?? [];
      return parent === undefined ? [] : [[volume, parent] as const];
    }),
  );
  const clean = {
    ...{ name: 'clean', image, imagePullPolicy, command, env, securityContext },
    args: ['uninstall', 'node', ...args.slice(1)],
    // A mount point cannot be removed.
    volumeMounts: mounts.map((mount) =>
      parents.has(mount.name) ? { ...mount, mountPath: mount.mountPath.replace(/\/rampart$/, '') } : mount,
    ),
  };
  const { runAsUser, runAsGroup, seccompProfile } = securityContext ?? {};
  const rest = {
    ...{ name: agent.name, image, imagePullPolicy, command: ['sleep', 'infinity'] },
    securityContext: {
      ...{
        runAsUser,
        runAsGroup,
        seccompProfile,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
      },
      capabilities: { drop: ['ALL'] },
    },
  };
  return {
    spec: {
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '100%', maxSurge: 0 } },
      template: {
        metadata: { annotations: { [cleaningAnnotation]: 'true' } },
        spec: {
          initContainers: [clean],
          containers: [rest],
          volumes: volumes.map((volume) => {
            const parent = parents.get(volume.name);
            return parent === undefined ? volume : { name: volume.name, hostPath: { path: parent } };
          }),
          // A mounted token would create a directory in the node's /run.
          automountServiceAccountToken: false,
          terminationGracePeriodSeconds: 1,
        },
      },
    },
  };
}

async function notClean({ client, signal }: CleanOptions, count: number): Promise<string[]> {
  const labelSelector = `app.kubernetes.io/name=${name}`;
  const { items } = await client.list(pods, { namespace: systemNamespace }, { labelSelector, signal });
  const left = items.filter((pod) => !isClean(pod));
  if (left.length === 0) return [`nodes without a pod of DaemonSet ${name}, which are not cleaned: ${count}`];
  return left.map(({ metadata, spec, status }) => {
    const waiting = status?.initContainerStatuses?.[0]?.state?.waiting;
    const reason = waiting?.message ?? waiting?.reason ?? status?.phase ?? 'unknown';
    return `node ${spec?.nodeName ?? '?'} is not cleaned: pod ${metadata.name}: ${reason}`;
  });
}

function isClean({ metadata, status }: Pod): boolean {
  const conditions = (status?.conditions ?? []) as readonly Condition[];
  return metadata.annotations?.[cleaningAnnotation] !== undefined && isConditionTrue(conditions, 'Ready');
}
