/**
 * The watched files of a KivePolicy by node, and reasons for unwatched ones, as schemas: each node's part in
 * its KiveNodeStatus, and the status that the operator makes of all parts.
 */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import {
  boolean,
  integer,
  list,
  object,
  oneOf,
  optional,
  type ReadOf,
  string,
} from '../../lib/kube/crd/schema.ts';

const count = (description: string) => integer(description, { minimum: 0 });
const lastAlertTime = optional(
  string('When a file was last accessed. Updated with a delay of a few seconds.', { format: 'date-time' }),
);

/** Limit of a message, in characters. */
export const MAX_MESSAGE = 300;

/** How the message of a problem begins where some files of a directory are watched. */
export const PARTLY_WATCHED = 'partly watched: ';

const problemFields = {
  trap: count('The index in spec.traps.'),
  path: string('The path of the trap.', { maxLength: 4096 }),
  container: string('namespace/pod/container; empty for a file of the node itself.', { maxLength: 512 }),
  message: string('Why the file is not watched.', { maxLength: MAX_MESSAGE }),
};

const callbackProblemFields = {
  callback: string('The origin of the URL, and part of a hash to distinguish URLs of one origin.', {
    maxLength: 4096,
  }),
  message: string('Why it does not accept alerts.', { maxLength: MAX_MESSAGE }),
};

const nodeName = string('The node.', { maxLength: 253 });

const callbackProblem = object(
  'A callback of the policy that does not accept alerts from this node.',
  callbackProblemFields,
);

const part = object('What the node reports on one policy.', {
  namespace: string('The namespace of the policy.', { maxLength: 63 }),
  name: string('The policy.', { maxLength: 253 }),
  uid: string('The uid of the policy.', { maxLength: 64 }),
  observedGeneration: optional(integer('The observed metadata.generation.', { format: 'int64', minimum: 0 })),
  matchedContainers: count('Running containers that a trap matches.'),
  host: optional(boolean('Whether a trap matches the node itself.')),
  watchedFiles: count('Watched files in these containers and on the node itself.'),
  problemCount: count('Requested files there that are not watched.'),
  problems: optional(
    list(object('A requested file that is not watched.', problemFields), {
      description: 'The first of these files.',
      maxItems: 10,
    }),
  ),
  callbackProblems: optional(
    list(callbackProblem, { description: 'The first callbacks that do not accept alerts.', maxItems: 10 }),
  ),
  lastAlertTime,
});

/** No more than fit into an object, however short they are. */
export const MAX_PARTS = 10_000;

/** A KiveNodeStatus, besides its metadata. Its lists are written as a whole, by the agent of the node alone. */
export const nodeStatusFields = {
  policyCount: count('Policies that the node reports on.'),
  matchedContainers: count('Matched containers, summed over these policies.'),
  watchedFiles: count('Watched files, summed over these policies.'),
  problemCount: count('Requested files that are not watched, summed over these policies.'),
  omittedProblems: count(
    'Problems left out because the object would be too large; problemCount includes them.',
  ),
  omittedPolicies: count(
    'Policies left out because the object would be too large; policyCount includes them.',
  ),
  policies: list(part, {
    description:
      'Policies with a trap that matches containers on the node or the node itself, or that raised an alert there.',
    maxItems: MAX_PARTS,
  }),
};

/** Problems in the status of a policy, of all nodes. */
export const MAX_PROBLEMS = 20;
export const MAX_CALLBACK_PROBLEMS = 10;

export const policyStatus = object({
  conditions: optional(conditionList()),
  scope: optional(
    oneOf(['Cluster', 'Namespace'], {
      description: 'Whose pods the policy matches: those of all namespaces, or of its own.',
    }),
  ),
  matchedContainers: optional(count('Running containers that a trap matches, on all nodes.')),
  watchedFiles: optional(count('Watched files in these containers and on nodes.')),
  problemCount: optional(count('Requested files there that are not watched.')),
  matchedNodes: optional(count('Nodes that a trap matches themselves, or that have such containers.')),
  lastAlertTime,
  problems: optional(
    list(object('A requested file that is not watched.', { node: nodeName, ...problemFields }), {
      description: 'The first files that are not watched.',
      maxItems: MAX_PROBLEMS,
    }),
  ),
  callbackProblems: optional(
    list(
      object('A callback of the policy that does not accept alerts from a node.', {
        node: nodeName,
        ...callbackProblemFields,
      }),
      { description: 'The first callbacks that do not accept alerts.', maxItems: MAX_CALLBACK_PROBLEMS },
    ),
  ),
});

export type PolicyStatus = ReadOf<typeof policyStatus>;
/** Whether one of its traps applies to that node or to containers there. */
export function isMatched({ matchedContainers, host = false }: PolicyPart): boolean {
  return matchedContainers > 0 || host;
}

/** The report of one node's agent on a policy. */
export type PolicyPart = ReadOf<typeof part>;
/** The same, with the node. */
export type NodePart = PolicyPart & { readonly node: string };

/** The status of a policy if the schema of the stored object may be an older one. */
export function statusOf(policy: object): PolicyStatus {
  return (policy as { readonly status?: PolicyStatus }).status ?? {};
}

export type CallbackProblem = NonNullable<PolicyPart['callbackProblems']>[number];
