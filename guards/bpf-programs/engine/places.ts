/** The places on a node where one program of a parent is attached, or the reason if it has no place. */
import { SelectorError } from '../../../lib/kube/selectors/selectors.ts';
import type { ContainerSelector } from '../spec-schema.ts';
import type { Attach, ContainerPlace, InterfaceHook } from '../kernel/desired.ts';
import { type InterfaceFilter, interfaceFilter } from './interface-discovery.ts';
import type { AnyInterfaceSelector, Member } from './member.ts';
import { sanitized } from './names.ts';
import type { NodeView, SelectedContainer } from './node-view.ts';
import type { Parent } from './parent.ts';
import { tcMask, xdpMask } from './proceed-on.ts';

/** What is desired for one place, or why nothing can be attached there. */
export type Goal =
  | { readonly attach: Attach; readonly note?: string }
  /** Nothing to do: the object with this id attaches the program for the whole pod. */
  | { readonly sameAs: string }
  | { readonly noContainers: string }
  /** `keeps`: the places are currently unknown, so the program stays where it is. */
  | { readonly problem: string; readonly keeps?: boolean };

/** A place where a program has to be attached; there may be no API object for it yet. */
export interface Place {
  readonly attachPoint: string;
  /** Distinguishes places with the same attach point: pods in two namespaces may have the same name. */
  readonly apart?: string;
  /** Annotations of its per-node object, with names that lack the prefix of the kind. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly pod?: string;
  readonly container?: string;
  readonly goal: (idOf: (place: PlaceName) => string) => Goal;
}

/** Distinguishes the places of one program. */
export type PlaceName = Pick<Place, 'apart' | 'attachPoint'>;

/** Where a program is attached on a node. */
export function placesOf(parent: Parent, member: Member, node: NodeView): Place[] {
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

/** Why a namespaced program may not be attached there: it may see only its pods, and the node's interfaces carry everyone's packets. */
function hostRefusal(
  { kind }: Parent,
  { hostNetwork, namespace, podName }: SelectedContainer,
): string | undefined {
  if (kind.scope === 'Cluster' || !hostNetwork) return undefined;
  return `Pod ${namespace}/${podName} uses the node's network, to which namespaced programs must not be attached. Select other pods, or use ${kind.api === 'v0.6' ? `Cluster${kind.kind}` : kind.kind.replace('Ns', '')}.`;
}

interface FoundInterfaces {
  /** Interfaces for programs that are not attached in containers. */
  readonly onNode: readonly { readonly name: string; readonly namespacePath?: string }[];
  readonly inContainer: (container: ContainerPlace) => readonly string[];
  /** Names of interfaces, for the message if there are no containers. */
  readonly names: readonly string[];
  readonly note?: string;
}

/** A text as result: `no-primary` if the primary interface is requested and the node has none; otherwise the error in the selector. */
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

/** Whether any of its programs is attached in containers. */
export function selectsContainers(parent: Parent): boolean {
  return parent.members.some(
    ({ spec, unlinked }) => unlinked === undefined && 'containers' in spec && needsContainers(parent, spec),
  );
}

/**
 * Whether a program may only be attached in containers: a namespaced one is never attached on the node itself, whatever its object says.
 */
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
