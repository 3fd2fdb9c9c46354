/** The cluster of a fleet: nodes, ten pods on each, and the policies that each agent has to know. */
import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import { guards } from '../../apps/guards.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { parentKinds } from '../../guards/bpf-programs/api.ts';
import { kivePolicyType } from '../../guards/file-access/api.ts';
import { networkPolicies } from '../../guards/network-policy/api.ts';
import { isAlreadyExists, isNotFound, KubeError, orUndefined } from '../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import type { ObjectTarget } from '../../lib/kube/client/client-options.ts';
import {
  type KubeObject,
  namespaces,
  nodes,
  type Pod,
  pods,
  type ResourceType,
} from '../../lib/kube/object/object.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';
import { pod } from '../apiserver/server-process.ts';
import type { FleetPod } from './agents-process.ts';

export const podsPerNode = 10;
/** At a time. */
const WRITERS = 16;
const FORBIDDEN = 403;
const RETRY_MS = 200;
const ESTABLISHED_MS = 30_000;

const bare: ResourceType = customResourceDefinitions;
/** Each node has a pod in each, so each policy concerns each node. */
const spaces = Array.from({ length: podsPerNode }, (_, at) => `fleet-${at}`);
const [space = ''] = spaces;

const xdpPrograms = parentKinds.find(({ kind }) => kind === 'XdpProgram')!.type as ResourceType;

export interface FleetNode {
  readonly name: string;
  readonly pods: readonly FleetPod[];
}

/** The created objects, to remove them from a cluster that continues. */
export class FleetObjects {
  readonly #made: { readonly type: ResourceType; readonly name: string }[] = [];

  async definitions(client: KubeClient, signal: AbortSignal): Promise<void> {
    const resources = guards.flatMap(({ resources: own }) => own);
    for (const resource of resources) await this.#make(client, bare, crdManifest(resource));
    for (const { plural, group } of resources) {
      await established(client, `${plural}.${group}`, { timeoutMs: ESTABLISHED_MS, signal });
    }
  }

  async nodes(client: KubeClient, count: number, signal: AbortSignal): Promise<FleetNode[]> {
    for (const name of [...spaces, systemNamespace])
      await this.#make(client, namespaces, { metadata: { name } });
    const all = Array.from({ length: count }, (_, at) => ({ name: `fleet-${at}`, pods: [] as FleetPod[] }));
    await inParallel(all, async ({ name }) => {
      const labels = { 'kubernetes.io/hostname': name };
      await this.#make(client, nodes, { metadata: { name, labels } });
    });
    const wanted = all.flatMap((node, at) => spaces.map((of, place) => ({ node, at, of, place })));
    await inParallel(wanted, async ({ node, at, of, place }) => {
      const ip = `10.${at >> 8}.${at & 255}.${place + 2}`;
      node.pods.push(await makePod(client, { at, namespace: of, node: node.name, ip }, signal));
    });
    return all;
  }

  /** While operator and agents run: they have something to clean up. */
  async removePolicies(client: KubeClient, names: readonly string[], signal: AbortSignal): Promise<void> {
    const all = names.flatMap((name) => policies(name, ''));
    for (const { type, metadata } of all) await client.delete(type, metadata, { signal }).catch(unlessGone);
    for (const { type, metadata } of all) await gone(client, type, metadata, signal);
  }

  async remove(client: KubeClient, signal: AbortSignal): Promise<void> {
    const now = { gracePeriodSeconds: 0 };
    for (const namespace of spaces) await client.deleteCollection(pods, { namespace }, now).catch(unlessGone);
    await inParallel(this.#made.toReversed(), ({ type, name }) =>
      client.delete(type, { name }).then(() => undefined, unlessGone),
    );
    // Who makes them anew must not find them on their way out.
    await inParallel(this.#made, ({ type, name }) => gone(client, type, { name }, signal));
  }

  async #make(client: KubeClient, type: ResourceType, object: KubeObject): Promise<void> {
    try {
      await client.create(type, object);
      this.#made.push({ type, name: object.metadata.name ?? '' });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}

/** One for each guard whose agents do something for it. @param bytecode - A file that is there. */
export function policies(name: string, bytecode: string) {
  const metadata = { name, namespace: space };
  const ofSpace = [{ podSelector: {} }];
  return [
    {
      type: networkPolicies as ResourceType,
      metadata,
      spec: { podSelector: {}, ingress: [{ from: ofSpace }] },
    },
    {
      type: kivePolicyType as ResourceType,
      metadata,
      spec: { traps: [{ path: '/etc/shadow', matchAny: [{ namespace: space }] }] },
    },
    {
      type: xdpPrograms,
      metadata: { name },
      spec: {
        ...{ bpffunctionname: 'pass', priority: 0, nodeselector: {} },
        interfaceselector: { interfaces: ['eth0'] },
        bytecode: { path: bytecode },
      },
    },
  ] as const;
}

export async function applyPolicies(client: KubeClient, name: string, bytecode: string): Promise<void> {
  await Promise.all(
    policies(name, bytecode).map(({ type, metadata, spec }) =>
      client.create(type, { metadata, spec } as unknown as KubeObject),
    ),
  );
}

async function makePod(
  client: KubeClient,
  { at, namespace, node, ip }: { at: number; namespace: string; node: string; ip: string },
  signal: AbortSignal,
): Promise<FleetPod> {
  const name = `pod-${at}`;
  const object = pod(name, node) as Pod;
  object.metadata.namespace = namespace;
  const create = async (): Promise<Pod> => {
    for (;;) {
      try {
        return await client.create(pods, object, { signal });
      } catch (error) {
        // Until the namespace has its service account.
        if (!(error instanceof KubeError) || error.status !== FORBIDDEN) throw error;
        await sleep(systemClock, RETRY_MS, signal);
      }
    }
  };
  const { metadata } = await create();
  const status = { phase: 'Running', podIP: ip, podIPs: [{ ip }], startTime: metadata.creationTimestamp };
  const body = { status };
  await client.patch(pods, { namespace, name, subresource: 'status' }, { type: 'merge', body }, { signal });
  return { namespace, name, uid: metadata.uid ?? '', ip };
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const next = items.values();
  const worker = async (): Promise<void> => {
    for (const item of next) await work(item);
  };
  await Promise.all(Array.from({ length: WRITERS }, worker));
}

async function gone(
  client: KubeClient,
  type: ResourceType,
  target: ObjectTarget,
  signal: AbortSignal,
): Promise<void> {
  while ((await orUndefined(client.get(type, target, { signal }))) !== undefined) {
    await sleep(systemClock, RETRY_MS, signal);
  }
}

function unlessGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
