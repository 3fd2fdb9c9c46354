/**
 * The pods that count, and which of them has which address.
 *
 * A pod counts from when it has an address until it is gone or finished, also while it terminates. A pod in the
 * node's network is not a pod here: its addresses are those of the node. If two pods claim an address, it belongs
 * to the newer pod: otherwise that pod would have what the older one is allowed.
 */
import type { Labels } from '../../../lib/kube/selectors/selectors.ts';
import { type IpAddress, parseAddress } from './addresses.ts';
import { equal } from './equal.ts';
import { exactList } from './exact-list.ts';
import { NetChanges } from './net-changes.ts';
import { objectKey, type PodObject } from './objects.ts';
import { protocolOf } from './parsed-ports.ts';
import type { Address, AddressChange, PodKey, Protocol } from './rules.ts';

/** The relevant facts about a pod. A new object whenever any of them changes. */
export interface PodFacts {
  readonly key: PodKey;
  readonly namespace: string;
  readonly labels: Labels;
  /** Whether the pod runs on this node. */
  readonly local: boolean;
  /** The pod's own addresses; at least one. */
  readonly addresses: readonly IpAddress[];
  /** The pod's named ports. */
  readonly ports: readonly PodPort[];
}

export interface PodPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface PodChange {
  readonly before: PodFacts | undefined;
  readonly after: PodFacts | undefined;
}

/** A pod and the addresses that it claims. */
interface Claim {
  readonly facts: PodFacts;
  /** If two pods claim an address, the claim with the greater age wins. */
  readonly age: readonly string[];
}

export class PodTable {
  readonly #nodeName: string;
  readonly #claims = new Map<PodKey, Claim>();
  /** The claims on each address: usually one. */
  readonly #claimants = new Map<Address, readonly PodKey[]>();
  /** Changes since {@link takeAddressChange} was last called; undefined before the first call. */
  #unreported: NetChanges<Address> | undefined;
  readonly #pods = new Map<PodKey, PodFacts>();
  readonly #byNamespace = new Map<string, Map<PodKey, PodFacts>>();

  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /** @returns what has changed: this pod, and those that got an address from it or lost one to it */
  upsert(pod: PodObject): PodChange[] {
    return this.#set(objectKey(pod), claimOf(pod, this.#nodeName));
  }

  remove(key: PodKey): PodChange[] {
    return this.#set(key, undefined);
  }

  get(key: PodKey): PodFacts | undefined {
    return this.#pods.get(key);
  }

  /** The pod that has an address; undefined if no pod that counts has it. */
  at(address: Address): PodKey | undefined {
    return this.#owner(address);
  }

  /** Changes of the addresses of pods since the last call. On the first call, all existing addresses have come. */
  takeAddressChange(): AddressChange {
    const unreported = this.#unreported;
    this.#unreported ??= new NetChanges();
    return unreported === undefined ? { gone: [], come: [...this.#claimants.keys()] } : unreported.take();
  }

  all(): Iterable<PodFacts> {
    return this.#pods.values();
  }

  inNamespace(namespace: string): Iterable<PodFacts> {
    return this.#byNamespace.get(namespace)?.values() ?? [];
  }

  #set(key: PodKey, claim: Claim | undefined): PodChange[] {
    const before = this.#claims.get(key);
    if (equal(before, claim)) return [];
    if (claim === undefined) this.#claims.delete(key);
    else this.#claims.set(key, claim);
    const [old, now] = [before?.facts.addresses ?? [], claim?.facts.addresses ?? []];
    const touched = [key];
    if (!equal(old, now) || !equal(before?.age, claim?.age)) {
      for (const { text } of old) this.#claim(text, key, false);
      for (const { text } of now) this.#claim(text, key, true);
      for (const { text } of [...old, ...now]) {
        for (const claimant of this.#claimants.get(text) ?? []) {
          if (!touched.includes(claimant)) touched.push(claimant);
        }
      }
    }
    return touched.flatMap((one) => this.#refresh(one));
  }

  #claim(address: Address, key: PodKey, held: boolean): void {
    const known = this.#claimants.get(address);
    if (known === undefined) {
      if (held) {
        this.#claimants.set(address, [key]);
        this.#unreported?.came(address, address);
      }
      return;
    }
    const others = known.filter((one) => one !== key);
    const claimants = held ? [...others, key] : others;
    if (claimants.length === 0) {
      this.#claimants.delete(address);
      this.#unreported?.went(address, address);
    } else this.#claimants.set(address, exactList(claimants));
  }

  #refresh(key: PodKey): PodChange[] {
    const before = this.#pods.get(key);
    const after = this.#ownFacts(key);
    if (equal(before, after)) return [];
    const namespace = (after ?? before)?.namespace ?? '';
    const inNamespace = this.#byNamespace.get(namespace) ?? new Map<PodKey, PodFacts>();
    this.#byNamespace.set(namespace, inNamespace);
    if (after === undefined) {
      this.#pods.delete(key);
      inNamespace.delete(key);
      if (inNamespace.size === 0) this.#byNamespace.delete(namespace);
    } else {
      this.#pods.set(key, after);
      inNamespace.set(key, after);
    }
    return [{ before, after }];
  }

  #ownFacts(key: PodKey): PodFacts | undefined {
    const facts = this.#claims.get(key)?.facts;
    if (facts === undefined) return undefined;
    if (facts.addresses.every(({ text }) => this.#owner(text) === key)) return facts;
    const addresses = facts.addresses.filter(({ text }) => this.#owner(text) === key);
    return addresses.length === 0 ? undefined : { ...facts, addresses };
  }

  #owner(address: Address): PodKey | undefined {
    const claimants = this.#claimants.get(address);
    if (claimants === undefined || claimants.length === 1) return claimants?.[0];
    return claimants.reduce((owner, other) => (this.#isNewer(other, owner) ? other : owner));
  }

  #isNewer(one: PodKey, other: PodKey | undefined): boolean {
    const [mine, theirs] = [this.#claims.get(one)?.age ?? [], this.#claims.get(other ?? '')?.age ?? []];
    const at = mine.findIndex((part, index) => part !== theirs[index]);
    return (mine[at] ?? '') > (theirs[at] ?? '');
  }
}

function claimOf(pod: PodObject, nodeName: string): Claim | undefined {
  const { metadata, spec, status } = pod;
  const finished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  if (finished || spec?.hostNetwork === true) return undefined;
  const addresses = addressesOf(pod);
  if (addresses.length === 0) return undefined;
  const key = objectKey(pod);
  const created = metadata.creationTimestamp ?? '';
  const leaving = (metadata.deletionTimestamp ?? '') !== '';
  return {
    facts: {
      key,
      namespace: metadata.namespace ?? '',
      labels: metadata.labels ?? {},
      local: nodeName !== '' && spec?.nodeName === nodeName,
      addresses,
      ports: portsOf(pod),
    },
    // `startTime` is when the kubelet first saw the pod: before the pod got its address, which may be long after its creation.
    age: [leaving ? '' : 'stays', status?.startTime ?? created, created, key],
  };
}

/** `podIP` should be the first of `podIPs`; if it is not, both count. */
function addressesOf({ status }: PodObject): IpAddress[] {
  const found: IpAddress[] = [];
  const add = (written: string | null | undefined): void => {
    const address = parseAddress(written ?? '');
    if (address !== undefined && !found.some(({ text }) => text === address.text)) found.push(address);
  };
  const podIP = status?.podIP;
  add(podIP);
  for (const { ip } of status?.podIPs ?? []) if (ip !== podIP) add(ip);
  return found.toSorted((a, b) => a.family - b.family || (a.value < b.value ? -1 : 1));
}

function portsOf({ spec }: PodObject): readonly PodPort[] {
  const sidecars = (spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports: PodPort[] = [];
  for (const container of [...(spec?.containers ?? []), ...sidecars]) {
    for (const { name, protocol: written, containerPort: port } of container.ports ?? []) {
      const protocol = protocolOf(written);
      if ((name ?? '') !== '' && protocol !== undefined) ports.push({ name: name ?? '', protocol, port });
    }
  }
  return exactList(ports);
}
