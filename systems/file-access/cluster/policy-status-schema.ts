/**
 * The status of a KivePolicy, as a schema: what is watched for it, where, and why something is not.
 *
 * @module
 */
import { conditionList } from '../../../shared/kube/crd/condition-list.ts';
import { integer, list, object, optional, type ReadOf, string } from '../../../shared/kube/crd/schema.ts';

const count = (description: string) => integer({ description, minimum: 0 });
const lastAlertTime = optional(
  string({ description: 'When a file was last accessed; told some seconds late.', format: 'date-time' }),
);

const problem = object(
  {
    trap: count('Which of spec.traps.'),
    path: string({ description: 'The path of the trap.' }),
    container: string({ description: 'namespace/pod/container.' }),
    message: string({ description: 'Why the file is not watched.' }),
  },
  { description: 'A file that is asked for and not watched.' },
);

const callbackProblem = object(
  {
    callback: string({
      description: 'The origin of the URL, and a part of a hash to tell those of one origin apart.',
    }),
    message: string({ description: 'Why.' }),
  },
  { description: 'A callback of the policy that takes no alerts of this node.' },
);

const node = object(
  {
    name: string({ description: 'The node.' }),
    observedGeneration: optional(
      integer({ description: 'The metadata.generation that this is about.', format: 'int64', minimum: 0 }),
    ),
    matchedContainers: count('Running containers that a trap is for.'),
    watchedFiles: count('Files that are watched in them.'),
    problemCount: count('Files that are asked for in them and not watched.'),
    problems: optional(list(problem, { description: 'The first of these.', maxItems: 10 })),
    callbackProblems: optional(
      list(callbackProblem, { description: 'The first callbacks that take no alerts.', maxItems: 10 }),
    ),
    lastAlertTime,
  },
  { description: 'What the agent of one node says.' },
);

export const policyStatus = object({
  conditions: optional(conditionList()),
  matchedContainers: optional(count('Running containers that a trap is for, on all nodes.')),
  watchedFiles: optional(count('Files that are watched in them.')),
  lastAlertTime,
  nodes: optional(
    list(node, { description: 'Nodes with containers that a trap is for.', mapKeys: ['name'] }),
  ),
});

export type PolicyStatus = ReadOf<typeof policyStatus>;
/** What the agent of one node says of a policy. */
export type PolicyNodeStatus = ReadOf<typeof node>;
