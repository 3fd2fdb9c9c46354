/** How a result changes a FileIntegrityNodeStatus, and which events it causes. */
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import { type FileIntegrityNodeStatus, names, type ReportedFinding, type ScanResult } from '../api.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import type { Finding, Sighting } from '../model/finding.ts';
import { requestsOf } from '../results/node-requests.ts';
import { type NodeRequest, type NodeResult, requestAnnotationPrefix } from '../results/node-result.ts';
import { keptName } from '../results/object-names.ts';
import { type BaselineIdentity, isOutdated } from '../database/newest-baseline.ts';
import { describeUnread } from './report-entries.ts';

const MAX_NOTE_CHARACTERS = 1000;

/** A FileIntegrityNodeStatus without its metadata. */
export type NodeStatusFields = Omit<FileIntegrityNodeStatus, 'apiVersion' | 'kind' | 'metadata'>;

export interface Note {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: string;
}

export interface TakenResult {
  readonly fields: NodeStatusFields;
  /** The requests that are carried out with this result: their annotations are removed. */
  readonly done: readonly NodeRequest[];
  /** Whether the state has changed, so that an event is sent. */
  readonly isTransition: boolean;
  readonly notes: readonly Note[];
}

/** A time further in the future than this comes from a wrong clock. */
const MAX_AHEAD_MS = 10 * 60_000;

/**
 * Whether a result is newer than the known one. The sequence decides, also within one second. A result with a smaller
 * sequence is newer only if its time is later: the node was set up again, and counts from the start. If the known time
 * is in the future, it came from a wrong clock and is ignored.
 *
 * @param nowMs ms since 1970
 */
export function isNewer(
  result: Pick<NodeResult, 'sequence' | 'atMs'>,
  known: Pick<FileIntegrityNodeStatus, 'sequence' | 'lastResult'> | undefined,
  nowMs: number,
): boolean {
  const { sequence = -1, lastResult } = known ?? {};
  if (lastResult === undefined || result.sequence > sequence) return true;
  if (result.sequence === sequence) return false;
  const knownMs = Date.parse(lastResult.lastProbeTime) || 0;
  return apiTime(result.atMs) > apiTime(knownMs) || knownMs > nowMs + MAX_AHEAD_MS;
}

/** @param known the stored status; undefined for the first result of a node */
export function takeResult(given: NodeResult, known: FileIntegrityNodeStatus | undefined): TakenResult {
  const result = isOfOlderBaseline(given, known) ? refused(given) : given;
  const baseline = result.baseline === undefined ? known?.baseline : statusOf(result.baseline);
  const latest = scanResultOf(result);
  const others = (known?.results ?? []).filter(({ condition }) => condition !== latest.condition);
  const doneIds = new Set(result.doneRequests);
  const done = requestsOf(known?.metadata.annotations).filter(({ id }) => doneIds.has(id));
  const findings = result.findings.map(reportedFinding);
  const updates = (result.updates ?? []).map(reportedUpdate);
  const continuedFrom = continuedFromOf(result, known);
  // A sequence tells the agent that there was a baseline already, so that it does not create a new one.
  const sequence = result.isUnnumbered ? known?.sequence : result.sequence;
  const isTransition = isOtherState(known, latest, findings);
  return {
    fields: {
      nodeName: result.nodeName,
      results: [...others, latest],
      lastResult: latest,
      ...(sequence !== undefined && { sequence }),
      ...(findings.length > 0 && { findings }),
      ...(result.omittedFindings > 0 && { omittedFindings: result.omittedFindings }),
      ...(result.unread && { unread: result.unread }),
      ...(result.reading && { reading: result.reading }),
      ...(continuedFrom !== undefined && { continuedFrom }),
      ...(updates.length > 0 && { packageUpdates: updates }),
      detection: result.detection,
      ...(result.configuration !== undefined && { configuration: result.configuration }),
      ...(baseline && { baseline }),
    },
    done,
    isTransition,
    notes: [
      ...(isTransition ? [noteOf(result, latest)] : []),
      ...noteOfContinued(result, continuedFrom, known),
      ...notesOfUnread(result, known),
      ...notesOfUpdates(result.nodeName, updates, known),
      ...done.flatMap((one) => noteOfDone(one, result)),
    ],
  };
}

/**
 * Whether the result is based on an older baseline than the known one. An agent that has seen the status refuses such a
 * baseline itself.
 */
function isOfOlderBaseline({ baseline }: NodeResult, known: FileIntegrityNodeStatus | undefined): boolean {
  if (baseline === undefined || known?.baseline === undefined) return false;
  const { digest, created } = known.baseline;
  return isOutdated(baseline, { digest, madeAtMs: Date.parse(created) });
}

function refused({
  baseline: _baseline,
  findings: _findings,
  unread: _unread,
  reading: _reading,
  ...result
}: NodeResult): NodeResult {
  const message =
    'its result was made with an older baseline than an earlier one: someone replaced the baseline. Find out who, then initialize again';
  const outcome = { kind: 'errored', message, reason: 'BaselineOutdated' } as const;
  return { ...result, outcome, findings: [], omittedFindings: 0 };
}

function statusOf({ provider, digest, madeAtMs }: BaselineIdentity): FileIntegrityNodeStatus['baseline'] {
  return { provider, digest, created: new Date(madeAtMs).toISOString() };
}

function scanResultOf({ fileIntegrity, nodeName, atMs, outcome }: NodeResult): ScanResult {
  const lastProbeTime = apiTime(atMs);
  switch (outcome.kind) {
    case 'succeeded':
      return { condition: 'Succeeded', lastProbeTime };
    case 'errored':
      return { condition: 'Errored', lastProbeTime, errorMessage: outcome.message };
    case 'failed':
      return {
        condition: 'Failed',
        lastProbeTime,
        resultConfigMapName: keptName(fileIntegrity.name, nodeName),
        resultConfigMapNamespace: fileIntegrity.namespace,
        filesAdded: outcome.added,
        filesChanged: outcome.changed,
        filesRemoved: outcome.removed,
      };
    default:
      return outcome satisfies never;
  }
}

function reportedFinding({ path, change, attributes, last, explained, ...first }: Finding): ReportedFinding {
  return {
    ...{ path, change, attributes, ...sighting(first) },
    ...(last && { last: sighting(last) }),
    ...(explained !== undefined && { explained }),
  };
}

function reportedUpdate({ update, files, atMs, accepted }: PackageUpdate): ReportedUpdate {
  return { update, files, time: apiTime(atMs), accepted };
}

type ReportedUpdate = NonNullable<FileIntegrityNodeStatus['packageUpdates']>[number];

/** Events for package updates that were accepted since the last result. */
function notesOfUpdates(
  nodeName: string,
  updates: readonly ReportedUpdate[],
  known: FileIntegrityNodeStatus | undefined,
): Note[] {
  const isKnown = (one: ReportedUpdate): boolean =>
    known?.packageUpdates?.some(
      ({ update, time, accepted }) => accepted && update === one.update && time === one.time,
    ) === true;
  const fresh = updates.filter((one) => one.accepted && !isKnown(one));
  if (fresh.length === 0) return [];
  const reported = fresh.map(({ update, files }) => `${update} (${files} ${files === 1 ? 'file' : 'files'})`);
  const note = cut(`updates of packages were accepted on node ${nodeName}: ${reported.join(', ')}`);
  return [{ type: 'Normal', reason: 'NodeIntegrityAccepted', note }];
}

function sighting({ seenMs, seenBy, author }: Sighting): NonNullable<ReportedFinding['last']> {
  return { seen: new Date(seenMs).toISOString(), seenBy, ...(author && { author }) };
}

/**
 * Whether an event is due. As in FIO: for another condition, or other counts. Beyond FIO: for other files or another
 * error with the same counts.
 */
function isOtherState(
  known: FileIntegrityNodeStatus | undefined,
  latest: ScanResult,
  findings: readonly ReportedFinding[],
): boolean {
  const before = known?.lastResult;
  if (before?.condition !== latest.condition) return true;
  if (latest.condition === 'Errored') return before.errorMessage !== latest.errorMessage;
  if (latest.condition === 'Succeeded') return false;
  const counts = ({ filesAdded = 0, filesChanged = 0, filesRemoved = 0 }: ScanResult): string =>
    `${filesAdded} ${filesChanged} ${filesRemoved}`;
  const files = (list: readonly ReportedFinding[]): string =>
    JSON.stringify(list.map(({ path, change }) => `${change} ${path}`).sort());
  return counts(before) !== counts(latest) || files(known?.findings ?? []) !== files(findings);
}

/** The event in FIO's words: users have rules that match them. */
function noteOf({ nodeName, outcome }: NodeResult, latest: ScanResult): Note {
  const reason = 'NodeIntegrityStatus';
  switch (outcome.kind) {
    case 'succeeded':
      return { type: 'Normal', reason, note: `no changes to node ${nodeName}` };
    case 'errored':
      return { type: 'Warning', reason, note: `node ${nodeName} has an error! ${outcome.message}` };
    case 'failed': {
      const counts = `a:${outcome.added},c:${outcome.changed},r:${outcome.removed}`;
      const log = `${latest.resultConfigMapNamespace}/${latest.resultConfigMapName}`;
      return { type: 'Warning', reason, note: `node ${nodeName} has changed! ${counts} log:${log}` };
    }
    default:
      return outcome satisfies never;
  }
}

/**
 * Sends an event when files become unreadable, and one when all can be read again. None for each change of their
 * number, which varies from scan to scan while files are being written.
 */
function notesOfUnread(
  { nodeName, outcome, unread }: NodeResult,
  known: FileIntegrityNodeStatus | undefined,
): Note[] {
  const reason = 'NodeIntegrityUnread';
  // A result with an error does not show which files can be read: a later result does.
  if (outcome.kind === 'errored' || (unread === undefined) === (known?.unread === undefined)) return [];
  if (unread === undefined)
    return [{ type: 'Normal', reason, note: `all files of node ${nodeName} can be read again` }];
  return [{ type: 'Warning', reason, note: cut(describeUnread(unread, nodeName)) }];
}

/**
 * Since when the node has continued with an earlier baseline. A result with an error has no information about that, so
 * the known value is kept.
 */
function continuedFromOf(
  { outcome, continuedFromMs }: NodeResult,
  known: FileIntegrityNodeStatus | undefined,
): string | undefined {
  if (continuedFromMs !== undefined) return apiTime(continuedFromMs);
  return outcome.kind === 'errored' ? known?.continuedFrom : undefined;
}

function noteOfContinued(
  { nodeName }: NodeResult,
  continuedFrom: string | undefined,
  known: FileIntegrityNodeStatus | undefined,
): Note[] {
  if (continuedFrom === undefined || continuedFrom === known?.continuedFrom) return [];
  const note = `node ${nodeName} continues with the baseline of ${continuedFrom}, created for an earlier FileIntegrity of this name. To create a new one, set the annotation ${names.reinit}`;
  return [{ type: 'Normal', reason: 'NodeIntegrityContinued', note }];
}

function noteOfDone(request: NodeRequest, { nodeName }: NodeResult): Note[] {
  if (request.kind === 're-init') return [];
  const what = request.path === '' ? 'all changes' : `the changes to ${request.path}`;
  const note = `${request.author} accepted ${what} on node ${nodeName}: ${request.reason}`;
  return [{ type: 'Normal', reason: 'NodeIntegrityAccepted', note }];
}

/** The event about a result whose log or report the API refused. */
export function noteOfRefusal(nodeName: string, { message }: Error): Note {
  const note = `the findings of node ${nodeName} could not be written completely: ${message}. Retrying.`;
  return { type: 'Warning', reason: 'NodeIntegrityIncomplete', note: cut(note) };
}

function cut(note: string): string {
  return note.slice(0, MAX_NOTE_CHARACTERS).toWellFormed();
}

/** The fields of a result whose log is not in a ConfigMap. */
export function withoutLog({ results, lastResult, ...others }: NodeStatusFields): NodeStatusFields {
  const strip = ({
    resultConfigMapName: _name,
    resultConfigMapNamespace: _namespace,
    ...result
  }: ScanResult): ScanResult => result;
  return {
    ...others,
    results: results.map((result) => (result.condition === 'Failed' ? strip(result) : result)),
    ...(lastResult && { lastResult: strip(lastResult) }),
  };
}

/** The annotations without those of completed requests. */
export function annotationsAfter(
  annotations: Readonly<Record<string, string>> | undefined,
  done: readonly NodeRequest[],
): Record<string, string> {
  const gone = new Set(done.map(({ id }) => `${requestAnnotationPrefix}${id}`));
  return Object.fromEntries(Object.entries(annotations ?? {}).filter(([key]) => !gone.has(key)));
}
