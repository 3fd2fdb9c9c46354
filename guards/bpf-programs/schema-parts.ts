/**
 * Parts of schemas that the kinds of both APIs, v0.5.5 and v0.6, have in common: spec-schema.ts and application-schema.ts combine them,
 * under different names of fields.
 */
import {
  boolean,
  bytes,
  type Fields,
  integer,
  list,
  mapOf,
  object,
  oneOf,
  optional,
  rule,
  type Rule,
  string,
} from '../../lib/kube/crd/schema.ts';

export type Scope = 'Cluster' | 'Namespaced';

/** The kernel's limit is 16 bytes, including the final 0 (IFNAMSIZ). */
const MAX_INTERFACE_NAME = 15;
/** PATH_MAX without the final 0. */
const MAX_PATH = 4095;
/** KSYM_NAME_LEN without the final 0. */
const MAX_SYMBOL = 511;
/** Limit of names in one interface selector. */
export const MAX_INTERFACES = 1024;

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

export const globalData = optional(
  mapOf(bytes(), {
    description:
      'Values of global variables, by name: the bytes as a list of integers, or in base64. The size must be that of the variable.',
  }),
);

/** @param whose `program` or `application` */
export const pullSecret = (whose: string) =>
  object('The credentials for the registry.', {
    name: string('The name of a Secret of type kubernetes.io/dockerconfigjson.', { minLength: 1 }),
    namespace: string(`Its namespace. A namespaced ${whose} can use only its own.`, { minLength: 1 }),
  });

export const imageUrl = string(
  'The image with the bytecode, in the form of `podman pull`: registry.example/team/count:v1.',
  { minLength: 1, maxLength: 2048 },
);

export const pullPolicy = oneOf(['Always', 'Never', 'IfNotPresent'], {
  description: 'When to pull the image.',
  default: 'IfNotPresent',
});

/**
 * The location of the bytecode: an image, or a file on the node.
 *
 * @param whose `program` or `application`
 * @param instead the kind that may have a path
 */
export function bytecodeLocation<const Image extends Fields[string]>(
  image: Image,
  scope: Scope,
  { whose, instead, kinds = instead }: { whose: string; instead: string; kinds?: string },
) {
  const inFile = string(`An object file on the node; only in ${kinds}.`, {
    minLength: 1,
    maxLength: MAX_PATH,
  });
  const pathRules: Readonly<Record<Scope, Rule>> = {
    Cluster: rule("!has(self.path) || self.path.startsWith('/')", 'path must be absolute', {
      fieldPath: '.path',
    }),
    Namespaced: rule(
      '!has(self.path)',
      `path is a file of the node, which a namespaced ${whose} must not read: use image, or ${instead}`,
      { fieldPath: '.path', reason: 'FieldValueForbidden' },
    ),
  };
  return object(
    { image: optional(image), path: optional(inFile) },
    {
      description: 'The location of the object file.',
      rules: [
        // A rule, because the message of minProperties names no field.
        rule('has(self.image) != has(self.path)', 'exactly one of image and path is required'),
        pathRules[scope],
      ],
    },
  );
}

/**
 * A selector of pods: in cluster-scoped kinds, pods of all namespaces; without the selector, the program is attached on the node itself.
 *
 * @param what the noun of the description, and `todo` its remainder
 * @param more fields besides the pod selector
 */
export function inPods<const F extends Fields>(scope: Scope, what: string, todo: string, more: F) {
  const pods = { pods: labelSelector('Selects pods; {} selects all.'), ...more };
  const namespace = string('The namespace of the pods; empty for all.', { default: '' });
  const anywhere = optional(
    object(`The ${what} ${todo}. Without it, the program is attached on the node itself.`, {
      namespace,
      ...pods,
    }),
  );
  // Both scopes get the same type: code that reads the fields asks the object for its scope.
  return scope === 'Cluster'
    ? anywhere
    : (object(`The ${what} of this namespace ${todo}.`, pods) as unknown as typeof anywhere);
}

export const containerNames = optional(
  list(string(), { description: 'The names of containers in these pods; default: all.' }),
);

export const interfaceNames = optional(
  list(string({ minLength: 1, maxLength: MAX_INTERFACE_NAME, pattern: '^[^/\\s]+$' }), {
    description: 'Interfaces by name.',
    minItems: 1,
    maxItems: MAX_INTERFACES,
  }),
);

export const primaryInterface = optional(
  boolean(
    'Selects the interface that has the InternalIP of the Node, or else the one of the default route. The only valid value is true.',
    { rules: [rule('self', 'only true is accepted; to name interfaces, use interfaces')] },
  ),
);

/** @param more a further sentence of the description, beginning with a space */
export const priority = (more = '') =>
  integer(
    `The position among the programs of its hook: 0 runs first. Equal priorities are ordered by name.${more}`,
    { format: 'int32', minimum: 0, maximum: 1000 },
  );

/** Schema options for a list of return codes. */
export const proceedOn = <const Action extends string>(
  { length }: readonly string[],
  byDefault: readonly Action[],
) =>
  ({
    description: 'The return codes after which the next program runs.',
    maxItems: length,
    default: byDefault,
  }) as const;

export const directionOf = { description: 'The direction of packets, as seen from the interface.' } as const;

/** A program type, and the field that holds its settings. */
export interface MemberSchema {
  readonly name: string;
  readonly field: string;
  readonly schema: Fields[string];
  readonly rule: Rule;
}

/** The list `programs` of an application. @param more fields that every program has, regardless of its type */
export const programList = (more: Fields, members: readonly MemberSchema[], description: string) =>
  list(
    object(
      {
        ...more,
        type: oneOf(
          members.map(({ name }) => name),
          { description: 'The type of the program.' },
        ),
        ...Object.fromEntries(members.map(({ field, schema }) => [field, optional(schema)])),
      },
      { rules: members.map((one) => one.rule) },
    ),
    { description, minItems: 1, maxItems: 256 },
  );

const symbol = (description: string) => string(description, { minLength: 1, maxLength: MAX_SYMBOL });
export const functionName = symbol('The function in the object file.');
export const kernelFunction = symbol('The kernel function.');
export const probedFunction = optional(symbol('The function. Without it, offset is relative to the file.'));
export const offset = integer('Offset in bytes from the start of the function.', {
  format: 'int64',
  minimum: 0,
  default: 0,
});
export const probedFile = string(
  'The executable or library: an absolute path, or the name of a library, such as libc.',
  { minLength: 1, maxLength: MAX_PATH },
);
export const onlyPid = optional(integer('Only this process; 0: all.', { format: 'int32', minimum: 0 }));

/** The schema options for the name of a tracepoint. */
export const tracepoint = {
  minLength: 3,
  maxLength: 256,
  pattern: '^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$',
} as const;
