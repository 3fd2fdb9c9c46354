/** Decides which findings `rampart integrity accept` asks which nodes to accept, from what the API has. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { pathGlob } from '../../../lib/regex/glob.ts';
import {
  bothGroups,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  type ReportedFinding,
} from '../api.ts';
import { nodeStatusName } from '../results/object-names.ts';
import { someOf } from '../../../lib/output/words.ts';

/** Limit of names in one message. */
const maxNamed = 5;

export interface FoundIntegrity {
  readonly namespace: string;
  readonly name: string;
  /** The API groups that have a FileIntegrity of this name; the FileIntegrityNodeStatus objects are in the same group. */
  readonly groups: readonly IntegrityTypes[];
}

export interface NodePlan {
  readonly nodeName: string;
  readonly types: IntegrityTypes;
  readonly findings: readonly ReportedFinding[];
  /** Number of earlier findings that the status only counts; the agent knows their paths. */
  readonly omitted: number;
  /** When the latest finding of the status was seen: later ones have not been reviewed. */
  readonly seenUntilMs: number | undefined;
}

/**
 * Finds a FileIntegrity by name.
 *
 * @param namespace as given by the user; if undefined, first the client's namespace, then any other that has the name
 * @throws {RampartError} `NOT_FOUND`; `INPUT` if several namespaces have the name
 */
export async function findIntegrity(
  client: KubeClient,
  name: string,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<FoundIntegrity> {
  const here = namespace ?? client.namespace;
  const found = await Promise.all(
    // "Not found" may also mean that the API group is not installed.
    bothGroups.map(({ integrities }) =>
      orUndefined(client.get(integrities, { namespace: here, name }, { signal })),
    ),
  );
  const groups = bothGroups.filter((_, at) => found[at] !== undefined);
  if (groups.length > 0) return { namespace: here, name, groups };
  const elsewhere =
    namespace === undefined ? await everywhere(client, name, signal) : new Map<string, IntegrityTypes[]>();
  const [first] = elsewhere;
  if (first !== undefined && elsewhere.size === 1) return { namespace: first[0], name, groups: first[1] };
  if (elsewhere.size > 1) {
    throw new RampartError(errorCodes.INPUT, {
      what: `several FileIntegrities are named ${name}`,
      why: `they are in the namespaces ${[...elsewhere.keys()].toSorted().join(', ')}`,
      next: 'Give the namespace with -n',
    });
  }
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `there is no FileIntegrity ${name}${namespace === undefined ? '' : ` in namespace ${namespace}`}`,
    next: 'kubectl get fileintegrities -A lists them',
  });
}

async function everywhere(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<Map<string, IntegrityTypes[]>> {
  const namespaces = new Map<string, IntegrityTypes[]>();
  for (const types of bothGroups) {
    const fieldSelector = `metadata.name=${name}`;
    const list = await orUndefined(client.list(types.integrities, {}, { signal, fieldSelector }));
    for (const { metadata } of list?.items ?? []) {
      if (metadata.name !== name || metadata.namespace === undefined) continue;
      namespaces.set(metadata.namespace, [...(namespaces.get(metadata.namespace) ?? []), types]);
    }
  }
  return namespaces;
}

/** The statuses of the nodes of a FileIntegrity, sorted by node. */
export async function statusesOf(
  client: KubeClient,
  { namespace, name, groups }: FoundIntegrity,
  signal: AbortSignal,
): Promise<readonly { readonly types: IntegrityTypes; readonly status: FileIntegrityNodeStatus }[]> {
  const found: { types: IntegrityTypes; status: FileIntegrityNodeStatus }[] = [];
  for (const types of groups) {
    const { items } = await client.list(types.nodeStatuses, { namespace }, { signal });
    for (const status of items) {
      // The name alone is ambiguous: `a-b` on `c` and `a` on `b-c` both join to `a-b-c`. So it is compared with the one
      // for this node.
      if (status.metadata.name === nodeStatusName(name, status.nodeName)) found.push({ types, status });
    }
  }
  return found.toSorted((a, b) => (a.status.nodeName < b.status.nodeName ? -1 : 1));
}

/**
 * @param glob selects paths; undefined for all
 * @throws {RampartError} `NOT_FOUND` if there is nothing to accept, `INPUT` for an invalid glob
 */
export function planAccept(
  integrity: FoundIntegrity,
  statuses: readonly { readonly types: IntegrityTypes; readonly status: FileIntegrityNodeStatus }[],
  nodes: readonly string[],
  glob: string | undefined,
): readonly NodePlan[] {
  const fitsGlob = glob === undefined ? () => true : pathGlob(glob, '--path');
  // A path may also be given literally: names may contain special characters of globs, e.g. `[id].js`.
  const fits = (path: string): boolean => path === glob || fitsGlob(path);
  const of = `of FileIntegrity ${integrity.namespace}/${integrity.name}`;
  const known = new Set(statuses.map(({ status }) => status.nodeName));
  const unknown = nodes.filter((node) => !known.has(node));
  if (unknown.length > 0) {
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `no findings ${of} are known on ${unknown.join(', ')}`,
      next: known.size === 0 ? 'No node has reported yet' : `Known nodes: ${someOf([...known], maxNamed)}`,
    });
  }
  const asked = statuses.filter(({ status }) => nodes.length === 0 || nodes.includes(status.nodeName));
  const withFindings = asked.filter(
    ({ status }) => (status.findings?.length ?? 0) + (status.omittedFindings ?? 0) > 0,
  );
  if (withFindings.length === 0) {
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `there are no findings ${of}${nodes.length === 0 ? '' : ` on ${nodes.join(', ')}`}`,
      why:
        asked.length === 0
          ? 'no node has reported yet'
          : someOf(
              asked.map(({ status }) => conditionOf(status)),
              maxNamed,
            ),
      next: 'There is nothing to accept',
    });
  }
  const plans = withFindings.map(({ types, status }): NodePlan => {
    const findings = (status.findings ?? []).filter(({ path }) => fits(path));
    const times = (status.findings ?? [])
      .map(({ seen, last }) => Date.parse(last?.seen ?? seen))
      .filter(Number.isFinite);
    const seenUntilMs = times.length > 0 ? Math.max(...times) : undefined;
    return { nodeName: status.nodeName, types, findings, omitted: status.omittedFindings ?? 0, seenUntilMs };
  });
  const meant = plans.filter(({ findings, omitted }) => findings.length + omitted > 0);
  if (meant.length > 0) return meant;
  const paths = new Set(
    withFindings.flatMap(({ status }) => (status.findings ?? []).map(({ path }) => path)),
  );
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `--path ${JSON.stringify(glob ?? '')} matches no finding ${of}`,
    why: `the findings are ${someOf([...paths], maxNamed)}`,
    next: '* does not match /, ** does; a pattern without / matches file names',
  });
}

function conditionOf({ nodeName, lastResult }: FileIntegrityNodeStatus): string {
  const message = lastResult?.errorMessage;
  return `${nodeName} is ${lastResult?.condition ?? 'not known yet'}${message === undefined ? '' : ` (${message})`}`;
}
