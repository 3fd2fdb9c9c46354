/** An API with pods and policies, and agents as processes in the networks of their nodes. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

import { rampart, RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TestApi } from '../../lib/apiserver/test-api.fixture.ts';
import { events, type KubeEvent } from '../../lib/kube/events/event-object.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { namespaces, pods } from '../../lib/kube/object/object.ts';
import { networkPolicies } from '../../guards/network-policy/api.ts';
import type { Host } from './listeners.fixture.ts';
import type { NetworkNamespace } from './namespaces.fixture.ts';

const manager = { fieldManager: 'test', force: true } as const;

/** `x/name` as the API has it. */
function named(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name };
}

/** Pods are labelled `pod: a` and so on, their namespaces `ns: x`. */
export class PolicyApi extends TestApi {
  readonly #ways = new Map<NetworkNamespace, Server>();
  readonly #sockets = new Set<Socket>();
  readonly #agents: RampartProcess[] = [];

  async createNamespaces(...names: readonly string[]): Promise<void> {
    for (const name of names) {
      await this.client.create(namespaces, { metadata: { name, labels: { ns: name } } });
    }
  }

  async createPod(
    { name: key, addresses }: Pick<Host, 'name' | 'addresses'>,
    nodeName: string,
    labels: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const metadata = { ...named(key), labels: { pod: named(key).name, ...labels } };
    const pod = await this.client.create(pods, {
      metadata,
      spec: {
        nodeName,
        containers: [{ name: 'main', image: 'none', ports: [{ name: 'serve-80', containerPort: 80 }] }],
      },
    });
    await this.client.update(
      pods,
      {
        ...pod,
        status: {
          phase: 'Running',
          podIP: addresses[4],
          podIPs: [{ ip: addresses[4] }, { ip: addresses[6] }],
          startTime: new Date().toISOString(),
        },
      },
      { subresource: 'status' },
    );
  }

  /** Changes labels of a pod that is there; null takes one away. */
  async labelPod(key: string, labels: Readonly<Record<string, string | null>>): Promise<void> {
    await this.client.patch(pods, named(key), { type: 'merge', body: { metadata: { labels } } });
  }

  /** `x/name`, its spec, and all of its annotations. */
  async apply(key: string, spec: object, annotations: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.client.apply(networkPolicies, { metadata: { ...named(key), annotations }, spec }, manager);
  }

  /** Null takes one away. */
  async annotateNamespace(name: string, annotations: Readonly<Record<string, string | null>>): Promise<void> {
    await this.client.patch(namespaces, { name }, { type: 'merge', body: { metadata: { annotations } } });
  }

  async removePolicy(key: string): Promise<void> {
    await this.client.delete(networkPolicies, named(key));
  }

  /** At once, as a kubelet does when its containers have ended. */
  async removePod(key: string): Promise<void> {
    await this.client.delete(pods, named(key), { gracePeriodSeconds: 0 });
  }

  async eventsOf(namespace: string): Promise<readonly KubeEvent[]> {
    return (await this.client.list(events, { namespace })).items;
  }

  /** `rampart agent` with this guard in a network. It ends with the test. */
  async startAgent(
    namespace: NetworkNamespace,
    nodeName: string,
    ...args: readonly string[]
  ): Promise<RampartProcess> {
    await this.#openWay(namespace);
    const socket = join(this.directory, `alerts-${nodeName}.sock`);
    const agent = namespace.run(
      () =>
        new RampartProcess(
          [
            ...['agent', '--kubeconfig', this.kubeconfig, '--node-name', nodeName, '--alerts-socket', socket],
            ...['--guards', 'network-policy', ...args],
          ],
          {},
          ['setpriv', '--pdeathsig', 'KILL', rampart],
        ),
    );
    this.#agents.push(agent);
    return agent;
  }

  /** The address in the kubeconfig is one of this process's network: what connects to it in another one is led there. */
  async #openWay(namespace: NetworkNamespace): Promise<void> {
    if (this.#ways.has(namespace)) return;
    const port = Number(findClusterAccess({ path: this.kubeconfig }).server.port);
    const server = createServer((socket) => {
      const there = connect({ host: '127.0.0.1', port });
      for (const [one, other] of [
        [socket, there],
        [there, socket],
      ] as const) {
        this.#sockets.add(one.on('error', () => other.destroy()));
        one.on('close', () => this.#sockets.delete(one)).pipe(other);
      }
    });
    this.#ways.set(namespace, server);
    const listening = once(server, 'listening');
    await namespace.runTick(() => server.listen(port, '127.0.0.1'));
    await listening;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    for (const agent of this.#agents) await agent[Symbol.asyncDispose]();
    for (const server of this.#ways.values()) server.close();
    for (const socket of this.#sockets) socket.destroy();
    await super[Symbol.asyncDispose]();
  }
}
