/**
 * Schemas of the watched files of a KivePolicy by node, and of the reasons for unwatched ones: for each node's part in
 * its KiveNodeStatus, and for the status that the operator makes of all parts.
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

/** Prefix of a problem's message if only some files of a directory are watched. */
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

/** More would not fit into an object, however short they are. */
export const MAX_PARTS = 10_000;

/** The fields of a KiveNodeStatus besides its metadata. Only the agent of the node writes it, and always its whole lists. */
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

/** Limit of the problems in the status of a policy, over all nodes. */
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
/** Whether a trap of the policy matches the node itself or containers on it. */
export function isMatched({ matchedContainers, host = false }: PolicyPart): boolean {
  return matchedContainers > 0 || host;
}

/** The report of one node's agent on a policy. */
export type PolicyPart = ReadOf<typeof part>;
/** The report of one node's agent, with the node's name. */
export type NodePart = PolicyPart & { readonly node: string };

/** The status of a policy, whose stored object may be from an older schema. */
export function statusOf(policy: object): PolicyStatus {
  return (policy as { readonly status?: PolicyStatus }).status ?? {};
}

export type CallbackProblem = NonNullable<PolicyPart['callbackProblems']>[number];
