/**
 * The objects that a parent has on one node: one for each place where one of its programs is attached. Pure: what it needs to know about
 * the node is given.
 */
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { SelectorError } from '../../../lib/kube/selectors/selectors.ts';
import { type ContainerSelector, tcActions, type TcSpec, type XdpSpec } from '../spec-schema.ts';
import type { Attach, ContainerPlace, InterfaceHook } from '../kernel/desired.ts';
import { annotations, kindAnnotation, labels, nodeFinalizer, nodeObjectName, sanitized } from './names.ts';
import { type DiscoveredNetwork, type InterfaceFilter, interfaceFilter } from './interface-discovery.ts';
import type { AnyInterfaceSelector, Member } from './member.ts';
import type { Parent } from './parent.ts';

/** A container that a selector has selected. */
export interface SelectedContainer {
  readonly namespace: string;
  readonly podName: string;
  readonly name: string;
  readonly place: ContainerPlace;
  /** Inode of its network namespace; undefined if it cannot be determined: then `problem` says why. */
  readonly network: bigint | undefined;
  /** It is in the network namespace of the node itself. */
  readonly hostNetwork: boolean;
  readonly problem?: string;
}

export interface PrimaryInterface {
  readonly name: string;
  /** A phrase for people: `eth0 is the primary interface: it has 10.0.0.5, an InternalIP of the Node`. */
  readonly why: string;
}

/** What is known of the node. */
export interface NodeView {
  readonly name: string;
  readonly primaryInterface: () => PrimaryInterface | undefined;
  /** The node's own network namespace first, and those that have a name. */
  readonly networks: () => readonly DiscoveredNetwork[];
  /** Of the container's network namespace; empty if that is gone. */
  readonly interfacesIn: (container: ContainerPlace) => readonly string[];
  /** In an order that is stable while they run. @throws {SelectorError} */
  readonly select: (parent: Parent, selector: ContainerSelector) => readonly SelectedContainer[];
}

/** One per-node object, and what the kernel should run for it. */
export interface Wanted {
  /** As {@link DesiredProgram.id}: `name`, or `namespace/name`. */
  readonly id: string;
  readonly name: string;
  readonly parent: Parent;
  readonly member: Member;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizer: string;
  readonly specType: string;
  readonly attachPoint: string;
  /** `NAMESPACE/NAME` of the pod that it is attached in; and the container, unless all of the pod share the hook. */
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
  readonly goal: Goal;
}

export type Goal =
  | { readonly attach: Attach; readonly note?: string }
  /** Attached once for the pod, by the object with this id. */
  | { readonly sameAs: string }
  | { readonly noContainers: string }
  /** `keeps`: where it belongs is unknown for now, which is no reason to remove it from where it is. */
  | { readonly problem: string; readonly keeps?: boolean };

/** One place, before it is an object. */
interface Place {
  readonly attachPoint: string;
  /** Distinguishes places with the same attach point: pods of two namespaces may have the same name. */
  readonly apart?: string;
  /** Without the prefix of the kind. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly pod?: string;
  readonly container?: string;
  readonly goal: (idOf: (place: PlaceName) => string) => Goal;
}

type PlaceName = Pick<Place, 'apart' | 'attachPoint'>;

export function wantedOf(parent: Parent, node: NodeView): Wanted[] {
  const all = parent.members.flatMap((member) => wantedOfMember(parent, member, node));
  return parent.kind.api === 'v0.6' ? linksOf(all) : all;
}

function wantedOfMember(parent: Parent, member: Member, node: NodeView): Wanted[] {
  const idOf = (place: PlaceName): string => idIn(parent, nameOf(parent, member, node, place));
  const { kind, controller, single } = parent.kind;
  return placesOf(parent, member, node).map((place): Wanted => {
    const name = nameOf(parent, member, node, place);
    return {
      id: idIn(parent, name),
      name,
      parent,
      member,
      labels: {
        [labels.ownedByProgram]: labelValue(parent.name),
        [labels.appProgramId]: member.appProgramId,
        [labels.hostname]: labelValue(node.name),
      },
      annotations: {
        [annotations.attachPoint]: place.attachPoint,
        ...Object.fromEntries(
          Object.entries(place.annotations).map(([key, value]) => [
            kindAnnotation(single === undefined ? controllerKind(parent, member) : kind, key),
            value,
          ]),
        ),
      },
      finalizer: nodeFinalizer(controller),
      specType: single ?? 'application',
      attachPoint: place.attachPoint,
      pod: place.pod,
      container: place.container,
      goal: place.goal(idOf),
    };
  });
}

/**
 * In v0.6, a pod's network has one link whatever its containers, links of one program that are equal are one, and a program without a link on
 * this node is loaded for itself.
 */
function linksOf(all: readonly Wanted[]): Wanted[] {
  const links = new Set<string>();
  const counts = new Map<string, number>();
  const kept = all.flatMap((one): Wanted[] => {
    const { goal, member, id, name } = one;
    if ('sameAs' in goal) return [];
    if ('attach' in goal) {
      const link = JSON.stringify([member.appProgramId, goal.attach], (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      if (links.has(link)) return [];
      links.add(link);
    }
    // Two at one place, with other priorities.
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    return count === 1 ? [one] : [{ ...one, id: `${id}-${count}`, name: `${name}-${count}` }];
  });
  const linked = new Set(
    kept.flatMap(({ goal, member }) =>
      'attach' in goal && member.unlinked === undefined ? [member.program] : [],
    ),
  );
  return kept.filter(({ member }) => member.unlinked === undefined || !linked.has(member.program));
}

function idIn({ namespace }: Parent, name: string): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

function nameOf(parent: Parent, { type, appProgramId }: Member, node: NodeView, place: PlaceName): string {
  const begin = parent.kind.single === undefined ? `${parent.name}-${type}` : parent.name;
  const { kind } = parent.kind;
  const { attachPoint, apart = '' } = place;
  return nodeObjectName(begin, [
    ...[kind, parent.namespace ?? '', parent.uid, node.name],
    ...[appProgramId, attachPoint, apart],
  ]);
}

const singleKinds = {
  xdp: 'Xdp',
  tc: 'Tc',
  tcx: 'Tcx',
  kprobe: 'Kprobe',
  kretprobe: 'Kprobe',
  uprobe: 'Uprobe',
  uretprobe: 'Uprobe',
  tracepoint: 'Tracepoint',
  fentry: 'Fentry',
  fexit: 'Fexit',
} as const;

/** An application's objects have the annotations of the kind that the program would have on its own. */
function controllerKind({ kind }: Parent, { type }: Member): string {
  return `${singleKinds[type]}${kind.scope === 'Namespaced' ? 'Ns' : ''}Program`;
}

function placesOf(parent: Parent, member: Member, node: NodeView): Place[] {
  const { spec, type, unlinked } = member;
  if (unlinked !== undefined) {
    const attach: Attach = { type: 'nowhere', ...unlinked };
    return [{ attachPoint: '', annotations: {}, goal: () => ({ attach }) }];
  }
  switch (type) {
    case 'xdp':
      return interfacePlaces(parent, member, spec, node, '', (hook) => ({
        type,
        hook,
        order: { priority: spec.priority, proceedOn: xdpMask(spec.proceedon) },
      }));
    case 'tc':
      return interfacePlaces(parent, member, spec, node, spec.direction, (hook) => ({
        type,
        hook,
        direction: spec.direction,
        order: { priority: spec.priority, proceedOn: tcMask(spec.proceedon) },
      }));
    case 'tcx':
      return interfacePlaces(parent, member, spec, node, spec.direction, (hook) => ({
        type,
        hook,
        direction: spec.direction,
        priority: spec.priority,
      }));
    case 'kprobe':
    case 'kretprobe':
      return [
        functionPlace(spec.func_name, { type, functionName: spec.func_name, offset: BigInt(spec.offset) }),
      ];
    case 'fentry':
    case 'fexit':
      return [functionPlace(spec.func_name, { type, functionName: spec.func_name })];
    case 'tracepoint':
      return [...new Set(spec.names)].map((tracepoint) => ({
        attachPoint: sanitized(tracepoint),
        apart: tracepoint,
        annotations: { tracepoint },
        goal: () => ({ attach: { type, tracepoint } }),
      }));
    case 'uprobe':
    case 'uretprobe': {
      const attachPoint = [sanitized(spec.target), sanitized(spec.func_name ?? '')]
        .filter((part) => part !== '')
        .join('-');
      const attach = (container: ContainerPlace | undefined): Attach => ({
        type,
        functionName: spec.func_name,
        offset: BigInt(spec.offset),
        target: spec.target,
        pid: spec.pid === 0 ? undefined : spec.pid,
        container,
      });
      const known = { target: spec.target };
      if (!needsContainers(parent, spec)) {
        return [{ attachPoint, annotations: known, goal: () => ({ attach: attach(undefined) }) }];
      }
      const selected = selectedBy(parent, member, spec, node);
      if (!('containers' in selected)) return [noContainers(attachPoint, known, selected.goal)];
      return selected.containers.map((one) => ({
        ...inContainer(attachPoint, known, one),
        container: one.name,
        goal: () => ({ attach: attach(one.place) }),
      }));
    }
  }
}

function functionPlace(name: string, attach: Attach): Place {
  return { attachPoint: sanitized(name), annotations: { function: name }, goal: () => ({ attach }) };
}

interface InterfaceSpec {
  readonly interfaceselector: AnyInterfaceSelector;
  readonly containers?: ContainerSelector;
}

function interfacePlaces(
  parent: Parent,
  member: Member,
  spec: InterfaceSpec,
  node: NodeView,
  direction: string,
  attachTo: (hook: InterfaceHook) => Attach,
): Place[] {
  const found = interfacesOf(spec.interfaceselector, node);
  const goalTo = (hook: InterfaceHook): Goal => ({
    attach: attachTo(hook),
    ...(typeof found !== 'string' && found.note !== undefined && { note: found.note }),
  });
  const point = (name: string): string => (direction === '' ? name : `${name}-${direction}`);
  if (typeof found === 'string') {
    const problem = `${found === 'no-primary' ? member.fields.primaryNodeInterface : member.fields.interfaceSelector}: ${found === 'no-primary' ? noPrimary : `${found}.`}`;
    return [
      { attachPoint: point('primarynodeinterface'), annotations: {}, goal: () => ({ problem, keeps: true }) },
    ];
  }
  if (!needsContainers(parent, spec)) {
    return found.onNode.map(({ name, ...network }) => ({
      attachPoint: point(name),
      ...(network.namespacePath !== undefined && { apart: network.namespacePath }),
      annotations: { interface: name },
      goal: () => goalTo({ interface: name, container: undefined, ...network }),
    }));
  }
  const selected = selectedBy(parent, member, spec, node);
  if (!('containers' in selected)) {
    return found.names.map((name) => noContainers(point(name), { interface: name }, selected.goal));
  }
  // The containers of a pod share one network: the program is attached there once, for the first of them.
  const firsts = new Map<string, PlaceName>();
  const isPerPod = parent.kind.api === 'v0.6';
  return selected.containers.flatMap((one) =>
    found.inContainer(one.place).map((name): Place => {
      const place = inContainer(point(name), { interface: name }, one, isPerPod);
      const { network } = one;
      const refusal = hostRefusal(parent, one);
      if (refusal !== undefined || network === undefined) {
        const keeps = refusal === undefined && one.problem !== undefined;
        return {
          ...place,
          goal: () => ({ problem: refusal ?? one.problem ?? 'The container is gone.', keeps }),
        };
      }
      const first = firsts.get(`${network} ${name}`);
      if (first !== undefined) return { ...place, goal: (idOf) => ({ sameAs: idOf(first) }) };
      firsts.set(`${network} ${name}`, place);
      return { ...place, goal: () => goalTo({ interface: name, container: one.place }) };
    }),
  );
}

const noPrimary =
  'no interface has an InternalIP of the Node, and there is no default route, so there is no primary interface. Retrying. To name one, use interfaces.';

/** A namespaced program may see only its pods; the node's interfaces carry everybody's packets. */
function hostRefusal(
  { kind }: Parent,
  { hostNetwork, namespace, podName }: SelectedContainer,
): string | undefined {
  if (kind.scope === 'Cluster' || !hostNetwork) return undefined;
  return `Pod ${namespace}/${podName} uses the node's network, to which namespaced programs must not be attached. Select other pods, or use ${kind.api === 'v0.6' ? `Cluster${kind.kind}` : kind.kind.replace('Ns', '')}.`;
}

interface FoundInterfaces {
  /** For programs that are not in containers. */
  readonly onNode: readonly { readonly name: string; readonly namespacePath?: string }[];
  readonly inContainer: (container: ContainerPlace) => readonly string[];
  /** For what is said where there is no container. */
  readonly names: readonly string[];
  readonly note?: string;
}

/** `no-primary`: the primary interface is requested, and there is none; another text: what is wrong with the selector. */
function interfacesOf(
  { interfaces, discovery }: AnyInterfaceSelector,
  node: NodeView,
): FoundInterfaces | string {
  if (discovery === undefined) {
    const primary = interfaces === undefined ? node.primaryInterface() : undefined;
    const names = interfaces === undefined ? primary && [primary.name] : [...new Set(interfaces)];
    if (names === undefined) return 'no-primary';
    const onNode = names.map((name) => ({ name }));
    return { onNode, inContainer: () => names, names, ...(primary && { note: primary.why }) };
  }
  const filter: InterfaceFilter | string = interfaceFilter(discovery);
  if (typeof filter === 'string') return filter;
  return {
    onNode: node
      .networks()
      .flatMap(({ path, interfaces: all }) =>
        all.filter(filter).map((name) => ({ name, ...(path !== undefined && { namespacePath: path }) })),
      ),
    inContainer: (container) => node.interfacesIn(container).filter(filter),
    names: ['discovered'],
  };
}

/** Whether one of its programs is attached in containers. */
export function selectsContainers(parent: Parent): boolean {
  return parent.members.some(
    ({ spec, unlinked }) => unlinked === undefined && 'containers' in spec && needsContainers(parent, spec),
  );
}

/** A namespaced program is never attached on the node itself, whatever its object says. */
function needsContainers(
  { kind }: Parent,
  { containers }: { readonly containers?: ContainerSelector },
): boolean {
  return kind.scope === 'Namespaced' || containers !== undefined;
}

function selectedBy(
  parent: Parent,
  { fields }: Member,
  { containers }: { readonly containers?: ContainerSelector },
  node: NodeView,
): { readonly containers: readonly SelectedContainer[] } | { readonly goal: Goal } {
  if (containers === undefined) {
    return { goal: { problem: `${fields.containers} is required in ${parent.kind.kind}.` } };
  }
  let selected: readonly SelectedContainer[];
  try {
    selected = node.select(parent, containers);
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return { goal: { problem: `${fields.containers}.pods: ${error.message}.`, keeps: true } };
  }
  if (selected.length > 0) return { containers: selected };
  const where = parent.namespace ?? containers.namespace ?? '';
  const of = where === '' ? 'of any namespace' : `of namespace ${where}`;
  const named = containers.containernames ?? [];
  const which = named.length === 0 ? 'container' : `container named ${named.join(' or ')}`;
  return {
    goal: {
      noContainers: `${fields.containers} selects no ${which} on ${node.name} in a pod ${of}. The program is attached as soon as there is one.`,
    },
  };
}

function inContainer(
  attachPoint: string,
  known: Readonly<Record<string, string>>,
  { namespace, podName, name, place }: SelectedContainer,
  isPerPod = false,
): Pick<Place, 'annotations' | 'apart' | 'attachPoint' | 'pod'> {
  return {
    attachPoint: `${attachPoint}-${podName}${isPerPod ? '' : `-${name}`}`,
    apart: namespace,
    pod: `${namespace}/${podName}`,
    annotations: { ...known, containerpid: String(place.pid) },
  };
}

function noContainers(attachPoint: string, known: Readonly<Record<string, string>>, goal: Goal): Place {
  return {
    attachPoint: `${attachPoint}-no-containers-on-node`,
    annotations: { ...known, nocontainersonnode: 'true' },
    goal: () => goal,
  };
}

/** `XDP_ABORTED` to `XDP_REDIRECT` (include/uapi/linux/bpf.h); `dispatcher_return` is libxdp's, bit 31. */
const xdpBits = { aborted: 0, drop: 1, pass: 2, tx: 3, redirect: 4, dispatcher_return: 31 } as const;

/** Bit 1 << action for each. */
export function xdpMask(actions: XdpSpec['proceedon']): number {
  return maskOf(actions.map((action) => xdpBits[action]));
}

/** Bit 1 << (action + 1) for each: `TC_ACT_UNSPEC` is -1. */
export function tcMask(actions: TcSpec['proceedon']): number {
  return maskOf(actions.map((action) => (action === 'dispatcher_return' ? 31 : tcActions.indexOf(action))));
}

function maskOf(bits: readonly number[]): number {
  // JavaScript's bit operators return a negative number if bit 31 is set.
  return bits.reduce((mask, bit) => mask | (1 << bit), 0) >>> 0;
}
