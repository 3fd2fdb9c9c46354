/**
 * The schemas of ClusterBpfApplication and BpfApplication in bpfman-operator v0.6: their programs are loaded, and attached by links.
 * Fields, defaults, rules and messages are upstream's (config/crd/bases). What upstream accepts but cannot handle is rejected here, as in
 * spec-schema.ts; names of kernel functions may begin with `_`.
 */
import {
  boolean,
  type Fields,
  list,
  object,
  oneOf,
  optional,
  type ReadFields,
  type ReadOf,
  rule,
  type Rule,
  string,
} from '../../lib/kube/crd/schema.ts';
import * as parts from './schema-parts.ts';
import type { Scope } from './schema-parts.ts';

/** The priority of links that do not give one. */
export const DEFAULT_PRIORITY = 1000;
const MAX_LINKS = 256;

const discovery = object(
  {
    interfaceAutoDiscovery: boolean('Attach to interfaces as they come. Must be true.', { default: false }),
    excludeInterfaces: list(string(), {
      description: 'Interfaces to leave out.',
      default: ['lo'],
      maxItems: parts.MAX_INTERFACES,
    }),
    allowedInterfaces: optional(
      list(string({ minLength: 1, maxLength: 1024 }), {
        description:
          'Only these interfaces: names, or regular expressions between slashes, which may match a part of the name: /^veth/. Default: all.',
        maxItems: parts.MAX_INTERFACES,
      }),
    ),
  },
  {
    description: 'Selects all interfaces of the node and of the network namespaces in /run/netns.',
    rules: [
      rule('self.interfaceAutoDiscovery', 'must be true: otherwise no interface is selected', {
        fieldPath: '.interfaceAutoDiscovery',
      }),
    ],
  },
);

const interfaceSelector = object(
  {
    interfaces: parts.interfaceNames,
    primaryNodeInterface: parts.primaryInterface,
    interfacesDiscoveryConfig: optional(discovery),
  },
  {
    description: 'The interfaces to attach to.',
    rules: [
      // A rule, because the error messages of minProperties and maxProperties name no field.
      rule(
        '[has(self.interfaces), has(self.primaryNodeInterface), has(self.interfacesDiscoveryConfig)].filter(one, one).size() == 1',
        'exactly one of interfaces, primaryNodeInterface and interfacesDiscoveryConfig is required',
      ),
    ],
  },
);

const networkField = (scope: Scope) => ({
  networkNamespaces: parts.inPods(scope, 'pods', 'to whose networks to attach', {}),
});
const containersField = (scope: Scope) => ({
  containers: parts.inPods(scope, 'containers', 'to attach to', { containerNames: parts.containerNames }),
});

/** XDP's return codes in numerical order; the last one is libxdp's own. */
export const xdpActions = ['Aborted', 'Drop', 'Pass', 'TX', 'ReDirect', 'DispatcherReturn'] as const;
/** TC's return codes, starting from -1. */
export const tcActions = [
  ...(['UnSpec', 'OK', 'ReClassify', 'Shot', 'Pipe', 'Stolen', 'Queued', 'Repeat'] as const),
  ...(['ReDirect', 'Trap', 'DispatcherReturn'] as const),
] as const;
const direction = oneOf(['Ingress', 'Egress'], parts.directionOf);

const interfaceLink = (scope: Scope) => ({
  ...{ interfaceSelector, ...networkField(scope) },
  priority: optional(parts.priority(` Default: ${DEFAULT_PRIORITY}.`)),
});
const xdpLink = (scope: Scope) => ({
  ...interfaceLink(scope),
  proceedOn: list(oneOf(xdpActions), parts.proceedOn(xdpActions, ['Pass', 'DispatcherReturn'])),
});
const tcxLink = (scope: Scope) => ({ ...interfaceLink(scope), direction });
const tcLink = (scope: Scope) => ({
  ...tcxLink(scope),
  proceedOn: list(oneOf(tcActions), parts.proceedOn(tcActions, ['Pipe', 'DispatcherReturn'])),
});
const kretprobeLink = () => ({ function: parts.kernelFunction });
const kprobeLink = () => ({ ...kretprobeLink(), offset: parts.offset });
const tracepointLink = () => ({
  name: string('The tracepoint: syscalls/sys_enter_openat.', parts.tracepoint),
});
const uprobeLink = (scope: Scope) => ({
  ...{ function: parts.probedFunction, offset: parts.offset, target: parts.probedFile, pid: parts.onlyPid },
  ...containersField(scope),
});
const traceLink = () => ({
  mode: oneOf(['Attach'], { description: 'Attach is the only value.' }),
});

// `function` is a reserved word of CEL, which Kubernetes escapes like this.
const uprobeRule = rule('has(self.__function__) || self.offset > 0', 'function or an offset is required', {
  fieldPath: '.function',
});

/** The spec of a link, by the field that contains the links. */
export interface LinkSpecs {
  readonly xdp: ReadFields<ReturnType<typeof xdpLink>>;
  readonly tc: ReadFields<ReturnType<typeof tcLink>>;
  readonly tcx: ReadFields<ReturnType<typeof tcxLink>>;
  readonly fentry: ReadFields<ReturnType<typeof traceLink>>;
  readonly fexit: ReadFields<ReturnType<typeof traceLink>>;
  readonly kprobe: ReadFields<ReturnType<typeof kprobeLink>>;
  readonly kretprobe: ReadFields<ReturnType<typeof kretprobeLink>>;
  readonly uprobe: ReadFields<ReturnType<typeof uprobeLink>>;
  readonly uretprobe: ReadFields<ReturnType<typeof uprobeLink>>;
  readonly tracepoint: ReadFields<ReturnType<typeof tracepointLink>>;
}
export type LinkType = keyof LinkSpecs;
export type InterfacesDiscovery = ReadOf<typeof discovery>;
export type InterfaceSelection = ReadOf<typeof interfaceSelector>;

interface MemberRow {
  /** The value of `type`. */
  readonly name: string;
  readonly link: (scope: Scope) => Fields;
  readonly rules?: readonly Rule[];
  /**
   * The name of this type in upstream's validation message, if it is not the field's name: `tcx configuration is required when type is TCX,
   * ...`.
   */
  readonly inMessage?: string;
  /** Set if the program itself, not its links, names the kernel function: it is loaded for that function. */
  readonly isTrace?: true;
  readonly isNamespaced?: true;
}

/** The program types, keyed by the field of a program that has its links. */
export const applicationMembers: Readonly<Record<LinkType, MemberRow>> = {
  xdp: { name: 'XDP', link: xdpLink, isNamespaced: true },
  tc: { name: 'TC', link: tcLink, isNamespaced: true },
  tcx: { name: 'TCX', link: tcxLink, inMessage: 'TCX', isNamespaced: true },
  fentry: { name: 'FEntry', link: traceLink, isTrace: true },
  fexit: { name: 'FExit', link: traceLink, isTrace: true },
  kprobe: { name: 'KProbe', link: kprobeLink },
  kretprobe: { name: 'KRetProbe', link: kretprobeLink },
  uprobe: { name: 'UProbe', link: uprobeLink, rules: [uprobeRule], isNamespaced: true },
  uretprobe: { name: 'URetProbe', link: uprobeLink, rules: [uprobeRule], isNamespaced: true },
  tracepoint: { name: 'TracePoint', link: tracepointLink },
};

export function isLinkType(field: string): field is LinkType {
  return Object.hasOwn(applicationMembers, field);
}

type MemberEntry = readonly [field: LinkType, row: MemberRow];

/** The program types that a kind of this scope may have. */
export function membersIn(scope: Scope): readonly MemberEntry[] {
  return (Object.entries(applicationMembers) as unknown as MemberEntry[]).filter(
    ([, { isNamespaced }]) => scope === 'Cluster' || isNamespaced === true,
  );
}

/** Upstream's rule: a program has exactly the field that belongs to its type. */
export const memberRule = ([field, { name, inMessage = field }]: MemberEntry): Rule =>
  rule(
    `has(self.type) && self.type == '${name}' ? has(self.${field}) : !has(self.${field})`,
    `${field} configuration is required when type is ${inMessage}, and forbidden otherwise`,
  );

function member(row: MemberRow, scope: Scope) {
  const link = object(row.link(scope), {
    description: `Where the program is attached.`,
    ...(row.rules && { rules: row.rules }),
  });
  const links = optional(
    list(link, {
      description: 'The links. Without any, the program is loaded and attached to nothing.',
      maxItems: row.isTrace === true ? 1 : MAX_LINKS,
    }),
  );
  return object(row.isTrace === true ? { function: parts.kernelFunction, links } : { links }, {
    description: `The links of the program, where type is ${row.name}.`,
  });
}

const image = object('An OCI image with the object file.', {
  url: parts.imageUrl,
  imagePullPolicy: parts.pullPolicy,
  imagePullSecret: optional(parts.pullSecret('application')),
});

export function applicationFields(scope: Scope) {
  const members = membersIn(scope).map((entry) => {
    const [field, row] = entry;
    return { name: row.name, field, schema: member(row, scope), rule: memberRule(entry) };
  });
  return {
    nodeSelector: parts.labelSelector('The nodes to run on; {} selects all.'),
    byteCode: parts.bytecodeLocation(image, scope, {
      whose: 'application',
      instead: 'ClusterBpfApplication',
    }),
    globalData: parts.globalData,
    mapOwnerSelector: optional(
      parts.labelSelector('Labels of exactly one other application, whose maps to share, by name and shape.'),
    ),
    programs: parts.programList(
      { name: parts.functionName },
      members,
      'The programs, which are loaded together from one object file and share its maps.',
    ),
  };
}

type Links = { readonly [Field in LinkType]?: MemberSpec<Field> };
interface MemberSpec<Field extends LinkType> {
  /** The kernel function, for fentry and fexit. */
  readonly function?: string;
  readonly links?: readonly LinkSpecs[Field][];
}

/** One of `programs`. */
export type ApplicationProgram = Links & { readonly name: string; readonly type: string };
export type ApplicationSpec = Omit<ReadFields<ReturnType<typeof applicationFields>>, 'programs'> & {
  readonly programs: readonly ApplicationProgram[];
};
