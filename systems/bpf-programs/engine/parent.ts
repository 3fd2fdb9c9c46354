/**
 * What users write, of whichever kind: the programs in it, each with its type.
 *
 * @module
 */
import { isDeleting } from '../../../shared/kube/finalizers.ts';
import {
  memberTypes,
  type ParentKind,
  type ParentObject,
  type ProgramType,
  type TypedProgram,
} from '../api.ts';
import type { ProgramSpec } from '../spec-schema.ts';
import { type GlobalData, readGlobalData } from './global-data.ts';
import { labelValue, sanitized } from './names.ts';

/** One program of a parent. */
export type Member = TypedProgram & {
  /** Label of its objects of the nodes: '' unless it is of an application. */
  readonly appProgramId: string;
  /** `spec`, `spec.programs[2].xdp`: for messages. */
  readonly field: string;
};

export interface Parent {
  readonly kind: ParentKind;
  /** `XdpNsProgram/web/count`: unique on a node, and for people. */
  readonly key: string;
  readonly object: ParentObject;
  readonly name: string;
  /** Undefined: cluster-scoped. */
  readonly namespace: string | undefined;
  readonly uid: string;
  readonly deleting: boolean;
  readonly globals: GlobalData;
  readonly members: readonly Member[];
}

export function parentOf(kind: ParentKind, object: ParentObject): Parent {
  const { name = '', namespace, uid = '' } = object.metadata;
  const isNamespaced = kind.scope === 'Namespaced';
  return {
    kind,
    key: [kind.kind, ...(isNamespaced ? [namespace ?? ''] : []), name].join('/'),
    object,
    name,
    namespace: isNamespaced ? (namespace ?? '') : undefined,
    uid,
    deleting: isDeleting(object),
    globals: readGlobalData(object.spec.globaldata),
    members: kind.single === undefined ? membersOf(object) : [single(kind.single, object)],
  };
}

function single(type: ProgramType, { spec }: ParentObject): Member {
  return { ...typed(type, spec as unknown as ProgramSpec), appProgramId: '', field: 'spec' };
}

function membersOf({ spec }: ParentObject): Member[] {
  const programs = (spec['programs'] ?? []) as readonly Readonly<Record<string, unknown>>[];
  const seen = new Map<string, number>();
  return programs.flatMap((program, index) => {
    const type = memberTypes.get(String(program['type']));
    const written = type === undefined ? undefined : program[type];
    // The schema refuses both; an object that was stored before it did has nothing to run.
    if (type === undefined || written === undefined) return [];
    const member = typed(type, written as ProgramSpec);
    const id = appProgramId(member);
    // bpfman gives two programs of one type and function the same id, and loses one.
    const count = (seen.get(id) ?? 0) + 1;
    seen.set(id, count);
    return [
      {
        ...member,
        appProgramId: labelValue(count === 1 ? id : `${id}-${count}`),
        field: `spec.programs[${index}].${type}`,
      },
    ];
  });
}

/** A probe of returns may be written as its own type, and as a probe with `retprobe`. */
function typed(type: ProgramType, spec: ProgramSpec): TypedProgram {
  const { retprobe = false } = spec as { readonly retprobe?: boolean };
  const of = type === 'kprobe' && retprobe ? 'kretprobe' : type === 'uprobe' && retprobe ? 'uretprobe' : type;
  return { type: of, spec } as unknown as TypedProgram;
}

function appProgramId({ type, spec }: TypedProgram): string {
  let part = '';
  if (type === 'tc' || type === 'tcx') part = spec.direction;
  else if (type !== 'xdp' && type !== 'tracepoint') part = sanitized(spec.func_name ?? '');
  return [type, ...(part === '' ? [] : [part]), spec.bpffunctionname].join('-');
}
