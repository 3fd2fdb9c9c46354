/** A user's object of any kind, as a list of programs with their types. */
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import {
  type Api,
  memberTypes,
  type ParentKind,
  type ParentObject,
  type ProgramType,
  type TypedProgram,
} from '../api.ts';
import type { ApplicationSpec } from '../application-schema.ts';
import type { Bytecode, CommonSpec, ProgramSpec } from '../spec-schema.ts';
import { bytecodeOf, membersOfApplication } from './application.ts';
import { type Member, programFields } from './member.ts';
import { distinctIds, sanitized } from './names.ts';

/** Names of the fields in its API, for messages. */
interface ParentFields {
  readonly nodeSelector: string;
  readonly bytecode: string;
  readonly globalData: string;
  readonly pullSecret: string;
}

export interface Parent {
  readonly kind: ParentKind;
  /** `XdpNsProgram/web/count`: unique on a node, and readable for users. */
  readonly key: string;
  readonly object: ParentObject;
  readonly name: string;
  /** Undefined for a cluster-scoped object. */
  readonly namespace: string | undefined;
  readonly uid: string;
  readonly deleting: boolean;
  readonly nodeSelector: CommonSpec['nodeselector'];
  readonly bytecode: Bytecode;
  readonly fields: ParentFields;
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
    nodeSelector: nodeSelection(kind, object).nodeSelector,
    fields: spellings[kind.api],
    ...programsOf(kind, object),
  };
}

const spellings: Readonly<Record<Api, ParentFields>> = {
  'v0.5': {
    nodeSelector: 'spec.nodeselector',
    bytecode: 'spec.bytecode',
    globalData: 'spec.globaldata',
    pullSecret: 'imagepullsecret',
  },
  'v0.6': {
    nodeSelector: 'spec.nodeSelector',
    bytecode: 'spec.byteCode',
    globalData: 'spec.globalData',
    pullSecret: 'imagePullSecret',
  },
};

/** The node selector of an object, and the name of its field. */
export function nodeSelection(
  { api }: ParentKind,
  { spec }: ParentObject,
): { readonly nodeSelector: Parent['nodeSelector']; readonly field: string } {
  const { nodeSelector } = api === 'v0.5' ? { nodeSelector: spec.nodeselector } : applicationSpec(spec);
  return { nodeSelector, field: spellings[api].nodeSelector };
}

function programsOf(
  { single: type, api }: ParentKind,
  object: ParentObject,
): Pick<Parent, 'bytecode' | 'globals' | 'members'> {
  const { globalData: field } = spellings[api];
  if (api === 'v0.6') {
    const spec = applicationSpec(object.spec);
    const globals = readGlobalData(spec.globalData, field);
    return { bytecode: bytecodeOf(spec.byteCode), globals, members: membersOfApplication(spec) };
  }
  const { bytecode, globaldata } = object.spec;
  const members = type === undefined ? membersOf(object) : [single(type, object)];
  return { bytecode, globals: readGlobalData(globaldata, field), members };
}

function applicationSpec(spec: ParentObject['spec']): ApplicationSpec {
  return spec as unknown as ApplicationSpec;
}

/** Where the bytecode comes from, according to the object. */
export function sourceOf({ bytecode: { path, image } }: Parent): string {
  return path ?? image?.url ?? '';
}

function single(type: ProgramType, { spec }: ParentObject): Member {
  const field = 'spec';
  return {
    ...typed(type, spec as unknown as ProgramSpec),
    ...{ appProgramId: '', field, fields: programFields(field) },
  };
}

function membersOf({ spec }: ParentObject): Member[] {
  const programs = (spec['programs'] ?? []) as readonly Readonly<Record<string, unknown>>[];
  const idOf = distinctIds();
  return programs.flatMap((program, index) => {
    const type = memberTypes.get(String(program['type']));
    const written = type === undefined ? undefined : program[type];
    // The schema rejects both; an object that was stored under an earlier schema has nothing to run.
    if (type === undefined || written === undefined) return [];
    const member = typed(type, written as ProgramSpec);
    const field = `spec.programs[${index}].${type}`;
    return [
      {
        ...member,
        appProgramId: labelValue(idOf(appProgramId(member))),
        ...{ field, fields: programFields(field) },
      },
    ];
  });
}

/** Handles both ways to write a return probe: as a type of its own, or as a probe with `retprobe`. */
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

/** Limit of a variable's size: the kernel accepts no program with a larger one. */
const MAX_BYTES = 1 << 20;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export type GlobalData =
  | { readonly values: Readonly<Record<string, Uint8Array>> }
  /** A complete sentence that names the field. */
  | { readonly problem: string };

export function readGlobalData(
  written: Readonly<Record<string, unknown>> = {},
  field = 'spec.globaldata',
): GlobalData {
  const values: Record<string, Uint8Array> = {};
  for (const [name, value] of Object.entries(written)) {
    const bytes = bytesOf(value);
    if (typeof bytes === 'string') return { problem: `${field}.${name} ${bytes}.` };
    values[name] = bytes;
  }
  return { values };
}

/** The bytes, or a text that says what is wrong. */
function bytesOf(value: unknown): Uint8Array | string {
  if (typeof value === 'string') {
    if (!base64.test(value))
      return 'is not base64; write the bytes in base64 or as a list of integers: [1, 0, 0, 0]';
    const bytes = Buffer.from(value, 'base64');
    return checked(bytes);
  }
  if (!Array.isArray(value)) return 'is neither base64 nor a list of integers, such as [1, 0, 0, 0]';
  const wrong = value.findIndex((byte) => !Number.isInteger(byte) || byte < 0 || byte > 255);
  if (wrong !== -1) {
    return `has ${JSON.stringify(value[wrong])} at index ${wrong}; each item is one byte, 0 to 255, in the byte order of the node`;
  }
  return checked(Uint8Array.from(value as readonly number[]));
}

function checked(bytes: Uint8Array): Uint8Array | string {
  if (bytes.length === 0) return 'is empty; omit it to keep the value from the object file';
  return bytes.length > MAX_BYTES ? `has ${bytes.length} bytes; the maximum is ${MAX_BYTES}` : bytes;
}
