/**
 * The schemas of the users' objects of v0.5.5: parts that several kinds share, and the fields of each program type. Fields, defaults and
 * limits are those of bpfman-operator v0.5.5 (config/crd/bases, apis/v1alpha1); what upstream accepts but cannot handle is rejected here,
 * with a message that says why.
 */
import {
  boolean,
  list,
  object,
  oneOf,
  optional,
  type ReadFields,
  type ReadOf,
  rule,
  string,
} from '../../lib/kube/crd/schema.ts';
import * as parts from './schema-parts.ts';
import type { Scope } from './schema-parts.ts';

const image = object('An OCI image with the object file.', {
  url: parts.imageUrl,
  imagepullpolicy: parts.pullPolicy,
  imagepullsecret: optional(parts.pullSecret('program')),
});

const bytecode = (scope: Scope) =>
  parts.bytecodeLocation(image, scope, {
    whose: 'program',
    instead: 'the cluster-scoped kind',
    kinds: 'cluster-scoped kinds',
  });

/** The fields that every object has, regardless of its kind. */
export function commonFields(scope: Scope) {
  return {
    nodeselector: parts.labelSelector('The nodes to run on; {} selects all.'),
    bytecode: bytecode(scope),
    globaldata: parts.globalData,
  };
}

/** The fields that every program has. */
const programFields = {
  bpffunctionname: parts.functionName,
  mapownerselector: optional(
    parts.labelSelector(
      'Labels of exactly one BpfProgram (BpfNsProgram) on the node, whose maps to share. Maps with the same name and shape are shared.',
    ),
  ),
};

const containerFields = (scope: Scope) => ({
  containers: parts.inPods(scope, 'containers', 'to attach to', { containernames: parts.containerNames }),
});

const interfaceSelector = object(
  {
    interfaces: parts.interfaceNames,
    primarynodeinterface: parts.primaryInterface,
  },
  {
    description: 'The interfaces to attach to.',
    rules: [
      rule(
        'has(self.interfaces) != has(self.primarynodeinterface)',
        'exactly one of interfaces and primarynodeinterface is required',
      ),
    ],
  },
);

const direction = oneOf(['ingress', 'egress'], parts.directionOf);

export const xdpActions = ['aborted', 'drop', 'pass', 'tx', 'redirect', 'dispatcher_return'] as const;
/** In numerical order (`TC_ACT_*`), starting from -1. */
export const tcActions = [
  ...(['unspec', 'ok', 'reclassify', 'shot', 'pipe', 'stolen', 'queued', 'repeat'] as const),
  ...(['redirect', 'trap', 'dispatcher_return'] as const),
] as const;

const retprobe = boolean('Run when the function returns.', { default: false });

const interfaceFields = {
  ...programFields,
  interfaceselector: interfaceSelector,
  priority: parts.priority(),
};

export function xdpFields(scope: Scope) {
  return {
    ...interfaceFields,
    proceedon: list(oneOf(xdpActions), parts.proceedOn(xdpActions, ['pass', 'dispatcher_return'])),
    ...containerFields(scope),
  };
}

export function tcFields(scope: Scope) {
  return {
    ...interfaceFields,
    direction,
    proceedon: list(oneOf(tcActions), parts.proceedOn(tcActions, ['pipe', 'dispatcher_return'])),
    ...containerFields(scope),
  };
}

export function tcxFields(scope: Scope) {
  return { ...interfaceFields, direction, ...containerFields(scope) };
}

/** The fields of a TCX program in an application. bpfman has one type for TC and TCX there, so objects written for it may have `proceedon`. */
export function applicationTcxFields(scope: Scope) {
  return {
    ...tcxFields(scope),
    proceedon: optional(
      list(oneOf(tcActions), {
        description: 'Accepted but not used: with TCX, programs return TCX_NEXT.',
        maxItems: tcActions.length,
      }),
    ),
  };
}

export function uprobeFields(scope: Scope) {
  return {
    ...programFields,
    ...{ func_name: parts.probedFunction, offset: parts.offset, target: parts.probedFile },
    ...{ retprobe, pid: parts.onlyPid },
    ...containerFields(scope),
  };
}

export const uprobeRules = [
  rule('has(self.func_name) || self.offset > 0', 'func_name or an offset is required', {
    fieldPath: '.func_name',
  }),
] as const;

export const kprobeFields = {
  ...programFields,
  ...{ func_name: parts.kernelFunction, offset: parts.offset, retprobe },
};

export const kprobeRules = [
  rule('self.offset == 0 || !self.retprobe', 'offset cannot be set for kretprobes', { fieldPath: '.offset' }),
] as const;

export const kretprobeRules = [
  rule('self.offset == 0', 'offset cannot be set for kretprobes', { fieldPath: '.offset' }),
] as const;

export const traceFields = { ...programFields, func_name: parts.kernelFunction };

export const tracepointFields = {
  ...programFields,
  names: list(string(parts.tracepoint), {
    description: 'Tracepoints: syscalls/sys_enter_openat.',
    minItems: 1,
    maxItems: 1024,
  }),
};

export type CommonSpec = ReadFields<ReturnType<typeof commonFields>>;
export type ProgramSpec = ReadFields<typeof programFields>;
export type XdpSpec = ReadFields<ReturnType<typeof xdpFields>>;
export type TcSpec = ReadFields<ReturnType<typeof tcFields>>;
export type TcxSpec = ReadFields<ReturnType<typeof tcxFields>>;
export type UprobeSpec = ReadFields<ReturnType<typeof uprobeFields>>;
export type KprobeSpec = ReadFields<typeof kprobeFields>;
export type TraceSpec = ReadFields<typeof traceFields>;
export type TracepointSpec = ReadFields<typeof tracepointFields>;
/** In namespaced kinds, it has no `namespace`. */
export type ContainerSelector = NonNullable<XdpSpec['containers']>;
export type InterfaceSelector = ReadOf<typeof interfaceSelector>;
export type Bytecode = CommonSpec['bytecode'];
export type BytecodeImage = NonNullable<Bytecode['image']>;
