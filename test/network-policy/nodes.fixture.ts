/** Two nodes with pods on a bridge each, and a link between them; an API with all of it. */
import { existsSync, writeFileSync } from 'node:fs';

import { type StartedApi, startTestApi } from '../../lib/apiserver/test-api.fixture.ts';
import { nodes as nodeType } from '../../lib/kube/object/object.ts';
import { type Host, Listeners } from './listeners.fixture.ts';
import { NetworkNamespace } from './namespaces.fixture.ts';
import { forwards } from './network.fixture.ts';
import { PolicyApi } from './policy-api.fixture.ts';

export interface NodePod extends Host {
  readonly node: string;
}

const nodeNames = ['one', 'two'] as const;
export type NodeName = (typeof nodeNames)[number];
/** Some pods of each namespace are on this node and some on the other. */
const podsOf: Readonly<Record<NodeName, readonly string[]>> = {
  one: ['x/a', 'y/a', 'z/a', 'x/c', 'z/c'],
  two: ['x/b', 'y/b', 'z/b', 'y/c'],
};

const cidrs = (place: number) => ({ 4: `10.${place}.0.0/24`, 6: `fd00:${place}::/64` });
const within = (place: number, host: number) => ({ 4: `10.${place}.0.${host}`, 6: `fd00:${place}::${host}` });
const LINK = 9;

/** Disposing it ends all. */
export class PolicyNodes extends PolicyApi {
  readonly nodes: readonly Host[];
  readonly pods: readonly NodePod[];
  readonly #listeners = new Listeners();

  private constructor(api: StartedApi) {
    super(api);
    this.nodes = nodeNames.map((name, at) => ({
      ...{ name, namespace: new NetworkNamespace(), addresses: within(LINK, at + 1) },
    }));
    this.pods = nodeNames.flatMap((node, at) =>
      podsOf[node].map((name, place) => ({
        ...{ name, node, namespace: new NetworkNamespace(), addresses: within(at + 1, place + 10) },
      })),
    );
  }

  static async create(): Promise<PolicyNodes> {
    const all = new PolicyNodes(await startTestApi({ name: 'policy-nodes', memory: true }));
    try {
      all.#link();
      for (const host of all.hosts) await all.#listeners.serve(host);
      await all.createNamespaces('x', 'y', 'z');
      for (const [at, name] of nodeNames.entries()) {
        const { 4: podCIDR, 6: second } = cidrs(at + 1);
        await all.client.create(nodeType, {
          metadata: { name },
          spec: { podCIDR, podCIDRs: [podCIDR, second] },
        });
      }
      for (const pod of all.pods) await all.createPod(pod, pod.node);
    } catch (error) {
      await all[Symbol.asyncDispose]();
      throw error;
    }
    return all;
  }

  get hosts(): readonly Host[] {
    return [...this.pods, ...this.nodes];
  }

  host(name: string): Host {
    const found = this.hosts.find((host) => host.name === name);
    if (found === undefined) throw new Error(`no host ${name}`);
    return found;
  }

  /** Calls `seen` for each datagram that comes to a pod over IPv4 at port 80. */
  watchUdp(name: string, seen: (from: string) => void): void {
    this.#listeners.watchUdp(name, seen);
  }

  #link(): void {
    const [one, two] = this.nodes.map(({ namespace }) => namespace);
    one!.ip(`link add nodes type veth peer name nodes netns ${two!.path}`);
    for (const [at, { namespace, addresses, name }] of this.nodes.entries()) {
      forwards(namespace);
      const [own, other] = [at + 1, 2 - at];
      const [gateway, there] = [within(own, 1), within(LINK, other)];
      namespace.ip(
        'link set lo up',
        'link add pods type bridge',
        `addr add ${gateway[4]}/24 dev pods`,
        `addr add ${gateway[6]}/64 dev pods nodad`,
        'link set pods up',
        `addr add ${addresses[4]}/24 dev nodes`,
        `addr add ${addresses[6]}/64 dev nodes nodad`,
        'link set nodes up',
        `route add ${cidrs(other)[4]} via ${there[4]}`,
        `route add ${cidrs(other)[6]} via ${there[6]}`,
      );
      // With the kernel's defaults: setting them is the agent's task.
      namespace.run(() => {
        for (const family of ['iptables', 'ip6tables']) {
          const path = `/proc/sys/net/bridge/bridge-nf-call-${family}`;
          if (existsSync(path)) writeFileSync(path, '0');
        }
      });
      for (const [place, pod] of this.pods.filter(({ node }) => node === name).entries()) {
        namespace.ip(
          `link add pod${place} type veth peer name eth0 netns ${pod.namespace.path}`,
          `link set pod${place} master pods up`,
        );
        pod.namespace.ip(
          'link set lo up',
          `addr add ${pod.addresses[4]}/24 dev eth0`,
          `addr add ${pod.addresses[6]}/64 dev eth0 nodad`,
          'link set eth0 up',
          `route add default via ${gateway[4]}`,
          `route add ::/0 via ${gateway[6]}`,
        );
      }
    }
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    try {
      await super[Symbol.asyncDispose]();
    } finally {
      this.#listeners[Symbol.dispose]();
      for (const { namespace } of this.hosts) namespace[Symbol.dispose]();
    }
  }
}
