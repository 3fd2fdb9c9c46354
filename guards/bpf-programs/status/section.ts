/** This guard's section of `rampart status`. */
import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { paint, renderTable, type Row } from '../../../lib/output/table.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type NodeObject, type ParentObject, nodeTypes, parentKinds } from '../api.ts';
import { nodeOf } from '../engine/parent-condition.ts';

/** A user's object, as in `--format json`. */
export interface ProgramReport {
  readonly kind: string;
  /** `null`: cluster-scoped. */
  readonly namespace: string | null;
  readonly name: string;
  /** The type of its condition; `null` before the operator has evaluated it. */
  readonly condition: string | null;
  readonly message: string;
  /** Of its per-node objects: how many are Loaded, and those that should run but do not. */
  readonly loaded: number;
  readonly notLoaded: readonly {
    readonly node: string;
    readonly name: string;
    readonly condition: string;
    readonly message: string;
  }[];
}

/** Nothing is meant to run there. */
const quiet = new Set(['Loaded', 'NotSelected', 'NoContainersOnNode']);

export const bpfProgramsStatus: StatusSection = {
  async read(context) {
    const { namespace } = context;
    const written: { readonly kind: string; readonly object: ParentObject }[] = [];
    const readable = await context.orForbidden('bpfman.io', async () => {
      for (const { kind, type } of parentKinds) {
        const target = type.namespaced ? { namespace } : {};
        await context.list(type, (object) => void written.push({ kind, object }), target);
      }
      return true;
    });
    const byOwner = new Map<string, NodeObject[]>();
    const add = (object: NodeObject): void => {
      const uid = object.metadata.ownerReferences?.find(({ controller }) => controller === true)?.uid ?? '';
      byOwner.set(uid, [...(byOwner.get(uid) ?? []), object]);
    };
    if (readable === true) {
      await context.orForbidden('bpfprograms', () => context.list(nodeTypes.Cluster, add));
      await context.orForbidden('bpfnsprograms', () =>
        context.list(nodeTypes.Namespaced, add, { namespace }),
      );
    }
    if (readable !== true) return section(undefined);
    return section(
      written.map(({ kind, object }) => reportOf(kind, object, byOwner.get(object.metadata.uid ?? '') ?? [])),
    );
  },
};

function reportOf(
  kind: string,
  { metadata, status }: ParentObject,
  objects: readonly NodeObject[],
): ProgramReport {
  const [condition] = status?.conditions ?? [];
  const states = objects.map((object) => ({ object, is: object.status?.conditions?.[0] }));
  return {
    kind,
    namespace: metadata.namespace ?? null,
    name: metadata.name ?? '',
    condition: condition?.type ?? null,
    message: condition?.message ?? '',
    loaded: states.filter(({ is }) => is?.type === 'Loaded').length,
    notLoaded: states
      .filter(({ is }) => !quiet.has(is?.type ?? 'None'))
      .map(({ object, is }) => ({
        node: nodeOf(object),
        name: object.metadata.name ?? '',
        condition: is?.type ?? 'None',
        message: is?.message ?? '',
      })),
  };
}

function section(all: readonly ProgramReport[] | undefined): SectionReport {
  const programs = all ?? [];
  const failing = programs.filter(({ condition }) => condition !== 'ReconcileSuccess').length;
  return {
    fields: { bpfPrograms: all ?? null },
    isAsked: programs.length > 0,
    guarded: failing === 0,
    headline({ colour }) {
      if (programs.length === 0) return '';
      if (failing === 0) {
        const one = 'The eBPF program runs everywhere as specified.';
        const text =
          programs.length === 1 ? one : `All ${programs.length} eBPF programs run everywhere as specified.`;
        return paint('green', text, colour);
      }
      return paint('red', `${failing} of ${programs.length} eBPF programs do not run everywhere.`, colour);
    },
    table(options) {
      if (programs.length === 0) return '';
      const rows = programs.map(({ kind, namespace, name, condition, message, loaded, notLoaded }): Row => ({
        cells: [
          `${kind}/${namespace === null ? '' : `${namespace}/`}${name}`,
          condition === 'ReconcileSuccess' ? condition : { text: condition ?? 'not evaluated', style: 'red' },
          String(loaded),
          String(notLoaded.length),
        ],
        note: condition === 'ReconcileSuccess' ? undefined : message.split('\n').map(printable).join('\n'),
      }));
      return renderTable(rows, { head: ['PROGRAM', 'CONDITION', 'LOADED', 'NOT LOADED'], ...options });
    },
    foot: [],
  };
}
