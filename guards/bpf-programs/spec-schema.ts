/**
 * The schemas of the users' objects: the parts of a specification that several kinds share, and those of each program type.
 * Fields, defaults and limits are those of bpfman-operator v0.5.5 (config/crd/bases, apis/v1alpha1); what that accepts but
 * cannot handle is rejected here, and the message says why.
 */
import {
  boolean,
  bytes,
  integer,
  list,
  mapOf,
  object,
  oneOf,
  optional,
  type ReadFields,
  type ReadOf,
  rule,
  type Rule,
  string,
} from '../../lib/kube/crd/schema.ts';

export type Scope = 'Cluster' | 'Namespaced';

/** The kernel's limit is 16 bytes, one of them the last 0 (IFNAMSIZ). */
export const MAX_INTERFACE_NAME = 15;
/** Limit from PATH_MAX. */
export const MAX_PATH = 4095;
/** KSYM_NAME_LEN. */
export const MAX_SYMBOL = 511;

export const labelSelector = (description: string) =>
  object(
    {
      matchLabels: optional(mapOf(string(), { description: 'All of these labels, with these values.' })),
      matchExpressions: optional(
        list(
          object({
            key: string('The key of the label.'),
            operator: string('In, NotIn, Exists or DoesNotExist.'),
            values: optional(list(string(), { description: 'The values for In and NotIn.' })),
          }),
          { description: 'All of these must match.' },
        ),
      ),
    },
    { description, atomic: true },
  );

const pullSecret = object('The credentials for the registry.', {
  name: string('The name of a Secret of type kubernetes.io/dockerconfigjson.', { minLength: 1 }),
  namespace: string('Its namespace. A namespaced program can use only its own.', { minLength: 1 }),
});

const image = object('An OCI image with the object file.', {
  url: string('The image with the bytecode, in the form of `podman pull`: registry.example/team/count:v1.', {
    minLength: 1,
    maxLength: 2048,
  }),
  imagepullpolicy: oneOf(['Always', 'Never', 'IfNotPresent'], {
    description: 'When to pull the image.',
    default: 'IfNotPresent',
  }),
  imagepullsecret: optional(pullSecret),
});

const bytecodeFields = {
  image: optional(image),
  path: optional(
    string('An object file on the node; only in cluster-scoped kinds.', {
      minLength: 1,
      maxLength: MAX_PATH,
    }),
  ),
};

const bytecodeWith = (pathRule: Rule) =>
  object(bytecodeFields, {
    description: 'The location of the object file.',
    rules: [
      // Not minProperties, whose message names no field.
      rule('has(self.image) != has(self.path)', 'exactly one of image and path is required'),
      pathRule,
    ],
  });

const bytecode = {
  Cluster: bytecodeWith(
    rule("!has(self.path) || self.path.startsWith('/')", 'path must be absolute', { fieldPath: '.path' }),
  ),
  Namespaced: bytecodeWith(
    rule(
      '!has(self.path)',
      'path is a file of the node, which a namespaced program must not read: use image, or the cluster-scoped kind',
      { fieldPath: '.path', reason: 'FieldValueForbidden' },
    ),
  ),
} as const;

/** The fields of every object, whatever its kind. */
export function commonFields(scope: Scope) {
  return {
    nodeselector: labelSelector('The nodes to run on; {} selects all.'),
    bytecode: bytecode[scope],
    globaldata: optional(
      mapOf(bytes(), {
        description:
          'Values of global variables, by name: the bytes as a list of integers, or in base64. The size must be that of the variable.',
      }),
    ),
  };
}

/** Common fields of all programs. */
const programFields = {
  bpffunctionname: string('The function in the object file.', { minLength: 1, maxLength: MAX_SYMBOL }),
  mapownerselector: optional(
    labelSelector(
      'Labels of exactly one BpfProgram (BpfNsProgram) on the node, whose maps to share. Maps with the same name and shape are shared.',
    ),
  ),
};

const podFields = {
  pods: labelSelector('Selects pods; {} selects all.'),
  containernames: optional(
    list(string(), { description: 'The names of containers in these pods; default: all.' }),
  ),
};

const containers = {
  Cluster: object('The containers to attach to. Without it, the program is attached on the node itself.', {
    namespace: string('The namespace of the pods; empty for all.', { default: '' }),
    ...podFields,
  }),
  Namespaced: object('The containers of this namespace to attach to.', podFields),
} as const;

function containerFields(scope: Scope) {
  // One type for both: what reads them asks the object for its scope.
  return { containers: scope === 'Cluster' ? optional(containers.Cluster) : containers.Namespaced } as {
    containers: ReturnType<typeof optional<typeof containers.Cluster>>;
  };
}

const interfaceSelector = object(
  {
    interfaces: optional(
      list(string({ minLength: 1, maxLength: MAX_INTERFACE_NAME, pattern: '^[^/\\s]+$' }), {
        description: 'Interfaces by name.',
        minItems: 1,
        maxItems: 1024,
      }),
    ),
    primarynodeinterface: optional(
      boolean(
        'Selects the interface that has the InternalIP of the Node, or else the one of the default route. The only valid value is true.',
        {
          rules: [rule('self', 'only true is accepted; to name interfaces, use interfaces')],
        },
      ),
    ),
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

const priority = integer(
  'The position among the programs of its hook: 0 runs first. Equal priorities are ordered by name.',
  { format: 'int32', minimum: 0, maximum: 1000 },
);

const direction = oneOf(['ingress', 'egress'], {
  description: 'The direction of packets, as seen from the interface.',
});

const xdpActions = ['aborted', 'drop', 'pass', 'tx', 'redirect', 'dispatcher_return'] as const;
/** By their number, from -1 on. */
export const tcActions = [
  ...(['unspec', 'ok', 'reclassify', 'shot', 'pipe', 'stolen', 'queued', 'repeat'] as const),
  ...(['redirect', 'trap', 'dispatcher_return'] as const),
] as const;

const proceedOnText = 'The return codes after which the next program runs.';
const tcProceedOn = {
  description: proceedOnText,
  maxItems: tcActions.length,
  default: ['pipe', 'dispatcher_return'],
} as const;

const symbol = (description: string) => string(description, { minLength: 1, maxLength: MAX_SYMBOL });
const offset = (description: string) => integer(description, { format: 'int64', minimum: 0, default: 0 });
const retprobe = boolean('Run when the function returns.', { default: false });

const interfaceFields = { ...programFields, interfaceselector: interfaceSelector, priority };

export function xdpFields(scope: Scope) {
  return {
    ...interfaceFields,
    proceedon: list(oneOf(xdpActions), {
      description: proceedOnText,
      maxItems: xdpActions.length,
      default: ['pass', 'dispatcher_return'],
    }),
    ...containerFields(scope),
  };
}

export function tcFields(scope: Scope) {
  return {
    ...interfaceFields,
    direction,
    proceedon: list(oneOf(tcActions), tcProceedOn),
    ...containerFields(scope),
  };
}

export function tcxFields(scope: Scope) {
  return { ...interfaceFields, direction, ...containerFields(scope) };
}

/** bpfman has one type for TC and TCX in applications, so objects written for it may have this field. */
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
    func_name: optional(symbol('The function. Without it, offset is relative to the file.')),
    offset: offset('Offset in bytes from the start of the function.'),
    target: string('The executable or library: an absolute path, or the name of a library, such as libc.', {
      minLength: 1,
      maxLength: MAX_PATH,
    }),
    retprobe,
    pid: optional(integer('Only this process; 0: all.', { format: 'int32', minimum: 0 })),
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
  func_name: symbol('The kernel function.'),
  offset: offset('Offset in bytes from the start of the function.'),
  retprobe,
};

export const kprobeRules = [
  rule('self.offset == 0 || !self.retprobe', 'offset cannot be set for kretprobes', { fieldPath: '.offset' }),
] as const;

export const kretprobeRules = [
  rule('self.offset == 0', 'offset cannot be set for kretprobes', { fieldPath: '.offset' }),
] as const;

export const traceFields = { ...programFields, func_name: symbol('The kernel function.') };

export const tracepointFields = {
  ...programFields,
  names: list(string({ minLength: 3, maxLength: 256, pattern: '^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$' }), {
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
/** Namespaced kinds have no `namespace`. */
export type ContainerSelector = NonNullable<XdpSpec['containers']>;
export type InterfaceSelector = ReadOf<typeof interfaceSelector>;
export type Bytecode = CommonSpec['bytecode'];
export type BytecodeImage = NonNullable<Bytecode['image']>;
