/**
 * The per-node objects of a parent on one node: one for each place where one of its programs is attached. Pure: the facts about the node
 * are parameters.
 */
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import type { Member } from './member.ts';
import { annotations, distinctIds, kindAnnotation, labels, nodeFinalizer, nodeObjectName } from './names.ts';
import type { NodeView } from './node-view.ts';
import type { Parent } from './parent.ts';
import { type Goal, type PlaceName, placesOf } from './places.ts';

/** One per-node object, and what the kernel should run for it. */
export interface Wanted {
  /** Equals {@link DesiredProgram.id}: `name`, or `namespace/name`. */
  readonly id: string;
  readonly name: string;
  readonly parent: Parent;
  readonly member: Member;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizer: string;
  readonly specType: string;
  readonly attachPoint: string;
  /** `NAMESPACE/NAME` of the pod in which it is attached. `container` is set as well, unless the pod's containers share the hook. */
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
  readonly goal: Goal;
}

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
 * In v0.6, a pod's network has one link regardless of its containers, equal links of one program are one link, and a program without a link
 * on this node is loaded but not attached.
 */
function linksOf(all: readonly Wanted[]): Wanted[] {
  const links = new Set<string>();
  const distinct = distinctIds();
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
    // Links that differ only in their priority, for example, would have the same id.
    const own = distinct(id);
    return own === id ? [one] : [{ ...one, id: own, name: name + own.slice(id.length) }];
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

/** The kind whose annotations the per-node objects of an application have: that of the program as a single object. */
function controllerKind({ kind }: Parent, { type }: Member): string {
  return `${singleKinds[type]}${kind.scope === 'Namespaced' ? 'Ns' : ''}Program`;
}
