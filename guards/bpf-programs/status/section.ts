/** This guard's section of `rampart status`. */
import type { GuardedObject, Need, OwnProblem } from '../../../guard/guarded.ts';
import { problemTexts } from '../../../guard/problem-text.ts';
import type { NodeView, SectionReport, StatusContext, StatusSection } from '../../../guard/status-section.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { changedAtMs } from '../../../lib/kube/object/changed-at.ts';
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { labelSelectorOf, labelsMatch } from '../../../lib/kube/selectors/selectors.ts';
import { paint, renderTable, type Row } from '../../../lib/output/table.ts';
import {
  allNodeTypes,
  bpfApplicationOf,
  type NodeObject,
  type ParentKind,
  parentKinds,
  type ParentObject,
} from '../api.ts';
import { nodeSelection, type Parent } from '../engine/parent.ts';
import { nodeOf, unreachedIn } from '../engine/parent-condition.ts';
import { countsOf } from '../engine/state-counts.ts';

/** A user's object in `-o json`. */
export interface ProgramReport {
  readonly kind: string;
  /** `null`: cluster-scoped. */
  readonly namespace: string | null;
  readonly name: string;
  readonly guarded: boolean;
  /** The type of the condition that the operator has set; `null` before it has. */
  readonly condition: string | null;
  /** In v0.5, counts places where its programs run, and where they should but do not. In v0.6, counts links, and programs without links. */
  readonly loaded: number;
  readonly notLoaded: number;
}

/** A user's object with its per-node objects. */
export interface ProgramView {
  readonly kind: ParentKind;
  readonly parent: ParentObject;
  readonly objects: readonly NodeObject[];
}

/** Types of conditions that are no problem: the program runs, or is not meant to run there. */
const quiet = new Set(['Loaded', 'Success', 'NotSelected', 'NoContainersOnNode']);

export const bpfProgramsStatus: StatusSection = {
  async read(context) {
    const views = await readPrograms(context);
    return section(views, (await context.nodes()) ?? [], context.timeMs);
  },
};

/** Undefined if they may not be read. */
export async function readPrograms(
  context: Pick<StatusContext, 'list' | 'namespace' | 'orForbidden'>,
): Promise<ProgramView[] | undefined> {
  const { namespace } = context;
  const written: { readonly kind: ParentKind; readonly object: ParentObject }[] = [];
  const readable = await context.orForbidden('bpfman.io', async () => {
    for (const kind of parentKinds) {
      const { 'v0.5': old, 'v0.6': current } = bpfApplicationOf;
      if (kind === old) continue;
      // The API serves only one of the two: whether objects have a namespace shows which.
      const target = kind.type.namespaced && kind !== current ? { namespace } : {};
      await context.list(
        kind.type,
        (object) => {
          const { namespace: own } = object.metadata;
          if (own !== undefined && namespace !== undefined && own !== namespace) return;
          written.push({ kind: kind === current && own === undefined ? old : kind, object });
        },
        target,
      );
    }
    return true;
  });
  if (readable !== true) return undefined;
  const byOwner = new Map<string, NodeObject[]>();
  const add = (object: NodeObject): void => {
    const uid = object.metadata.ownerReferences?.find(({ controller }) => controller === true)?.uid ?? '';
    byOwner.set(uid, [...(byOwner.get(uid) ?? []), object]);
  };
  for (const type of allNodeTypes) {
    const target = type.namespaced ? { namespace } : {};
    await context.orForbidden(type.plural, () => context.list(type, add, target));
  }
  return written.map(({ kind, object }) => ({
    kind,
    parent: object,
    objects: byOwner.get(object.metadata.uid ?? '') ?? [],
  }));
}

/** The agents that the object needs: those on the nodes that it selects. A machine without a Node object counts as selected. */
function needsOf({ kind, parent, objects }: ProgramView, nodes: readonly NodeView[]): Need[] {
  const byNode = Map.groupBy(objects, nodeOf);
  const { nodeSelector, field } = nodeSelection(kind, parent);
  const names = nodes.length > 0 ? nodes.filter((node) => isSelected(nodeSelector, node)) : undefined;
  const labels = names?.map(({ name }) => name) ?? [...byNode.keys()];
  return labels.map((node) => ({
    process: 'agent',
    node,
    why: `${field} selects it`,
    seen: seenOf(byNode.get(labelValue(node)) ?? [], parent),
  }));
}

function isSelected(selector: Parent['nodeSelector'], { labels = {} }: NodeView): boolean {
  try {
    return labelsMatch(labelSelectorOf(selector), labels);
  } catch {
    // The agents report what is wrong with the selector.
    return true;
  }
}

/** The generation that the agent has reported on: the lowest among an application's programs. */
function seenOf(objects: readonly NodeObject[], { metadata }: ParentObject): number | undefined {
  if (objects.length === 0) return undefined;
  const seen = objects.map(({ status }) => {
    const [condition] = status?.conditions ?? [];
    return condition === undefined ? -1 : (condition.observedGeneration ?? metadata.generation ?? 0);
  });
  const min = Math.min(...seen);
  return min < 0 ? undefined : min;
}

function guardedObject(view: ProgramView, nodes: readonly NodeView[]): GuardedObject {
  const { kind, parent, objects } = view;
  const { namespace = null, name = '', generation = 0 } = parent.metadata;
  const needs = needsOf(view, nodes);
  const nameOf = new Map(
    needs.flatMap((need) => (need.process === 'agent' ? [[labelValue(need.node), need.node]] : [])),
  );
  const problems = objects.flatMap((object): OwnProblem[] => {
    const [condition] = object.status?.conditions ?? [];
    if (condition === undefined) return [];
    const node = nodeOf(object);
    if (isLoaded(object)) {
      return unreachedIn(condition.message).map((why) => ({
        ...{ kind: 'not-reached', by: 'agent', node: nameOf.get(node) ?? node, why },
        next: 'Change priorities or what the program before it returns: rampart bpf chain, on the node, shows both',
        sinceMs: Date.parse(condition.lastTransitionTime),
      }));
    }
    if (quiet.has(condition.type)) return [];
    // Its image is still being pulled, for example.
    const isPending = condition.type === 'None' || condition.type === 'Pending';
    return [
      {
        ...{ kind: isPending ? 'loading' : 'not-loaded', by: 'agent', node: nameOf.get(node) ?? node },
        why: `${isPending ? 'not loaded yet' : condition.type}: ${condition.message.replace(/\.$/, '')}`,
        next: `kubectl describe ${namespace === null ? '' : `-n ${namespace} `}${kind.nodeType.kind.toLowerCase()} ${object.metadata.name}`,
        sinceMs: Date.parse(condition.lastTransitionTime),
      },
    ];
  });
  if (needs.length === 0) {
    const { field } = nodeSelection(kind, parent);
    const next = `Compare ${field} with the labels of the nodes`;
    problems.push({ kind: 'no-node', field, why: 'it selects no node', next });
  } else if (problems.length === 0 && objects.length > 0 && !objects.some(isLoaded)) {
    const [condition] = objects[0]?.status?.conditions ?? [];
    if (condition !== undefined) {
      const why = `it runs nowhere: ${condition.message.replace(/\.$/, '')}`;
      problems.push({ kind: 'nothing-to-attach-to', why, next: 'Compare its selectors with the pods' });
    }
  }
  return {
    ...{ kind: kind.kind, namespace, name, revision: generation, changedMs: changedAtMs(parent) },
    needs,
    problems,
  };
}

function isLoaded({ status }: NodeObject): boolean {
  const { type } = status?.conditions?.[0] ?? {};
  return type === 'Loaded' || type === 'Success';
}

function countOf({ kind: { api }, objects }: ProgramView): Pick<ProgramReport, 'loaded' | 'notLoaded'> {
  if (api === 'v0.5') {
    const isMissing = ({ status }: NodeObject): boolean =>
      !quiet.has(status?.conditions?.[0]?.type ?? 'None');
    return { loaded: objects.filter(isLoaded).length, notLoaded: objects.filter(isMissing).length };
  }
  const counts = objects.map(countsOf);
  const sum = (of: (count: (typeof counts)[number]) => number): number =>
    counts.reduce((total, count) => total + of(count), 0);
  return {
    loaded: sum(({ attached, unlinked }) => attached + unlinked),
    notLoaded: sum(({ notAttached, notLoaded }) => notAttached + notLoaded),
  };
}

export function section(
  all: readonly ProgramView[] | undefined,
  nodes: readonly NodeView[],
  timeMs: number,
): SectionReport {
  const programs = (all ?? []).map((view) => {
    const { kind, parent } = view;
    const { namespace = null, name = '' } = parent.metadata;
    return {
      object: guardedObject(view, nodes),
      isDeleting: isDeleting(parent),
      report: {
        ...{ kind: kind.kind, namespace, name },
        condition: parent.status?.conditions?.[0]?.type ?? null,
        ...countOf(view),
      },
    };
  });
  const asked = programs.filter((one) => !one.isDeleting);
  return {
    objects: all && asked.map(({ object }) => object),
    fields: (verdict) => ({
      bpfPrograms:
        all === undefined
          ? null
          : programs.map(({ report }): ProgramReport => ({
              ...report,
              guarded: verdict.of(report).length === 0,
            })),
    }),
    headline({ failing }, { colour }) {
      const count = asked.length;
      if (count === 0) return '';
      if (failing === 0) {
        const one = 'The eBPF program runs on every node it selects.';
        const text = count === 1 ? one : `All ${count} eBPF programs run on every node they select.`;
        return paint('green', text, colour);
      }
      const text =
        failing === 1
          ? 'is not running on every node it selects'
          : 'are not running on every node they select';
      return paint('red', `${failing} of ${count} eBPF programs ${text}.`, colour);
    },
    table(verdict, options) {
      if (programs.length === 0) return '';
      const rows = programs.map(({ report, isDeleting: deleting }): Row => {
        const problems = verdict.of(report);
        const running: Row['cells'][number] = deleting
          ? { text: 'deleting', style: 'yellow' }
          : problems.length > 0
            ? { text: 'no', style: 'red' }
            : { text: 'yes', style: 'green' };
        const { kind, namespace, name, loaded, notLoaded } = report;
        const path = `${kind}/${namespace === null ? '' : `${namespace}/`}${name}`;
        return {
          cells: [path, String(loaded), String(notLoaded), running],
          note: problemTexts(problems, timeMs).join('\n'),
        };
      });
      return renderTable(rows, { head: ['PROGRAM', 'LOADED', 'NOT LOADED', 'RUNNING'], ...options });
    },
    foot: [],
  };
}
