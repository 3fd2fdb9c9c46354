/** Computes the status of a FileIntegrity: its phase, the results of its nodes, its conditions. */
import { compareText } from '../../../lib/output/compare-text.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import { type ConditionChange, setCondition } from '../../../lib/kube/object/conditions.ts';
import {
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type FileIntegrityStatus,
  names,
  type NodeStatus,
  type Phase,
  type ScanResult,
} from '../api.ts';
import { heldNodes } from '../results/holdoff.ts';
import { requestsOf } from '../results/node-requests.ts';
import type { Progress } from '../results/node-facts.ts';
import { someOf } from '../../../lib/output/words.ts';

/** Limit of results in one status: each takes 200 bytes and its shortened error message, and etcd accepts 1.5 MiB. */
export const maxNodeStatus = 1000;
/** Limit of an error message, which may be 900 bytes. The FileIntegrityNodeStatus has the whole message, up to 16 kB. */
const maxMessageCharacters = 300;

/** Limit of nodes named in one message. */
export const maxNamedNodes = 10;

/** The result of reading the configuration. */
export interface Configured {
  readonly isUsable: boolean;
  /** Whether a substitute is in use until the requested configuration can be used. */
  readonly isSubstitute?: true;
  readonly reason: string;
  readonly message: string;
  /** The converted text that agents have now; undefined if they have none. */
  readonly text?: string | undefined;
}

export interface IntegrityFacts {
  readonly configured: Configured;
  /** The nodes that the FileIntegrity selects. */
  readonly nodeNames: readonly string[];
  readonly statuses: readonly FileIntegrityNodeStatus[];
  /** Id of the configuration that new results must have; undefined if unknown. See `configurationId`. */
  readonly configuration?: string | undefined;
  /** Keyed by node; contains only some of the {@link initializingNodes}. */
  readonly progress?: ReadonlyMap<string, Progress>;
}

/**
 * The phase, as in FIO. Pending: no node is selected. Initializing: baselines are being created. Active: scans run.
 * Error: a node or the configuration has an error. An error takes precedence over a node without a result, so that a
 * node which never answers does not hide it. But while baselines are replaced, the phase is Initializing, since that
 * clears errors of nodes.
 */
export function phaseOf({ configured, nodeNames, statuses, configuration }: IntegrityFacts): Phase {
  if (!configured.isUsable) return 'Error';
  if (nodeNames.length === 0) return 'Pending';
  if (statuses.some((status) => isOutdated(status, configuration))) return 'Initializing';
  if (statuses.some(({ lastResult }) => lastResult?.condition === 'Errored')) return 'Error';
  const known = scannedNodes(statuses);
  return nodeNames.every((name) => known.has(name)) ? 'Active' : 'Initializing';
}

function scannedNodes(statuses: readonly FileIntegrityNodeStatus[]): ReadonlySet<string> {
  return new Set(
    statuses.filter(({ lastResult }) => lastResult !== undefined).map(({ nodeName }) => nodeName),
  );
}

/** Nodes without a first result, or whose baseline is about to be replaced. */
export function initializingNodes({
  nodeNames,
  statuses,
  configuration,
}: Pick<IntegrityFacts, 'nodeNames' | 'statuses' | 'configuration'>): readonly string[] {
  const known = scannedNodes(statuses.filter((status) => !isOutdated(status, configuration)));
  return nodeNames.filter((name) => !known.has(name)).toSorted(compareText);
}

/** Whether the node's baseline is about to be replaced: on request, or because the configuration has changed. */
function isOutdated(
  { metadata, configuration }: FileIntegrityNodeStatus,
  wanted: IntegrityFacts['configuration'],
): boolean {
  if (requestsOf(metadata.annotations).some(({ kind }) => kind === 're-init')) return true;
  // An older agent does not report its configuration.
  return wanted !== undefined && configuration !== undefined && configuration !== wanted;
}

export function statusOf(
  integrity: FileIntegrity,
  facts: IntegrityFacts,
  clock: Pick<Clock, 'wallMs'>,
): FileIntegrityStatus {
  const { kept, omitted } = nodeStatusOf(facts.statuses);
  const { generation: observedGeneration } = integrity.metadata;
  const { isUsable, isSubstitute, reason, message } = facts.configured;
  const isConfigured = isUsable && isSubstitute === undefined;
  const held = heldNodes(integrity);
  const isPaused = held !== undefined;
  const changes: ConditionChange[] = [
    { type: 'Configured', status: isConfigured ? 'True' : 'False', reason, message, observedGeneration },
    {
      type: 'Paused',
      status: isPaused ? 'True' : 'False',
      reason: isPaused ? 'HoldOff' : 'NoHoldOff',
      message: isPaused
        ? `No scans run${held.length === 0 ? '' : ` on ${someOf(held, maxNamedNodes)}`} until the annotation ${names.holdoff} is removed.`
        : '',
      observedGeneration,
    },
    { ...completeness(facts), observedGeneration },
  ];
  return {
    phase: phaseOf(facts),
    nodeStatus: kept,
    ...(omitted > 0 && { omittedNodeStatus: omitted }),
    conditions: changes.reduce(
      (list, change) => setCondition(list, change, clock),
      integrity.status?.conditions ?? [],
    ),
  };
}

/**
 * The condition Complete: whether everything requested was examined. A node whose files could not be read may have no
 * findings and still not be in order.
 */
function completeness(facts: IntegrityFacts): Omit<ConditionChange, 'observedGeneration'> {
  const { nodeNames, statuses, progress } = facts;
  const type = 'Complete';
  const some = statuses.filter(
    ({ unread, lastResult }) => unread !== undefined || lastResult?.condition === 'Errored',
  );
  if (some.length > 0) {
    const nodes = someOf(some.map(({ nodeName }) => nodeName).toSorted(), maxNamedNodes);
    const message = `Files could not be read on ${nodes}: see the FileIntegrityNodeStatus.`;
    return { type, status: 'False', reason: 'FilesUnread', message };
  }
  const known = scannedNodes(statuses);
  if (known.size === 0 && nodeNames.length === 0)
    return { type, status: 'Unknown', reason: 'NotScanned', message: 'No node has been scanned.' };
  const nodes = initializingNodes(facts);
  if (nodes.length === 0) return { type, status: 'True', reason: 'AllFilesRead', message: '' };
  const isNew = nodes.some((name) => !known.has(name));
  const named = nodes.map((name, at) =>
    at < maxNamedNodes ? `${name}${progressText(progress?.get(name))}` : name,
  );
  return {
    ...{ type, status: 'Unknown', reason: isNew ? 'NotScanned' : 'NewBaseline' },
    message: `${isNew ? 'Not scanned yet' : 'A new baseline is being made'}: ${someOf(named, maxNamedNodes)}.`,
  };
}

function progressText(progress: Progress | undefined): string {
  if (progress === undefined) return '';
  const { step, since, entries, entriesPerSecond } = progress;
  const what = step === 'check' ? 'scan' : 'baseline';
  return ` (${what} since ${since}: ${entries} entries, ${entriesPerSecond} per second)`;
}

/** Whether the status already has the condition Paused as True; undefined if it does not have the condition. */
export function wasPaused({ status }: FileIntegrity): boolean | undefined {
  const found = status?.conditions?.find(({ type }) => type === 'Paused');
  return found && found.status === 'True';
}

/** If not everything fits, current problems are kept first. */
function nodeStatusOf(statuses: readonly FileIntegrityNodeStatus[]): {
  readonly kept: readonly NodeStatus[];
  readonly omitted: number;
} {
  const all = statuses.flatMap(({ nodeName, results, lastResult }) =>
    results.map((result) => ({
      entry: { nodeName, ...withShortMessage(result) },
      rank: result.condition !== lastResult?.condition ? 2 : result.condition === 'Succeeded' ? 1 : 0,
    })),
  );
  const kept = all
    .toSorted((a, b) => a.rank - b.rank || compareText(a.entry.nodeName, b.entry.nodeName))
    .slice(0, maxNodeStatus)
    .map(({ entry }) => entry)
    .toSorted((a, b) => compareText(a.nodeName, b.nodeName) || compareText(a.lastProbeTime, b.lastProbeTime));
  return { kept, omitted: all.length - kept.length };
}

function withShortMessage(result: ScanResult): ScanResult {
  const { errorMessage = '' } = result;
  if (errorMessage.length <= maxMessageCharacters) return result;
  return { ...result, errorMessage: `${errorMessage.slice(0, maxMessageCharacters - 1).toWellFormed()}…` };
}

/** Whether two statuses are equal except for the times of probes, which change with every scan. */
export function isSameState(a: FileIntegrityStatus | undefined, b: FileIntegrityStatus): boolean {
  const timeless = (status: FileIntegrityStatus | undefined): string =>
    JSON.stringify([
      status?.phase,
      status?.omittedNodeStatus ?? 0,
      status?.conditions ?? [],
      // The results are sorted by time, so the order has to be ignored too.
      (status?.nodeStatus ?? []).map((one) => JSON.stringify(sorted({ ...one, lastProbeTime: '' }))).sort(),
    ]);
  return timeless(a) === timeless(b);
}

export function isSameStatus(a: FileIntegrityStatus | undefined, b: FileIntegrityStatus): boolean {
  const whole = (status: FileIntegrityStatus | undefined): string =>
    JSON.stringify((status?.nodeStatus ?? []).map(sorted));
  return isSameState(a, b) && whole(a) === whole(b);
}

/** The object with its keys in alphabetical order: a stored object may have another order. */
function sorted(object: object): object {
  return Object.fromEntries(Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** The changes from one status to the next. */
export interface Changes {
  readonly isOtherPhase: boolean;
  /** Whether the configuration cannot be used, for another reason than before. */
  readonly isOtherError: boolean;
}

export function changesOf(
  before: FileIntegrity['status'],
  { phase }: FileIntegrityStatus,
  { isUsable, isSubstitute, message }: Configured,
): Changes {
  const reported = before?.conditions?.find(({ type }) => type === 'Configured');
  return {
    isOtherPhase: phase !== before?.phase,
    isOtherError:
      (!isUsable || isSubstitute === true) && (reported?.status !== 'False' || reported.message !== message),
  };
}
