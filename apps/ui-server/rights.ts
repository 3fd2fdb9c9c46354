/**
 * Which rights show what: the same rights with which `rampart-viewer` lets users read it with kubectl.
 *
 * | what                                    | rights                                                                          |
 * | --------------------------------------- | ------------------------------------------------------------------------------- |
 * | all findings                            | `get pods/log` in rampart-system, where they are                                |
 * | a finding about namespaces alone        | `get pods/log` in each of them, and `list` of its policy's kind, where it is    |
 * | an object, and why it is not guarded    | `list` of its kind in its namespace, or in all for a cluster-scoped kind        |
 * | the picture of a guard                  | all findings, nodes, and `list` of all that its viewers list, everywhere        |
 * | nodes, agents, the operator, and losses | `list nodes`, and `list leases` in rampart-system                               |
 */
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import type { FindingHead, ObjectReference } from '../../guard/stream/finding.ts';

export interface AccessQuestion {
  readonly verb: 'get' | 'list';
  /** '' is the core group. */
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** '': in all namespaces, or cluster-scoped. */
  readonly namespace: string;
}

export function keyOf({ verb, group, resource, subresource = '', namespace }: AccessQuestion): string {
  return `${verb} ${group}/${resource}/${subresource} ${namespace}`;
}

const logsIn = (namespace: string): AccessQuestion => ({
  ...{ verb: 'get', group: '', resource: 'pods', subresource: 'log', namespace },
});

export const allFindings: AccessQuestion = logsIn(systemNamespace);

export const ofNodes: readonly AccessQuestion[] = [
  { verb: 'list', group: '', resource: 'nodes', namespace: '' },
  { verb: 'list', group: 'coordination.k8s.io', resource: 'leases', namespace: systemNamespace },
];

/**
 * The rights that show objects of one kind of a guard.
 *
 * @param namespace - '': all namespaces, or a cluster-scoped kind.
 * @returns undefined for a kind that the guard's viewers may not list.
 */
export function listOf(
  guard: Guard | undefined,
  kind: string,
  namespace: string,
): AccessQuestion | undefined {
  if (guard === undefined) return undefined;
  const { resources, builtinKinds = [], rights } = guard;
  const type = [...resources, ...builtinKinds].find((one) => one.kind === kind);
  if (type === undefined) return undefined;
  const { group, plural } = type;
  const isListed = rights.viewer?.some(
    (right) =>
      right.inSystem !== true &&
      right.verbs.includes('list') &&
      right.apiGroups.includes(group) &&
      right.resources.includes(plural),
  );
  return isListed === true ? { verb: 'list', group, resource: plural, namespace } : undefined;
}

/** The rights that show the picture of a guard: it shows the whole cluster, and has no part for one namespace. */
export function pictureOf({ rights: { viewer = [] } }: Guard): readonly AccessQuestion[] {
  const lists = viewer.filter(({ verbs }) => verbs.includes('list'));
  const questions = lists.flatMap(({ apiGroups, resources, inSystem }) =>
    apiGroups.flatMap((group) =>
      resources.map((resource): AccessQuestion => {
        return { verb: 'list', group, resource, namespace: inSystem === true ? systemNamespace : '' };
      }),
    ),
  );
  return [allFindings, ...ofNodes, ...questions];
}

/**
 * The rights that show a finding to a user who may not see all findings.
 *
 * @param keys - The finding with all its keys.
 * @returns undefined if there are no such rights: the finding is about the cluster, or it is not known what it is about.
 */
export function rightsFor(
  guards: readonly Guard[],
  { guard: name, object, policy }: Pick<FindingHead, 'guard' | 'object' | 'policy'>,
  keys: object,
): readonly AccessQuestion[] | undefined {
  if (object === null || object.namespace === '') return undefined;
  const questions = [...namespacesIn(keys)].map(logsIn);
  if (policy !== null) {
    const question = listOfPolicy(guards, name, policy);
    if (question === undefined) return undefined;
    questions.push(question);
  }
  return questions;
}

function listOfPolicy(
  guards: readonly Guard[],
  name: string,
  { kind, namespace }: ObjectReference,
): AccessQuestion | undefined {
  return listOf(
    guards.find((guard) => guard.name === name),
    kind,
    namespace,
  );
}

/** All namespaces named anywhere in a finding: of the object, of the peer of a connection, of the acting process. */
function namespacesIn(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value !== 'object' || value === null) return found;
  for (const [key, of] of Object.entries(value)) {
    if (typeof of === 'string' && of !== '' && /namespace$/i.test(key)) found.add(of);
    else namespacesIn(of, found);
  }
  return found;
}
