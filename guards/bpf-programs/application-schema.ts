/**
 * The schemas of ClusterBpfApplication and BpfApplication as bpfman-operator v0.6 has them: programs are loaded, and attached by their
 * links. Fields, defaults, rules and messages are upstream's (config/crd/bases); what that accepts but cannot handle is rejected here, as
 * in spec-schema.ts, and functions of the kernel may begin with `_`.
 */
import {
  boolean,
  type Fields,
  integer,
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
import {
  commonFields,
  labelSelector,
  MAX_INTERFACE_NAME,
  MAX_PATH,
  MAX_SYMBOL,
  type Scope,
} from './spec-schema.ts';

/** Priority of links without one. */
export const DEFAULT_PRIORITY = 1000;
const MAX_LINKS = 256;
/** How many names of interfaces one link may have. */
const MAX_INTERFACES = 1024;

const symbol = (description: string) => string(description, { minLength: 1, maxLength: MAX_SYMBOL });
const offset = () =>
  integer('Offset in bytes from the start of the function.', { format: 'int64', minimum: 0, default: 0 });
const interfaceNames = (description: string, more: object = {}) =>
  list(string({ minLength: 1, maxLength: MAX_INTERFACE_NAME, pattern: '^[^/\\s]+$' }), {
    description,
    maxItems: MAX_INTERFACES,
    ...more,
  });

const discovery = object(
  {
    interfaceAutoDiscovery: boolean('Attach to interfaces as they come. Must be true.', { default: false }),
    excludeInterfaces: list(string(), {
      description: 'Interfaces to leave out.',
      default: ['lo'],
      maxItems: MAX_INTERFACES,
    }),
    allowedInterfaces: optional(
      list(string({ minLength: 1, maxLength: 1024 }), {
        description:
          'Only these interfaces: names, or regular expressions between slashes, which may match a part of the name: /^veth/. Default: all.',
        maxItems: MAX_INTERFACES,
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
    interfaces: optional(interfaceNames('Interfaces by name.', { minItems: 1 })),
    primaryNodeInterface: optional(
      boolean(
        'Selects the interface that has the InternalIP of the Node, or else the one of the default route. The only valid value is true.',
        { rules: [rule('self', 'only true is accepted; to name interfaces, use interfaces')] },
      ),
    ),
    interfacesDiscoveryConfig: optional(discovery),
  },
  {
    description: 'The interfaces to attach to.',
    rules: [
      // Not minProperties and maxProperties, whose messages name no field.
      rule(
        '[has(self.interfaces), has(self.primaryNodeInterface), has(self.interfacesDiscoveryConfig)].filter(one, one).size() == 1',
        'exactly one of interfaces, primaryNodeInterface and interfacesDiscoveryConfig is required',
      ),
    ],
  },
);

const pods = { pods: labelSelector('Selects pods; {} selects all.') };
const namespace = { namespace: string('The namespace of the pods; empty for all.', { default: '' }) };

const networkNamespaces = {
  Cluster: object(
    'The pods to whose networks to attach. Without it, the program is attached on the node itself.',
    { ...namespace, ...pods },
  ),
  Namespaced: object('The pods of this namespace to whose networks to attach.', pods),
} as const;

const containerNames = {
  containerNames: optional(
    list(string(), { description: 'The names of containers in these pods; default: all.' }),
  ),
};
const containers = {
  Cluster: object('The containers to attach to. Without it, the program is attached on the node itself.', {
    ...namespace,
    ...pods,
    ...containerNames,
  }),
  Namespaced: object('The containers of this namespace to attach to.', { ...pods, ...containerNames }),
} as const;

/** One type for both scopes: what reads a link asks the object for its scope. */
function networkField(scope: Scope) {
  return {
    networkNamespaces:
      scope === 'Cluster' ? optional(networkNamespaces.Cluster) : networkNamespaces.Namespaced,
  } as { networkNamespaces: ReturnType<typeof optional<typeof networkNamespaces.Cluster>> };
}

function containersField(scope: Scope) {
  return {
    containers: scope === 'Cluster' ? optional(containers.Cluster) : containers.Namespaced,
  } as { containers: ReturnType<typeof optional<typeof containers.Cluster>> };
}

const priority = () =>
  optional(
    integer(
      `The position among the programs of its hook: 0 runs first. Equal priorities are ordered by name. Default: ${DEFAULT_PRIORITY}.`,
      { format: 'int32', minimum: 0, maximum: 1000 },
    ),
  );

/** XDP's return codes, by their number; libxdp's own last. */
export const xdpActions = ['Aborted', 'Drop', 'Pass', 'TX', 'ReDirect', 'DispatcherReturn'] as const;
/** TC's, from -1 on. */
export const tcActions = [
  ...(['UnSpec', 'OK', 'ReClassify', 'Shot', 'Pipe', 'Stolen', 'Queued', 'Repeat'] as const),
  ...(['ReDirect', 'Trap', 'DispatcherReturn'] as const),
] as const;
const proceedOnText = 'The return codes after which the next program runs.';

const xdpProceedOn = () =>
  list(oneOf(xdpActions), {
    description: proceedOnText,
    maxItems: xdpActions.length,
    default: ['Pass', 'DispatcherReturn'],
  });
const tcProceedOn = () =>
  list(oneOf(tcActions), {
    description: proceedOnText,
    maxItems: tcActions.length,
    default: ['Pipe', 'DispatcherReturn'],
  });
const direction = () =>
  oneOf(['Ingress', 'Egress'], { description: 'The direction of packets, as seen from the interface.' });

const interfaceLink = (scope: Scope) => ({ interfaceSelector, ...networkField(scope), priority: priority() });
const xdpLink = (scope: Scope) => ({ ...interfaceLink(scope), proceedOn: xdpProceedOn() });
const tcxLink = (scope: Scope) => ({ ...interfaceLink(scope), direction: direction() });
const tcLink = (scope: Scope) => ({ ...tcxLink(scope), proceedOn: tcProceedOn() });
const kretprobeLink = () => ({ function: symbol('The kernel function.') });
const kprobeLink = () => ({ ...kretprobeLink(), offset: offset() });
const tracepointLink = () => ({
  name: string('The tracepoint: syscalls/sys_enter_openat.', {
    minLength: 3,
    maxLength: 256,
    pattern: '^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$',
  }),
});
const uprobeLink = (scope: Scope) => ({
  function: optional(symbol('The function. Without it, offset is relative to the file.')),
  offset: offset(),
  target: string('The executable or library: an absolute path, or the name of a library, such as libc.', {
    minLength: 1,
    maxLength: MAX_PATH,
  }),
  pid: optional(integer('Only this process; 0: all.', { format: 'int32', minimum: 0 })),
  ...containersField(scope),
});
const traceLink = () => ({
  mode: oneOf(['Attach'], { description: 'Attach is the only value.' }),
});

// CEL reserves the word, and Kubernetes escapes it.
const uprobeRule = rule('has(self.__function__) || self.offset > 0', 'function or an offset is required', {
  fieldPath: '.function',
});

/** The specs of links, by the field that has them. */
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
   * How upstream's validation message names this type, where that is not the field's name:
   * `tcx configuration is required when type is TCX, ...`.
   */
  readonly inMessage?: string;
  /** The program itself, not its links, names the kernel function: it is loaded for that function. */
  readonly isTrace?: true;
  readonly isNamespaced?: true;
}

/** The types of programs, each by the field of a program that holds its links. */
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

/** The types of programs that a kind of this scope has. */
export function membersIn(scope: Scope): readonly MemberEntry[] {
  return (Object.entries(applicationMembers) as unknown as MemberEntry[]).filter(
    ([, { isNamespaced }]) => scope === 'Cluster' || isNamespaced === true,
  );
}

/** Upstream's rules: each type has the field of its name. */
export function memberRules(scope: Scope): Rule[] {
  return membersIn(scope).map(([field, { name, inMessage = field }]) =>
    rule(
      `has(self.type) && self.type == '${name}' ? has(self.${field}) : !has(self.${field})`,
      `${field} configuration is required when type is ${inMessage}, and forbidden otherwise`,
    ),
  );
}

export const memberNames = (scope: Scope): string[] => membersIn(scope).map(([, { name }]) => name);

function member(field: LinkType, row: MemberRow, scope: Scope) {
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
  return optional(
    object(row.isTrace === true ? { function: symbol('The kernel function.'), links } : { links }, {
      description: `The links of the program, where type is ${applicationMembers[field].name}.`,
    }),
  );
}

const pullSecret = object('The credentials for the registry.', {
  name: string('The name of a Secret of type kubernetes.io/dockerconfigjson.', { minLength: 1 }),
  namespace: string('Its namespace. A namespaced application can use only its own.', { minLength: 1 }),
});

const pathRules: Readonly<Record<Scope, Rule>> = {
  Cluster: rule("!has(self.path) || self.path.startsWith('/')", 'path must be absolute', {
    fieldPath: '.path',
  }),
  Namespaced: rule(
    '!has(self.path)',
    'path is a file of the node, which a namespaced application must not read: use image, or ClusterBpfApplication',
    { fieldPath: '.path', reason: 'FieldValueForbidden' },
  ),
};

function byteCode(scope: Scope) {
  return object(
    {
      image: optional(
        object('An OCI image with the object file.', {
          url: string(
            'The image with the bytecode, in the form of `podman pull`: registry.example/team/count:v1.',
            { minLength: 1, maxLength: 2048 },
          ),
          imagePullPolicy: oneOf(['Always', 'Never', 'IfNotPresent'], {
            description: 'When to pull the image.',
            default: 'IfNotPresent',
          }),
          imagePullSecret: optional(pullSecret),
        }),
      ),
      path: optional(
        string('An object file on the node; only in ClusterBpfApplication.', {
          minLength: 1,
          maxLength: MAX_PATH,
        }),
      ),
    },
    {
      description: 'The location of the object file.',
      rules: [
        rule('has(self.image) != has(self.path)', 'exactly one of image and path is required'),
        pathRules[scope],
      ],
    },
  );
}

export function applicationFields(scope: Scope) {
  const program = object(
    {
      name: string('The function in the object file.', { minLength: 1, maxLength: MAX_SYMBOL }),
      type: oneOf(memberNames(scope), { description: 'The type of the program.' }),
      ...Object.fromEntries(membersIn(scope).map(([field, row]) => [field, member(field, row, scope)])),
    },
    { rules: memberRules(scope) },
  );
  return {
    nodeSelector: labelSelector('The nodes to run on; {} selects all.'),
    byteCode: byteCode(scope),
    globalData: commonFields(scope).globaldata,
    mapOwnerSelector: optional(
      labelSelector('Labels of exactly one other application, whose maps to share, by name and shape.'),
    ),
    programs: list(program, {
      description: 'The programs, which are loaded together from one object file and share its maps.',
      minItems: 1,
      maxItems: 256,
    }),
  };
}

type Links = { readonly [Field in LinkType]?: MemberSpec<Field> };
interface MemberSpec<Field extends LinkType> {
  /** For fentry and fexit. */
  readonly function?: string;
  readonly links?: readonly LinkSpecs[Field][];
}

/** One of `programs`. */
export type ApplicationProgram = Links & { readonly name: string; readonly type: string };
export type ApplicationSpec = Omit<ReadFields<ReturnType<typeof applicationFields>>, 'programs'> & {
  readonly programs: readonly ApplicationProgram[];
};
