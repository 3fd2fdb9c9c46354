/** Which pods may connect to which: computed by the judge for each pair, and shown with the packets that were refused. */
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Picture, PictureItem } from '../../../guard/picture.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import { counted, someOf } from '../../../lib/output/words.ts';
import { type NamespaceObject, objectKey, type PolicyObject } from '../engine/objects.ts';
import { type Judgement, judge, rulesOf } from '../judge/judge.ts';
import { type LineEnd, portText } from '../line-ends.ts';
import { selectsTarget } from '../judge/peers.ts';
import type { Refusal } from '../refusal-line.ts';
import { groupsOf, type PicturedPod, type PodGroup, siblingOf } from './groups.ts';

export interface PicturedCluster {
  readonly pods: readonly PicturedPod[];
  readonly policies: readonly PolicyObject[];
  readonly namespaces: readonly NamespaceObject[];
  readonly monitoringNodes: ReadonlySet<string>;
}

interface Port {
  readonly protocol: string;
  readonly port?: number;
}

const MAX_GROUPS = 24;
const MAX_PORTS = 8;
const outside = 'outside the cluster';
const withPorts: ReadonlySet<string> = new Set(['TCP', 'UDP', 'SCTP']);

export const title = 'Who may talk to whom';

export const legend: Picture['legend'] = [
  { tone: 'ok', words: 'allowed: all, or these ports' },
  { tone: 'none', words: 'not allowed' },
  { tone: 'bad', words: 'packets were refused' },
  { tone: 'warn', words: 'would be refused without monitor mode' },
];

/** Lets other work of the process run between two rows. */
export async function matrixOf(cluster: PicturedCluster, refusals: readonly Refusal[]): Promise<Picture> {
  const { by, groups: all, onNodes, withoutAddress } = groupsOf(cluster.pods);
  const nameOf = groupNames(all);
  const refused = Map.groupBy(refusals, ({ source, destination }) =>
    JSON.stringify([nameOf(source), nameOf(destination)]),
  );
  const groups = maxReporting(all, refused, cluster.policies);
  const asked = { ...cluster, selecting: selectingIn(cluster.policies) };
  const items: PictureItem[] = [];
  for (const from of groups) {
    for (const to of groups) {
      const reported = refused.get(JSON.stringify([from.name, to.name])) ?? [];
      items.push(itemOf(from, to, asked, reported));
    }
    await nextTurn();
  }
  const shown = new Set([outside, ...groups.map(({ name }) => name)]);
  let undrawn = 0;
  for (const [key, reported] of refused) {
    const [from = '', to = ''] = JSON.parse(key) as string[];
    const isOutside = from === outside || to === outside;
    if (!shown.has(from) || !shown.has(to)) undrawn += reported.length;
    else if (isOutside) items.push(outsideItem(from, to, reported));
  }
  const partial = groups.filter(({ isPartial }) => isPartial).map(({ name }) => name);
  const notes = [
    by === 'namespace' && 'There are too many workloads for one picture: each row is a namespace.',
    groups.length < all.length &&
      `${counted(all.length - groups.length, by)} left out: the most telling are drawn.`,
    partial.length > 0 && `Not all kinds of pods were asked about in ${someOf(partial, 3)}.`,
    onNodes > 0 && `${counted(onNodes, 'pod')} left out: in the network of a node, where no policy applies.`,
    withoutAddress > 0 && `${counted(withoutAddress, 'pod')} left out: without an address yet.`,
    undrawn > 0 && `${counted(undrawn, 'refused packet')} not drawn: of pods that are gone, or left out.`,
    cluster.pods.length === 0 && 'There is no pod.',
  ].filter((note) => note !== false);
  return { form: 'grid', title, axes: ['from', 'to'], unit: 'refused packets', items, legend, notes };
}

function groupNames(groups: readonly PodGroup[]): (end: LineEnd) => string {
  const names = new Map(groups.flatMap(({ name, pods }) => pods.map((pod) => [objectKey(pod), name])));
  // A pod that is gone has no row.
  return ({ namespace, pod }) =>
    pod === undefined ? outside : (names.get(`${namespace}/${pod}`) ?? `${namespace}/${pod}`);
}

/**
 * Puts the groups with refused packets first, then those with policies, then those with most pods. Returns the
 * selected groups in their original order.
 */
function maxReporting(
  all: readonly PodGroup[],
  refused: ReadonlyMap<string, readonly Refusal[]>,
  policies: readonly PolicyObject[],
): readonly PodGroup[] {
  if (all.length <= MAX_GROUPS) return all;
  const troubled = new Set([...refused.keys()].flatMap((key) => JSON.parse(key) as string[]));
  const withPolicies = new Set(policies.map(({ metadata }) => metadata.namespace));
  const rank = ({ name, namespace, pods }: PodGroup): number =>
    (troubled.has(name) ? 2e9 : 0) + (withPolicies.has(namespace) ? 1e9 : 0) + pods.length;
  const chosen = new Set(all.toSorted((a, b) => rank(b) - rank(a)).slice(0, MAX_GROUPS));
  return all.filter((group) => chosen.has(group));
}

interface AskedCluster extends PicturedCluster {
  /** The policies that select a pod, looked up once: each pod is paired with many others. */
  readonly selecting: (pod: PicturedPod) => readonly PolicyObject[];
}

function selectingIn(policies: readonly PolicyObject[]): AskedCluster['selecting'] {
  const byNamespace = Map.groupBy(policies, ({ metadata }) => metadata.namespace ?? '');
  const known = new Map<PicturedPod, readonly PolicyObject[]>();
  return (pod) => {
    let selecting = known.get(pod);
    if (selecting === undefined) {
      const own = byNamespace.get(pod.metadata.namespace ?? '') ?? [];
      selecting = own.filter((policy) => selectsTarget(policy, pod));
      known.set(pod, selecting);
    }
    return selecting;
  };
}

type Verdict = 'allowed' | 'refused' | 'would-refuse';

/** The verdicts for one pair of pods. */
interface Answer {
  readonly from: PicturedPod;
  readonly to: PicturedPod;
  /** Whether no policy isolates either pod. */
  readonly isOpen: boolean;
  /** One verdict for each port; the last one represents all ports that are not named. */
  readonly ports: readonly (readonly [Port, Verdict])[];
}

function itemOf(
  from: PodGroup,
  to: PodGroup,
  cluster: AskedCluster,
  reported: readonly Refusal[],
): PictureItem {
  const places = new Set([from.namespace, to.namespace]);
  const namespaces = cluster.namespaces.filter(({ metadata }) => places.has(metadata.name ?? ''));
  const answers = from.kinds.flatMap((source) =>
    to.kinds.flatMap((target) => {
      // A pod always reaches itself, so the connection to another pod of its kind is evaluated.
      const other = source === target ? siblingOf(to, source) : target;
      if (other === undefined) return [];
      return answerOf(source, other, { ...cluster, namespaces }, reported) ?? [];
    }),
  );
  const names = `${from.name} to ${to.name}`;
  if (answers.length === 0) {
    const why =
      from === to ? 'one pod, which always reaches itself' : 'they have no family of addresses in common';
    return { at: [from.name, to.name], value: 0, tone: 'blank', mark: '', text: `${names}: ${why}.` };
  }
  const refusals = reported.filter(({ verdict }) => verdict === 'refused');
  const { mark, words, hasWould } = summary(answers);
  const next = nextOf(reported) ?? explainWords(answers);
  const lost = reported.length === 0 ? '' : ` ${refusedWords(reported)}`;
  return {
    at: [from.name, to.name],
    value: refusals.length,
    tone:
      refusals.length > 0 ? 'bad' : hasWould || reported.length > 0 ? 'warn' : mark === '' ? 'none' : 'ok',
    mark: refusals.length > 0 ? `✕ ${refusals.length}` : mark,
    text: `${names}: ${words}${lost}`,
    ...(next && { next }),
  };
}

function answerOf(
  from: PicturedPod,
  to: PicturedPod,
  { selecting, namespaces, monitoringNodes }: AskedCluster,
  reported: readonly Refusal[],
): Answer | undefined {
  // No other policy applies to these two pods.
  const policies = [...new Set([...selecting(from), ...selecting(to)])];
  // Only these two pods are needed to look up names.
  const pods = objectKey(from) === objectKey(to) ? [from] : [from, to];
  const ask = ({ protocol, port }: Port): Judgement =>
    judge(
      policies,
      pods,
      namespaces,
      { from: objectKey(from), to: objectKey(to), protocol, port },
      { monitoringNodes },
    );
  const ports = portsOf(from, to, policies, reported);
  try {
    const others = ask(ports.at(-1) ?? { protocol: 'TCP', port: 1 });
    const isOpen = others.ingress.verdict === 'not isolated' && others.egress.verdict === 'not isolated';
    return {
      ...{ from, to, isOpen },
      ports: isOpen ? [] : ports.map((port) => [port, verdictOf(ask(port))] as const),
    };
  } catch (error) {
    // The two pods have no address family in common.
    if (error instanceof RampartError) return undefined;
    throw error;
  }
}

function verdictOf({ allowed, ingress, egress }: Judgement): Verdict {
  if (!allowed) return 'refused';
  return ingress.verdict === 'would-refuse' || egress.verdict === 'would-refuse' ? 'would-refuse' : 'allowed';
}

/** The ports that containers, policies and refused packets name, and one more. */
function portsOf(
  from: PicturedPod,
  to: PicturedPod,
  policies: readonly PolicyObject[],
  reported: readonly Refusal[],
): Port[] {
  const found = new Map<string, Port>();
  const add = (protocol: string, port: unknown): void => {
    const isPort = typeof port === 'number' && Number.isInteger(port) && port > 0 && port < 65_536;
    if (withPorts.has(protocol) && isPort && found.size < MAX_PORTS)
      found.set(`${port}/${protocol}`, { protocol, port });
  };
  for (const { protocol, destination } of reported) add(protocol, destination.port);
  for (const { ports } of to.spec?.containers ?? [])
    for (const { protocol, containerPort } of ports ?? []) add(protocol ?? 'TCP', containerPort);
  for (const policy of policies) {
    const { namespace } = policy.metadata;
    const rules = [
      ...(namespace === to.metadata.namespace ? rulesOf(policy, 'ingress') : []),
      ...(namespace === from.metadata.namespace ? rulesOf(policy, 'egress') : []),
    ];
    for (const { ports } of rules) for (const { protocol, port } of ports) add(protocol ?? 'TCP', port);
  }
  const unnamed = [9, 7, 13, 17, 19, 37, 1, 2, 3].find((port) => !found.has(`${port}/TCP`)) ?? 9;
  return [...found.values(), { protocol: 'TCP', port: unnamed }];
}

function summary(answers: readonly Answer[]): {
  readonly mark: string;
  readonly words: string;
  readonly hasWould: boolean;
} {
  const hasWould = answers.some(({ ports }) => ports.some(([, verdict]) => verdict === 'would-refuse'));
  const reported = answers.map(({ isOpen, ports }) => {
    if (isOpen) return 'all';
    const open = ports.filter(([, verdict]) => verdict !== 'refused');
    if (open.length === ports.length) return 'all';
    // Ports that no policy names are open, but a named port is closed.
    if (ports.at(-1)?.[1] !== 'refused') return 'most';
    return open.map(([port]) => nameOfPort(port)).join(', ');
  });
  const [one = ''] = reported;
  if (reported.some((words) => words !== one))
    return { mark: 'some', words: 'some pods may, others may not, or not on all ports.', hasWould };
  const would = hasWould ? ' Some of it only because of monitor mode.' : '';
  if (one === 'all') {
    const isOpen = answers.every((answer) => answer.isOpen);
    const why = isOpen ? ': no policy isolates either' : '';
    return { mark: 'all', words: `everything is allowed${why}.${would}`, hasWould };
  }
  if (one === '') return { mark: '', words: 'nothing is allowed.', hasWould };
  if (one === 'most') return { mark: 'most', words: `some ports are not allowed.${would}`, hasWould };
  const ports = one.split(', ');
  const mark = ports.length === 1 ? one.replace('/TCP', '') : `${ports.length} ports`;
  return { mark, words: `${one} allowed, nothing else.${would}`, hasWould };
}

function nameOfPort({ protocol, port }: Port): string {
  return port === undefined ? protocol : `${port}/${protocol}`;
}

function refusedWords(reported: readonly Refusal[]): string {
  const ports = [...new Set(reported.map(portText))];
  const refused = reported.filter(({ verdict }) => verdict === 'refused').length;
  const would = reported.length - refused;
  return [
    refused > 0 && `${counted(refused, 'refused packet')} reported`,
    would > 0 && `${counted(would, 'packet')} reported that would have been refused`,
  ]
    .filter((words) => words !== false)
    .map((words) => `${words} (${someOf(ports, 3)}).`)
    .join(' ');
}

function nextOf(reported: readonly Refusal[]): string[] | undefined {
  const last = reported.findLast(({ verdict }) => verdict === 'refused') ?? reported.at(-1);
  if (last === undefined) return undefined;
  const end = ({ namespace, pod, address }: LineEnd): string =>
    pod === undefined ? address : `${namespace}/${pod}`;
  const { source, destination } = last;
  return ['network', 'explain', '--from', end(source), '--to', end(destination), '--port', portText(last)];
}

/** The arguments of `rampart network explain` for a pair, preferably one that is not allowed everything. */
function explainWords(answers: readonly Answer[]): string[] | undefined {
  const isClosed = ({ ports }: Answer): boolean => ports.some(([, verdict]) => verdict !== 'allowed');
  const answer = answers.find(isClosed) ?? answers[0];
  if (answer === undefined) return undefined;
  const { from, to, ports } = answer;
  const [port] = ports.find(([, verdict]) => verdict === 'allowed') ?? ports[0] ?? [];
  const { containerPort = 80, protocol } =
    to.spec?.containers?.flatMap(({ ports: own }) => own ?? [])[0] ?? {};
  const asked = port ?? { protocol: protocol ?? 'TCP', port: containerPort };
  return [
    ...['network', 'explain', '--from', objectKey(from), '--to', objectKey(to)],
    ...['--port', nameOfPort(asked)],
  ];
}

/** For addresses that belong to no pod: what these may reach is not evaluated. */
function outsideItem(from: string, to: string, reported: readonly Refusal[]): PictureItem {
  const refused = reported.filter(({ verdict }) => verdict === 'refused').length;
  const next = nextOf(reported);
  return {
    at: [from, to],
    value: refused,
    tone: refused > 0 ? 'bad' : 'warn',
    mark: `✕ ${reported.length}`,
    text: `${from} to ${to}: ${refusedWords(reported)}`,
    ...(next && { next }),
  };
}
