/**
 * A node with pods, and an outside beyond it: real packets, without containers. The pods are a, b and c of the namespaces x, y and
 * z; each answers over TCP and UDP, IPv4 and IPv6, at ports 80 and 81.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';

import type { Family } from '../../guards/network-policy/engine/rules.ts';
import { type Host, Listeners } from './listeners.fixture.ts';
import { NetworkNamespace } from './namespaces.fixture.ts';

export type { Host } from './listeners.fixture.ts';

export const podNames = ['x', 'y', 'z'].flatMap((namespace) =>
  ['a', 'b', 'c'].map((name) => `${namespace}/${name}`),
);
/** @param place - Of its name among {@link podNames}. */
export function podAddresses(place: number): Readonly<Record<Family, string>> {
  return { 4: `10.1.0.${place + 10}`, 6: `fd00:1::${place + 10}` };
}

/** The network of all pods. */
export const podCidr = { 4: '10.1.0.0/24', 6: 'fd00:1::/64' } as const;

/** The node's own towards its pods, and towards the outside. */
const nodeAddress = { 4: '10.1.0.1', 6: 'fd00:1::1' } as const;
const outsideAddress = { 4: '10.7.0.2', 6: 'fd00:7::2' } as const;
const nodeOutsideAddress = { 4: '10.7.0.1', 6: 'fd00:7::1' } as const;

export interface NetworkOptions {
  /** Pods on one bridge in place of one route each. */
  readonly bridge?: boolean;
}

export class Network implements AsyncDisposable {
  readonly node: Host = { name: 'node', namespace: new NetworkNamespace(), addresses: nodeOutsideAddress };
  readonly outside: Host = {
    name: 'outside',
    namespace: new NetworkNamespace(),
    addresses: outsideAddress,
  };
  readonly pods: readonly Host[] = podNames.map((name, place) => ({
    name,
    namespace: new NetworkNamespace(),
    addresses: podAddresses(place),
  }));
  readonly #listeners = new Listeners();
  readonly #children: ChildProcess[] = [];

  static async create({ bridge = false }: NetworkOptions = {}): Promise<Network> {
    const network = new Network();
    try {
      network.#link(bridge);
      for (const host of [network.node, network.outside, ...network.pods])
        await network.#listeners.serve(host);
    } catch (error) {
      await network[Symbol.asyncDispose]();
      throw error;
    }
    return network;
  }

  host(name: string): Host {
    const found = [this.node, this.outside, ...this.pods].find((host) => host.name === name);
    if (found === undefined) throw new Error(`no host ${name}`);
    return found;
  }

  /** Has packets within a bridge pass netfilter; false where the kernel has no br_netfilter. */
  filterBridge(): boolean {
    return this.node.namespace.run(() => {
      const switches = ['iptables', 'ip6tables'].map((name) => `/proc/sys/net/bridge/bridge-nf-call-${name}`);
      if (!switches.every((path) => existsSync(path))) return false;
      for (const path of switches) writeFileSync(path, '1');
      return true;
    });
  }

  /** Gives each of the pods an address of a Service, by such rules as kube-proxy has. */
  addServices(names: readonly string[]): ReadonlyMap<string, Readonly<Record<Family, string>>> {
    const services = new Map(
      names.map((name, place) => [name, { 4: `10.96.0.${place + 1}`, 6: `fd00:96::${place + 1}` }]),
    );
    this.node.namespace.nft(
      [
        'add table inet services',
        'add chain inet services prerouting { type nat hook prerouting priority dstnat; }',
        ...[...services].flatMap(([name, service]) => {
          const pod = this.host(name).addresses;
          return [
            `add rule inet services prerouting ip daddr ${service[4]} dnat ip to ${pod[4]}`,
            `add rule inet services prerouting ip6 daddr ${service[6]} dnat ip6 to ${pod[6]}`,
          ];
        }),
      ].join('\n'),
    );
    return services;
  }

  /** Calls `seen` for each datagram that comes to the pod at port 80, until what is returned is disposed. */
  watchUdp(name: string, seen: (from: string) => void, family: Family = 4): Disposable {
    return this.#listeners.watchUdp(name, seen, family);
  }

  /** Connections over TCP that others have with it, as it knows them. */
  connectionsOf(name: string): number {
    return this.#listeners.connectionsOf(name);
  }

  /** Runs a shell script there, until it is stopped. */
  spawn(host: Host, script: string): ChildProcess {
    const child = host.namespace.run(() =>
      spawn('setpriv', ['--pdeathsig', 'KILL', 'bash', '-c', script], { stdio: 'ignore' }),
    );
    this.#children.push(child);
    return child;
  }

  async #stop(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) await this.#stop(child);
    this.#listeners[Symbol.dispose]();
    for (const { namespace } of [this.node, this.outside, ...this.pods]) namespace[Symbol.dispose]();
  }

  #link(bridge: boolean): void {
    const node = this.node.namespace;
    forwards(node);
    node.ip('link set lo up');
    if (bridge) {
      node.ip(
        'link add pods type bridge',
        `addr add ${nodeAddress[4]}/24 dev pods`,
        `addr add ${nodeAddress[6]}/64 dev pods nodad`,
        'link set pods up',
      );
    }
    this.pods.forEach((pod, place) => this.#linkPod(pod, `pod${place}`, bridge));
    node.ip(
      `link add outside type veth peer name eth0 netns ${this.outside.namespace.path}`,
      `addr add ${nodeOutsideAddress[4]}/24 dev outside`,
      `addr add ${nodeOutsideAddress[6]}/64 dev outside nodad`,
      'link set outside up',
    );
    this.outside.namespace.ip(
      'link set lo up',
      `addr add ${outsideAddress[4]}/24 dev eth0`,
      `addr add ${outsideAddress[6]}/64 dev eth0 nodad`,
      'link set eth0 up',
      `route add default via ${nodeOutsideAddress[4]}`,
      `route add ::/0 via ${nodeOutsideAddress[6]}`,
    );
  }

  #linkPod(pod: Host, device: string, bridge: boolean): void {
    const { addresses, namespace } = pod;
    this.node.namespace.ip(
      `link add ${device} type veth peer name eth0 netns ${namespace.path}`,
      ...(bridge
        ? [`link set ${device} master pods`]
        : [
            `addr add ${nodeAddress[4]}/32 dev ${device}`,
            `addr add ${nodeAddress[6]}/128 dev ${device} nodad`,
          ]),
      `link set ${device} up`,
      ...(bridge
        ? []
        : [`route add ${addresses[4]}/32 dev ${device}`, `route add ${addresses[6]}/128 dev ${device}`]),
    );
    const length = bridge ? { 4: 24, 6: 64 } : { 4: 32, 6: 128 };
    namespace.ip(
      'link set lo up',
      `addr add ${addresses[4]}/${length[4]} dev eth0`,
      `addr add ${addresses[6]}/${length[6]} dev eth0 nodad`,
      'link set eth0 up',
      ...(bridge
        ? []
        : [`route add ${nodeAddress[4]}/32 dev eth0`, `route add ${nodeAddress[6]}/128 dev eth0`]),
      `route add default via ${nodeAddress[4]}`,
      `route add ::/0 via ${nodeAddress[6]}`,
    );
  }
}

/** Makes a router of it. */
export function forwards(namespace: NetworkNamespace): void {
  namespace.run(() => {
    for (const [path, value] of [
      ['ipv4/ip_forward', '1'],
      ['ipv6/conf/all/forwarding', '1'],
      // Every refusal is reported, so that a probe does not wait.
      ['ipv4/icmp_ratemask', '0'],
      ['ipv6/icmp/ratemask', '0'],
    ] as const) {
      writeFileSync(`/proc/sys/net/${path}`, value);
    }
  });
}
