/** The sender and the receiver of a packet. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type IpAddress, parseAddress } from '../engine/addresses.ts';
import { objectKey, type PodObject } from '../engine/objects.ts';
import type { Family } from '../engine/rules.ts';
import type { Packet } from './packet.ts';

export interface Party {
  readonly address: IpAddress;
  /** Undefined: the address belongs to no pod, or to one in its node's network. */
  readonly pod: PodObject | undefined;
}

export function partiesOf(
  pods: readonly PodObject[],
  packet: Packet,
): { readonly source: Party; readonly destination: Party } {
  const [from, to] = [packet.from, packet.to].map((text) => candidatesOf(pods, text)) as [Party[], Party[]];
  const families: readonly Family[] = packet.family === undefined ? [4, 6] : [packet.family];
  for (const family of families) {
    const [source, destination] = [from, to].map((parties) =>
      parties.find(({ address }) => address.family === family),
    );
    if (source !== undefined && destination !== undefined) return { source, destination };
  }
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot evaluate traffic from ${packet.from} to ${packet.to}`,
    why: `they have no ${packet.family === undefined ? 'address family in common' : `IPv${packet.family} address each`}`,
    next: 'Name running pods (namespace/name) or addresses',
  });
}

/** The addresses that a pod may send from or be reached at, one entry for each. */
function candidatesOf(pods: readonly PodObject[], text: string): Party[] {
  const address = parseAddress(text);
  if (address !== undefined) return [{ address, pod: holderOf(pods, address) }];
  const pod = pods.find((one) => objectKey(one) === text);
  if (pod === undefined || isFinished(pod)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot evaluate traffic of ${text}`,
      why: pod === undefined ? 'it is not an address, and no pod has that name' : 'the pod is finished',
      next: 'Name a running pod (namespace/name) or an address',
    });
  }
  const onNode = pod.spec?.hostNetwork === true;
  return addressesOf(pod)
    .filter((own) => onNode || holderOf(pods, own) === pod)
    .map((own) => ({ address: own, pod: onNode ? undefined : pod }));
}

/** The pod that has an address; if several claim it, the one that got it last. */
function holderOf(pods: readonly PodObject[], address: IpAddress): PodObject | undefined {
  const holders = pods.filter(
    (pod) =>
      !isFinished(pod) &&
      pod.spec?.hostNetwork !== true &&
      addressesOf(pod).some(({ text }) => text === address.text),
  );
  let holder = holders[0];
  for (const other of holders) if (holder !== undefined && gotLater(other, holder)) holder = other;
  return holder;
}

function gotLater(one: PodObject, other: PodObject): boolean {
  const leaving = ({ metadata }: PodObject) => (metadata.deletionTimestamp ?? '') !== '';
  if (leaving(one) !== leaving(other)) return leaving(other);
  const created = ({ metadata }: PodObject) => metadata.creationTimestamp ?? '';
  const started = (pod: PodObject) => pod.status?.startTime ?? created(pod);
  if (started(one) !== started(other)) return started(one) > started(other);
  if (created(one) !== created(other)) return created(one) > created(other);
  return objectKey(one) > objectKey(other);
}

function isFinished({ status }: PodObject): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function addressesOf({ status }: PodObject): IpAddress[] {
  return [status?.podIP, ...(status?.podIPs ?? []).map(({ ip }) => ip)]
    .map((text) => parseAddress(text ?? ''))
    .filter((address) => address !== undefined);
}
