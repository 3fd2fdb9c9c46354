/** The status of a KivePolicy, as a schema: what is watched for it, where, and why something is not. */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import { integer, list, object, optional, type ReadOf, string } from '../../lib/kube/crd/schema.ts';

const count = (description: string) => integer(description, { minimum: 0 });
const lastAlertTime = optional(
  string('When a file was last accessed. Updated with a delay of a few seconds.', { format: 'date-time' }),
);

const problem = object('A requested file that is not watched.', {
  trap: count('The index in spec.traps.'),
  path: string('The path of the trap.'),
  container: string('namespace/pod/container.'),
  message: string('Why the file is not watched.'),
});

const callbackProblem = object('A callback of the policy that does not accept alerts from this node.', {
  callback: string('The origin of the URL, and part of a hash to distinguish URLs of one origin.'),
  message: string('Why it does not accept alerts.'),
});

const node = object('The report of the agent on one node.', {
  name: string('The node.'),
  observedGeneration: optional(integer('The observed metadata.generation.', { format: 'int64', minimum: 0 })),
  matchedContainers: count('Running containers that a trap matches.'),
  watchedFiles: count('Watched files in these containers.'),
  problemCount: count('Requested files in these containers that are not watched.'),
  problems: optional(list(problem, { description: 'The first of these files.', maxItems: 10 })),
  callbackProblems: optional(
    list(callbackProblem, { description: 'The first callbacks that do not accept alerts.', maxItems: 10 }),
  ),
  lastAlertTime,
});

export const policyStatus = object({
  conditions: optional(conditionList()),
  matchedContainers: optional(count('Running containers that a trap matches, on all nodes.')),
  watchedFiles: optional(count('Watched files in these containers.')),
  lastAlertTime,
  nodes: optional(
    list(node, { description: 'Nodes with containers that a trap matches.', mapKeys: ['name'] }),
  ),
});

export type PolicyStatus = ReadOf<typeof policyStatus>;
/** What the agent of one node says of a policy. */
export type PolicyNodeStatus = ReadOf<typeof node>;

/** The status of a policy, where the schema of the stored object may be an older one. */
export function statusOf(policy: object): PolicyStatus {
  return (policy as { readonly status?: PolicyStatus }).status ?? {};
}

export type CallbackProblem = NonNullable<PolicyNodeStatus['callbackProblems']>[number];
