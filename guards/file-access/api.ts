/**
 * The resources of the file-access guard: KivePolicy, written by users; KiveData, shared between agents; and KiveNodeStatus, which is ours,
 * from agents to the operator. Group, kinds and fields of the first two are Kive's, so that its objects work unchanged.
 *
 * The manifests in `crd/` are generated from this file: `node scripts/manifests.ts --write`.
 */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import { ageColumn, defineResource, type ObjectOf, resourceType } from '../../lib/kube/crd/resource.ts';
import {
  boolean,
  integer,
  intOrString,
  list,
  mapOf,
  object,
  oneOf,
  optional,
  type ReadOf,
  rule,
  type Rule,
  string,
} from '../../lib/kube/crd/schema.ts';
import { accessWords } from '../../lib/sensor/access.ts';
import { misreadModes } from './policy/file-mode.ts';
import { MAX_PROGRAMS } from './process-filter.ts';
import { nodeStatusFields, policyStatus } from './policy-status-schema.ts';

const group = 'kivebpf.san7o.github.io';

/** The namespace of all KiveData: that of Kive, where its consumers look for them. */
export const kiveDataNamespace = 'kivebpf-system';

/** In RE2 syntax. Excludes `@`: the part before it would be a name and a password, which every alert would show. */
const callbackPattern = '^$|^(?i:https?)://[^/?#@[:space:]]+([/?#][^[:space:]]*)?$';

/** The name of a Secret: a DNS subdomain (RFC 1123). */
const secretPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';

/** Kubernetes' message for a pattern shows only the pattern; the message of a rule can say what is wrong with the path. */
function pathRule(expression: string, why: string) {
  return rule(expression, `path ${why}`, { messageExpression: `"path ${why}; it is '" + self + "'"` });
}

function containerName(description: string) {
  return string(description, {
    // Names have up to 63 characters. With a limit of 128, the rule needs at most half of Kubernetes' cost budget.
    maxLength: 128,
    rules: [
      // Evaluating an invalid expression is an error in CEL, so the object is refused.
      rule(
        "self.startsWith('glob:') || ''.matches(self) in [true, false]",
        'must be a regular expression of RE2, or begin with "glob:"',
      ),
    ],
  });
}

/** Fields that select containers: none of them may be set together with `host`. */
const ofContainers =
  'has(self.pod) || has(self.__namespace__) || has(self.ip) || has(self.containerName) || has(self.container__dash__name) || ' +
  'has(self.matchLabels)';

const match = object(
  {
    host: optional(
      boolean(
        'The node itself, every one: the path is a file of the node, and accesses to it by all processes raise alerts, including those of containers that have it as a volume. Alone in its block. Only for policies in kivebpf-system and rampart-system.',
      ),
    ),
    pod: optional(string('The name of the pod. An empty value matches all.', { maxLength: 253 })),
    namespace: optional(
      string(
        'The namespace of the pod. A policy outside kivebpf-system and rampart-system matches only pods of its own namespace, and cannot name another one, unless the agents and the operator run with --kive-policy-namespaces. An empty value matches all that the policy may match.',
        { maxLength: 63 },
      ),
    ),
    containerName: optional(
      containerName(
        'The name of the container. A value with characters that container names cannot have, such as ".*", is an RE2 regular expression. The prefix "regex:" or "glob:" selects the kind of pattern explicitly. Patterns match the whole name: "web" does not match "web-proxy". An empty value matches all.',
      ),
    ),
    'container-name': optional(containerName('An older spelling of containerName. Set only one of the two.')),
    ip: optional(
      string('One of the IP addresses of the pod, as in its status. An empty value matches all.', {
        maxLength: 45,
        pattern: '^[0-9A-Fa-f:.]*$',
      }),
    ),
    matchLabels: optional(
      mapOf(string({ maxLength: 63 }), { description: 'Labels that the pod must have, all of them.' }),
    ),
  },
  {
    description:
      'Matches containers that meet every criterion set here, or with host the node itself. At least one is required.',
    minProperties: 1,
    rules: [
      rule(
        '!(has(self.host) && self.host) || !(' + ofContainers + ')',
        'host: true matches the node itself, and no containers: write what matches containers in another block',
        { fieldPath: '.host' },
      ),
      rule(
        ofContainers + ' || (has(self.host) && self.host)',
        'At least one match block with one match item must be present: an empty block would match every container. To watch them all, ' +
          'write containerName: ".*"',
        { reason: 'FieldValueRequired' },
      ),
    ],
  },
);

/** Path components that are neither "." nor "..". A rule for each item would exceed Kubernetes' cost budget. */
const programPattern = '^(/([^/.\\x00][^/\\x00]*|[.][^/.\\x00][^/\\x00]*|[.][.][^/\\x00]+))+$';

const programs = (description: string) =>
  list(
    string('The absolute path of a program, without "." and ".." components.', {
      maxLength: 1024,
      pattern: programPattern,
    }),
    { description, minItems: 1, maxItems: MAX_PROGRAMS },
  );

const trapFields = {
  path: string(
    'The absolute path of the file within the container or on the node, without "." and ".." components. A path that ends in /* is for the files in a directory, one that ends in /** for all files below it, at most 65,536. A * anywhere else is refused.',
    {
      minLength: 1,
      maxLength: 4096,
      rules: [
        pathRule("self.startsWith('/')", 'must be absolute'),
        pathRule("!self.endsWith('/')", 'must be that of a file'),
        pathRule(
          "!self.contains('/./') && !self.endsWith('/.') && !self.contains('/../') && !self.endsWith('/..')",
          "must not contain '.' or '..' components",
        ),
        pathRule(
          "!self.contains('*') || (self.endsWith('/*') && self.indexOf('*') == size(self) - 1) || (self.endsWith('/**') && self.indexOf('*') == size(self) - 2)",
          "must not contain '*', except as '/*' or '/**' at its end",
        ),
        rule("!self.contains('\\u0000')", 'path must not contain NUL'),
      ],
    },
  ),
  create: optional(
    boolean(
      'Create the file if it does not exist. An existing file is never changed. Refused for paths that the dynamic linker, shells, logins, cron or the init system use, and on the node itself.',
    ),
  ),
  mode: optional(
    intOrString(
      'Permissions of a created file; default: 0400. Setuid and setgid are refused. The digits are octal: 444 is r--r--r--, whether as a number or as a string. YAML reads an unquoted 0444 as the number 292: write 444 or "0444".',
      {
        pattern: '^(0o?)?[0-7]{1,4}$',
        // The length of the longest mode, 0o0644; without a limit, the rule would exceed Kubernetes' cost budget.
        maxLength: 6,
        minimum: 0,
        maximum: 7777,
        rules: [
          rule(
            'type(self) != int || (self % 10 < 8 && self / 10 % 10 < 8 && self / 100 % 10 < 8 && self / 1000 < 8 && ' +
              `!(self in [${misreadModes.join(', ')}]))`,
            'the digits are octal; YAML reads an unquoted number with a leading 0 differently (292 for 0444, 420 for ' +
              '0644): write 444 or "0444"',
          ),
        ],
      },
    ),
  ),
  callback: optional(
    string(
      'An http:// or https:// URL to which alerts are also sent, with POST. It must not contain a user name.',
      { maxLength: 2048, pattern: callbackPattern },
    ),
  ),
  callbackSecret: optional(
    string(
      'A Secret in the namespace of the policy with credentials for the callback, which must be https://. Its keys are token (a bearer token), tls.crt with tls.key (a client certificate), and ca.crt (the certificate authority of the receiver); at least one is required. If the Secret does not exist, no alerts are sent.',
      { minLength: 1, maxLength: 253, pattern: secretPattern },
    ),
  ),
  operations: optional(
    list(oneOf(accessWords), {
      description:
        'Only these raise alerts: read, write, execute, append, check (a query whether access would be allowed), open (for none of these), delete, rename, replace (another file is renamed over it), attributes (mode, owner, times, extended attributes). Default: all.',
      minItems: 1,
      maxItems: accessWords.length,
    }),
  ),
  processes: optional(
    object(
      {
        except: optional(
          programs(
            'Accesses by processes that run one of these programs, in the same container, raise no alert.',
          ),
        ),
        only: optional(programs('Only accesses by processes that run one of these programs raise alerts.')),
      },
      {
        description:
          'Which processes raise alerts, by their executable: paths of programs in the container, or on the node for a match with host: true. Links are followed. What runs another file of the same name is another program. Set one of the two. Default: all processes.',
        rules: [
          rule('has(self.except) != has(self.only)', 'needs except or only, and not both', {
            reason: 'FieldValueRequired',
          }),
        ],
      },
    ),
  ),
  metadata: optional(mapOf(string(), { description: 'Included in each alert as custom-metadata.' })),
  matchAny: optional(
    list(match, {
      description: 'Selects the containers: those that match any of these; or the node itself.',
      maxItems: 32,
    }),
  ),
};

/**
 * Refuses a trap without a match, which would select no container. Releases of Kive accept it, and one of its samples, of v2alpha1, has
 * such a trap.
 */
const matchRule = rule(
  'has(self.matchAny) && size(self.matchAny) > 0',
  'At least one match block with one match item must be present: without one the trap matches no container',
  { reason: 'FieldValueRequired', fieldPath: '.matchAny' },
);
const secretRule = rule(
  "!has(self.callbackSecret) || (has(self.callback) && self.callback.matches('^[Hh][Tt][Tt][Pp][Ss]:'))",
  'callbackSecret requires a callback with https://',
  { fieldPath: '.callbackSecret' },
);
const createRule = rule(
  '!has(self.create) || !self.create || !has(self.matchAny) || self.matchAny.all(one, !has(one.host) || !one.host)',
  'create is for files in containers: nothing is created on the node itself (matchAny with host: true)',
  { fieldPath: '.create' },
);

function policyFields(rules: readonly Rule[]) {
  const trap = object(trapFields, {
    description: 'A file in matching containers, or on the node itself. Each access to it raises an alert.',
    rules,
  });
  return {
    spec: object({
      alertVersion: optional(
        string(
          'The version of the alert format, v1 or v2alpha1. They have the same keys; alerts name the version. If empty or unknown, v1 is used.',
        ),
      ),
      traps: list(trap, { description: 'The watched files.', maxItems: 1000 }),
    }),
    status: optional(policyStatus),
  };
}

const policyVersion = {
  description: 'Selects files in containers and on nodes, and reports accesses to them.',
  columns: [
    { name: 'Paths', type: 'string', jsonPath: '.spec.traps[*].path' },
    { name: 'Containers', type: 'integer', jsonPath: '.status.matchedContainers' },
    { name: 'Files', type: 'integer', jsonPath: '.status.watchedFiles' },
    { name: 'Last Alert', type: 'date', jsonPath: '.status.lastAlertTime' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    ageColumn,
  ],
} as const;

/**
 * All of Kive's versions have the same fields, and so do ours: Kubernetes converts objects by changing only the apiVersion (strategy None),
 * and drops fields that the other version lacks. Kive stored objects as v2alpha1; without that version they would be unreadable, and
 * Kubernetes refuses a definition that drops a stored version.
 */
export const kivePolicies = defineResource({
  group,
  kind: 'KivePolicy',
  plural: 'kivepolicies',
  scope: 'Namespaced',
  versions: {
    v1: { ...policyVersion, storage: true, fields: policyFields([matchRule, secretRule, createRule]) },
    v2alpha1: { ...policyVersion, storage: false, fields: policyFields([secretRule, createRule]) },
  },
});

/** Releases of Kive wrote these fields with a dash, or only one of them with a dash; both forms are read. */
function eitherRule(name: string, dashed: string) {
  return rule(`has(self.${name}) || has(self.${dashed.replaceAll('-', '__dash__')})`, `${name} is required`, {
    reason: 'FieldValueRequired',
    fieldPath: `.${name}`,
  });
}

const inode = {
  description: 'The inode number of the file. As a JSON number, JavaScript rounds it above 2^53.',
  format: 'int64',
  minimum: 0,
} as const;
const device = {
  description: 'The device of the file system, as the kernel encodes it: major << 20 | minor.',
  format: 'int64',
  minimum: 0,
} as const;
const kernel = {
  description: 'The kernel that the file belongs to: /proc/sys/kernel/random/boot_id.',
  maxLength: 64,
} as const;
const older = <T extends { readonly description: string }>(options: T, name: string): T => ({
  ...options,
  description: `The former spelling of ${name}.`,
});

const dataVersion = {
  description:
    'A file in a container or on a node that a KivePolicy watches. Written by the agents; do not edit.',
  fields: {
    spec: object(
      {
        inodeNo: optional(integer(inode)),
        devId: optional(integer(device)),
        kernelId: optional(string(kernel)),
        metadata: optional(mapOf(string(), { description: 'Included in each alert as custom-metadata.' })),
        'inode-no': optional(integer(older(inode, 'inodeNo'))),
        'dev-id': optional(integer(older(device, 'devId'))),
        'kernel-id': optional(string(older(kernel, 'kernelId'))),
      },
      // No rule for `kernelId`: Kive's last release has it in a label, which rules cannot read.
      { rules: [eitherRule('inodeNo', 'inode-no'), eitherRule('devId', 'dev-id')] },
    ),
    status: optional(object({ conditions: optional(conditionList()) })),
  },
  columns: [
    { name: 'Policy', type: 'string', jsonPath: '.metadata.annotations.kive-policy-name' },
    { name: 'Pod', type: 'string', jsonPath: '.metadata.annotations.pod-name' },
    { name: 'Path', type: 'string', jsonPath: '.metadata.annotations.path' },
    { name: 'Inode', type: 'integer', jsonPath: '.spec.inodeNo', priority: 1 },
    { name: 'Kernel', type: 'string', jsonPath: '.spec.kernelId', priority: 1 },
    ageColumn,
  ],
} as const;

export const kiveData = defineResource({
  group,
  kind: 'KiveData',
  plural: 'kivedata',
  scope: 'Namespaced',
  versions: { v1: { ...dataVersion, storage: true }, v2alpha1: { ...dataVersion, storage: false } },
});

/**
 * One object for each node: if the reports of nodes were parts of the policies, each write of a node would be sent to the agents of all
 * nodes.
 */
export const kiveNodeStatuses = defineResource({
  group,
  kind: 'KiveNodeStatus',
  plural: 'kivenodestatuses',
  scope: 'Namespaced',
  versions: {
    v1: {
      description: 'What a node reports on KivePolicies. Written by its agent; do not edit.',
      fields: nodeStatusFields,
      columns: [
        { name: 'Policies', type: 'integer', jsonPath: '.policyCount' },
        { name: 'Files', type: 'integer', jsonPath: '.watchedFiles' },
        { name: 'Problems', type: 'integer', jsonPath: '.problemCount' },
        ageColumn,
      ],
    },
  },
});

export type KivePolicy = ObjectOf<typeof kivePolicies, 'v1'>;
export type KiveData = ObjectOf<typeof kiveData, 'v1'>;
export type KiveNodeStatus = ObjectOf<typeof kiveNodeStatuses, 'v1'>;
export type KiveTrap = KivePolicy['spec']['traps'][number];
export type KiveMatch = ReadOf<typeof match>;

export const kivePolicyType = resourceType(kivePolicies, 'v1');
export const kiveDataType = resourceType(kiveData, 'v1');
export const kiveNodeStatusType = resourceType(kiveNodeStatuses, 'v1');
