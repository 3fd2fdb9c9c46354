/**
 * The resources of this guard: the kinds of `bpfman.io/v1alpha1` in bpfman-operator v0.5.5, plus the two names that its design gives to
 * applications, all from one table; and those of v0.6 (application-api.ts). Both versions have the plural `bpfapplications`, cluster-scoped
 * in v0.5.5 and namespaced in v0.6: an API serves only one of the two.
 *
 * The manifests in `crd/` are generated from this file: `node scripts/manifests.ts --write`.
 */
import { ageColumn, type PrinterColumn, type Resource, resourceType } from '../../lib/kube/crd/resource.ts';
import {
  type Fields,
  object,
  optional,
  type ReadOf,
  rule,
  type Rule,
  string,
} from '../../lib/kube/crd/schema.ts';
import type { KubeObject, ResourceType } from '../../lib/kube/object/object.ts';
import { defineApplication, defineConfig, defineState } from './application-api.ts';
import { inGroup, status, statusColumn, version } from './group.ts';
import { tenantTypes } from './kernel/tenant/allowed.ts';
import { programList, type Scope } from './schema-parts.ts';
import {
  applicationTcxFields,
  commonFields,
  type CommonSpec,
  kprobeFields,
  kprobeRules,
  type KprobeSpec,
  kretprobeRules,
  tcFields,
  type TcSpec,
  tcxFields,
  type TcxSpec,
  traceFields,
  tracepointFields,
  type TracepointSpec,
  type TraceSpec,
  uprobeFields,
  uprobeRules,
  type UprobeSpec,
  xdpFields,
  type XdpSpec,
} from './spec-schema.ts';

/** A program; its type determines its fields. */
export type TypedProgram =
  | { readonly type: 'xdp'; readonly spec: XdpSpec }
  | { readonly type: 'tc'; readonly spec: TcSpec }
  | { readonly type: 'tcx'; readonly spec: TcxSpec }
  | { readonly type: 'kprobe' | 'kretprobe'; readonly spec: KprobeSpec }
  | { readonly type: 'uprobe' | 'uretprobe'; readonly spec: UprobeSpec }
  | { readonly type: 'fentry' | 'fexit'; readonly spec: TraceSpec }
  | { readonly type: 'tracepoint'; readonly spec: TracepointSpec };

/** The program types of single objects: the field `retprobe` says whether a probe is a return probe. */
export type SingleType = Exclude<ProgramType, 'kretprobe' | 'uretprobe'>;
export type ProgramType = TypedProgram['type'];

interface TypeRow {
  readonly fields: (scope: Scope) => Fields;
  readonly rules?: readonly Rule[];
  /** Shown with `-o wide`. */
  readonly columns: readonly PrinterColumn[];
}

const wide = (name: string, field: string, type: PrinterColumn['type'] = 'string'): PrinterColumn => ({
  name,
  type,
  jsonPath: `.spec.${field}`,
  priority: 1,
});
const interfaceColumns = [wide('Priority', 'priority'), wide('InterfaceSelector', 'interfaceselector')];
const functionColumn = wide('FunctionName', 'func_name');

const types: Readonly<Record<SingleType, TypeRow>> = {
  xdp: { fields: xdpFields, columns: [...interfaceColumns, wide('ProceedOn', 'proceedon')] },
  tc: {
    fields: tcFields,
    columns: [...interfaceColumns, wide('Direction', 'direction'), wide('ProceedOn', 'proceedon')],
  },
  tcx: { fields: tcxFields, columns: [...interfaceColumns, wide('Direction', 'direction')] },
  kprobe: {
    fields: () => kprobeFields,
    rules: kprobeRules,
    columns: [functionColumn, wide('Offset', 'offset', 'integer'), wide('RetProbe', 'retprobe', 'boolean')],
  },
  uprobe: {
    fields: uprobeFields,
    rules: uprobeRules,
    columns: [
      functionColumn,
      wide('Offset', 'offset', 'integer'),
      wide('Target', 'target'),
      wide('RetProbe', 'retprobe', 'boolean'),
      wide('Pid', 'pid', 'integer'),
    ],
  },
  tracepoint: { fields: () => tracepointFields, columns: [wide('Tracepoint', 'names')] },
  fentry: { fields: () => traceFields, columns: [functionColumn] },
  fexit: { fields: () => traceFields, columns: [functionColumn] },
};

/** The program types that an application of v0.5.5 may have: the value of `type`, the type, and its schema. */
const members: readonly (TypeRow & { readonly name: string; readonly type: ProgramType })[] = [
  { name: 'XDP', type: 'xdp', ...types.xdp },
  { name: 'TC', type: 'tc', ...types.tc },
  { name: 'TCX', type: 'tcx', ...types.tcx, fields: applicationTcxFields },
  { name: 'Fentry', type: 'fentry', ...types.fentry },
  { name: 'Fexit', type: 'fexit', ...types.fexit },
  { name: 'Kprobe', type: 'kprobe', ...types.kprobe },
  { name: 'Kretprobe', type: 'kretprobe', ...types.kprobe, rules: kretprobeRules },
  { name: 'Uprobe', type: 'uprobe', ...types.uprobe },
  { name: 'Uretprobe', type: 'uretprobe', ...types.uprobe },
  { name: 'Tracepoint', type: 'tracepoint', ...types.tracepoint },
];

/** Keyed by the value of `type` in an application. */
export const memberTypes: ReadonlyMap<string, ProgramType> = new Map(
  members.map(({ name, type }) => [name, type]),
);

const nodeSelectorColumn: PrinterColumn = {
  name: 'NodeSelector',
  type: 'string',
  jsonPath: '.spec.nodeselector',
};

/** A kind that users write. */
interface KindRow {
  readonly kind: string;
  readonly scope: Scope;
  /** Undefined: an application. */
  readonly single: SingleType | undefined;
}

function define({ kind, scope, single }: KindRow): Resource {
  const where = scope === 'Cluster' ? '' : ' of containers of a namespace';
  const common = commonFields(scope);
  const spec = single === undefined ? application(scope) : types[single];
  const fields = { ...common, ...spec.fields(scope) };
  return inGroup(kind, scope, {
    description:
      single === undefined
        ? `Several eBPF programs${where} from one object file, and where they are attached.`
        : `An eBPF program of type ${single}${where}, and where it is attached.`,
    fields: {
      spec: object(fields, { description: 'The desired state.', ...(spec.rules && { rules: spec.rules }) }),
      status,
    },
    columns:
      single === undefined
        ? [nodeSelectorColumn, statusColumn, ageColumn]
        : [
            { name: 'BpfFunctionName', type: 'string', jsonPath: '.spec.bpffunctionname' },
            nodeSelectorColumn,
            statusColumn,
            ...spec.columns,
          ],
  });
}

function application(scope: Scope): TypeRow {
  const allowed = members.filter(({ type }) => scope === 'Cluster' || tenantTypes.has(type));
  const schemas = allowed.map(({ name, type, rules, fields }) => ({
    ...{ name, field: type },
    schema: object(fields(scope), {
      description: `The program, where type is ${name}.`,
      ...(rules && { rules }),
    }),
    rule: rule(
      `has(self.${type}) == (self.type == '${name}')`,
      `${type} is required when type is ${name}, and forbidden otherwise`,
      { fieldPath: `.${type}` },
    ),
  }));
  return { fields: () => ({ programs: programList({}, schemas, 'The programs.') }), columns: [] };
}

/** A per-node kind: each object is one program at one attach point of one node. */
function defineNodeKind(kind: string, scope: Scope): Resource {
  return inGroup(kind, scope, {
    description: 'One eBPF program at one hook of one node. Written by the agents.',
    fields: {
      spec: object({ type: optional(string('The type of the program.')) }),
      status,
    },
    columns: [{ name: 'Type', type: 'string', jsonPath: '.spec.type' }, statusColumn, ageColumn],
  });
}

/** The version of bpfman-operator whose API a kind belongs to. */
export type Api = 'v0.5' | 'v0.6';

const cluster = (kind: string, single?: SingleType): KindRow => ({ kind, scope: 'Cluster', single });
const namespaced = (kind: string, single?: SingleType): KindRow => ({ kind, scope: 'Namespaced', single });

const rows: readonly KindRow[] = [
  cluster('BpfApplication'),
  cluster('BpfApplicationProgram'),
  cluster('FentryProgram', 'fentry'),
  cluster('FexitProgram', 'fexit'),
  cluster('KprobeProgram', 'kprobe'),
  cluster('TcProgram', 'tc'),
  cluster('TcxProgram', 'tcx'),
  cluster('TracepointProgram', 'tracepoint'),
  cluster('UprobeProgram', 'uprobe'),
  cluster('XdpProgram', 'xdp'),
  namespaced('BpfNsApplication'),
  namespaced('BpfNsApplicationProgram'),
  namespaced('TcNsProgram', 'tc'),
  namespaced('TcxNsProgram', 'tcx'),
  namespaced('UprobeNsProgram', 'uprobe'),
  namespaced('XdpNsProgram', 'xdp'),
];

type Status = ReadOf<typeof status>;

/** An object of any of the kinds that users write. */
export interface ParentObject extends KubeObject {
  /** The spec of v0.5.5; ApplicationSpec in the kinds of v0.6. */
  readonly spec: CommonSpec & Readonly<Record<string, unknown>>;
  readonly status?: Status;
}

/** A BpfProgram or BpfNsProgram, or a State object, which has no spec. */
export interface NodeObject extends KubeObject {
  readonly spec?: { readonly type?: string };
  readonly status?: Status;
}

/** Everything that differs between the kinds that users write. */
export interface ParentKind extends KindRow {
  readonly api: Api;
  readonly resource: Resource;
  readonly type: ResourceType<ParentObject>;
  /** The resource of its per-node objects. */
  readonly nodeType: ResourceType<NodeObject>;
  /** A part of the finalizer's name on its per-node objects. */
  readonly controller: string;
}

const nodeKinds = {
  Cluster: defineNodeKind('BpfProgram', 'Cluster'),
  Namespaced: defineNodeKind('BpfNsProgram', 'Namespaced'),
} as const;
const stateKinds = { Cluster: defineState('Cluster'), Namespaced: defineState('Namespaced') } as const;

type NodeTypes = Readonly<Record<Scope, ResourceType<NodeObject>>>;

/** Types of v0.5.5: one object for each program and place. */
export const nodeTypes: NodeTypes = nodeTypesOf(nodeKinds);
/** Types of v0.6: one object for each application. */
export const stateTypes: NodeTypes = nodeTypesOf(stateKinds);
/** All kinds of per-node objects. */
export const allNodeTypes: readonly ResourceType<NodeObject>[] = [
  ...Object.values(nodeTypes),
  ...Object.values(stateTypes),
];

function nodeTypesOf(kinds: Readonly<Record<Scope, Resource>>): NodeTypes {
  const typeOf = (resource: Resource): ResourceType<NodeObject> => resourceType(resource, version);
  return { Cluster: typeOf(kinds.Cluster), Namespaced: typeOf(kinds.Namespaced) };
}

function parentKind(row: KindRow, api: Api, resource: Resource, controller: string): ParentKind {
  const type = resourceType(resource, version) as unknown as ResourceType<ParentObject>;
  const nodeType = (api === 'v0.5' ? nodeTypes : stateTypes)[row.scope];
  return { ...row, api, resource, type, nodeType, controller };
}

function applicationKind(scope: Scope, controller: string): ParentKind {
  const resource = defineApplication(scope);
  return parentKind({ kind: resource.kind, scope, single: undefined }, 'v0.6', resource, controller);
}

export const parentKinds: readonly ParentKind[] = [
  ...rows.map((row) => parentKind(row, 'v0.5', define(row), row.kind.toLowerCase())),
  applicationKind('Cluster', 'clbpfapplication'),
  applicationKind('Namespaced', 'nsbpfapplication'),
];

/** The two kinds named `bpfapplications`, one for each API. */
const bpfApplications = parentKinds.filter(({ kind }) => kind === 'BpfApplication');
export const bpfApplicationOf: Readonly<Record<Api, ParentKind>> = {
  'v0.5': ofApi('v0.5'),
  'v0.6': ofApi('v0.6'),
};

function ofApi(api: Api): ParentKind {
  const found = bpfApplications.find((one) => one.api === api);
  if (found === undefined) throw new TypeError(`no BpfApplication of ${api}`);
  return found;
}

/**
 * Whether an object is of this kind, by its key in the cache of its plural: the two kinds of BpfApplication share a plural, but only one is
 * namespaced.
 */
export function isOfKind({ scope }: Pick<ParentKind, 'scope'>, key: string): boolean {
  return key.includes('/') === (scope === 'Namespaced');
}

const config = defineConfig();
export type Config = KubeObject & { readonly status?: Status };
export const configType = resourceType(config, version) as unknown as ResourceType<Config>;

/** All kinds, including the per-node ones; BpfApplication in its form of v0.6. */
export const bpfResources: readonly Resource[] = [
  ...parentKinds.filter((one) => one !== bpfApplicationOf['v0.5']).map(({ resource }) => resource),
  ...Object.values(nodeKinds),
  ...Object.values(stateKinds),
  config,
];
