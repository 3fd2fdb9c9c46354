/**
 * The temporary ConfigMap in which an agent passes a result to the operator. Labels, annotations and the log are those
 * of the File Integrity Operator; further data is added: facts as JSON in an annotation, and findings as JSON under a
 * key of `data`.
 */

import type { ConfigMap, OwnerReference } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { visibleJson, visibleText } from '../../../lib/output/printable.ts';
import { names } from '../api.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import type { Detection, Finding, Reading, Unread } from '../model/finding.ts';
import { decodeFinding, Fields } from '../model/finding-json.ts';
import { maxFindings, maxUnreadFiles, maxUpdates, type NodeOutcome, type NodeResult } from './node-result.ts';
import type { BaselineIdentity } from '../database/newest-baseline.ts';
import { labelValue, temporaryName } from './object-names.ts';

/** Limit of all values of a ConfigMap together (Kubernetes, MaxSecretSize). */
const MAX_DATA_BYTES = 1_048_576;
/** Limit of a result's findings: they become part of a FileIntegrityNodeStatus, and etcd accepts 1.5 MiB. */
const MAX_FINDING_BYTES = 256 * 1024;
/** Limit of the message: all annotations of an object together may have 256 KiB. */
const MAX_MESSAGE_CHARACTERS = 16_384;
const MAX_REASON_CHARACTERS = 1024;
const MAX_DONE_REQUESTS = 500;
const MAX_UNREAD_CHARACTERS = 1024;
const MAX_UPDATE_CHARACTERS = 256;

/** Limit of an agent's logs (`fitLog`), which leaves room for the findings. */
export const resultLogLimitBytes = MAX_DATA_BYTES - MAX_FINDING_BYTES;

/** The annotation that contains the result, except for the log, the message and the findings. */
export const resultAnnotation = 'file-integrity.openshift.io/result';
export const findingsKey = 'findings.json';

/**
 * The ConfigMap of a result, for server-side apply. It always fits: messages are truncated, and if the log leaves no
 * room for findings, they are only counted.
 *
 * @param owner the FileIntegrity; the ConfigMap is deleted with it
 */
export function resultConfigMap(result: NodeResult, owner?: OwnerReference): ConfigMap {
  const { fileIntegrity, nodeName, outcome } = result;
  const log = outcome.kind === 'failed' ? outcome.log.data : '';
  const room = Math.min(MAX_DATA_BYTES - Buffer.byteLength(log), MAX_FINDING_BYTES);
  const findings = fittingFindings(result.findings.slice(0, maxFindings), room);
  const omittedFindings = result.omittedFindings + result.findings.length - findings.count;
  return {
    metadata: {
      namespace: fileIntegrity.namespace,
      name: temporaryName(fileIntegrity.name, nodeName),
      labels: {
        [names.ownerLabel]: labelValue(fileIntegrity.name),
        [names.nodeLabel]: labelValue(nodeName),
        [names.logLabel]: '',
      },
      annotations: {
        ...outcomeAnnotations(outcome),
        [resultAnnotation]: visibleJson(JSON.stringify(factsOf(result, omittedFindings))),
      },
      ...(owner && { ownerReferences: [owner] }),
    },
    data: {
      ...(outcome.kind === 'failed' && { [names.logKey]: log }),
      ...(findings.count > 0 && { [findingsKey]: findings.json }),
    },
  };
}

function outcomeAnnotations(outcome: NodeOutcome): Record<string, string> {
  switch (outcome.kind) {
    case 'succeeded':
      return {};
    case 'errored':
      return { [names.errorMessage]: cut(visibleText(outcome.message), MAX_MESSAGE_CHARACTERS) };
    case 'failed':
      return {
        [names.filesAdded]: String(outcome.added),
        [names.filesChanged]: String(outcome.changed),
        [names.filesRemoved]: String(outcome.removed),
        ...(outcome.log.compressed && { [names.compressed]: '' }),
      };
    default:
      return outcome satisfies never;
  }
}

function factsOf(result: NodeResult, omittedFindings: number): object {
  const { fileIntegrity, nodeName, sequence, atMs, outcome, unread, detection, doneRequests } = result;
  const { continuedFromMs, baseline, configuration, reading, updates = [] } = result;
  const { reason: whyNoSensor, packagesReason } = detection;
  return {
    kind: outcome.kind,
    fileIntegrity: { namespace: fileIntegrity.namespace, name: fileIntegrity.name },
    nodeName,
    sequence,
    atMs,
    ...(outcome.kind === 'failed' && outcome.log.tooLarge && { tooLarge: true }),
    omittedFindings,
    ...(unread && { unread: unreadThatFits(unread) }),
    ...(reading && {
      reading: { count: reading.count, files: reading.files.slice(0, maxUnreadFiles).map(short) },
    }),
    ...(updates.length > 0 && { updates: updates.slice(-maxUpdates).map(shortUpdate) }),
    detection: {
      ...detection,
      reason: cut(whyNoSensor, MAX_REASON_CHARACTERS),
      ...(packagesReason !== undefined && { packagesReason: cut(packagesReason, MAX_REASON_CHARACTERS) }),
    },
    // The next result lists the others. Until then the operator may repeat these requests, which has no effect.
    doneRequests: doneRequests.slice(0, MAX_DONE_REQUESTS),
    ...(continuedFromMs !== undefined && { continuedFromMs }),
    ...(baseline && { baseline }),
    ...(configuration !== undefined && { configuration }),
    ...(outcome.kind === 'errored' && outcome.reason !== undefined && { reason: outcome.reason }),
  };
}

function shortUpdate({ update, ...rest }: PackageUpdate): PackageUpdate {
  return { update: cut(update, MAX_UPDATE_CHARACTERS), ...rest };
}

function short(text: string): string {
  return cut(text, MAX_UNREAD_CHARACTERS);
}

function unreadThatFits({ count, files }: Unread): Unread {
  return {
    count,
    files: files
      .slice(0, maxUnreadFiles)
      .map(({ path, reason }) => ({ path: short(path), reason: short(reason) })),
  };
}

/** The first findings whose JSON array fits into this many bytes. */
function fittingFindings(
  findings: readonly Finding[],
  roomBytes: number,
): { readonly count: number; readonly json: string } {
  const parts: string[] = [];
  let bytes = '[]'.length;
  for (const finding of findings) {
    const part = visibleJson(JSON.stringify(finding));
    bytes += Buffer.byteLength(part) + ','.length;
    if (bytes > roomBytes) break;
    parts.push(part);
  }
  return { count: parts.length, json: `[${parts.join(',')}]` };
}

function cut(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters - 1).toWellFormed()}…`;
}

/**
 * Reads the result in a ConfigMap. Unknown fields are ignored. Results written by FIO are accepted too; they contain
 * only the outcome.
 *
 * @throws {RampartError} `DECODE` if the ConfigMap contains no valid result, or if its name is not that of the result's
 *   FileIntegrity and node
 */
export function readResultConfigMap(configMap: ConfigMap): NodeResult {
  const { namespace = '', name = '', annotations = {} } = configMap.metadata;
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.DECODE, {
      what: `the result in ConfigMap ${namespace}/${name}`,
      why,
      next: 'The agent writes another result after its next scan',
    });
  const facts = annotations[resultAnnotation];
  const fields =
    facts === undefined ? factsOfFio(configMap, refuse) : Fields.parse(facts, resultAnnotation, refuse);
  const identity = fields.object('fileIntegrity');
  const fileIntegrity = { namespace: identity.text('namespace'), name: identity.text('name') };
  const nodeName = fields.text('nodeName');
  if (fileIntegrity.namespace !== namespace || temporaryName(fileIntegrity.name, nodeName) !== name) {
    throw refuse(`it belongs to ${fileIntegrity.namespace}/${fileIntegrity.name} and node ${nodeName}`);
  }
  // An agent may write every ConfigMap with the label of its node, and a name such as aide-a-b-c can be split in two
  // ways: so the label must name the node too.
  const label = configMap.metadata.labels?.[names.nodeLabel];
  if (label !== undefined && label !== labelValue(nodeName))
    throw refuse(`its label names the node ${label}`);
  const json = configMap.data?.[findingsKey] ?? '[]';
  const findings = Fields.parseList(json, findingsKey, refuse).map(decodeFinding);
  const kept = findings.slice(0, maxFindings);
  return {
    fileIntegrity,
    nodeName,
    sequence: fields.count('sequence'),
    ...(facts === undefined && { isUnnumbered: true }),
    atMs: fields.time('atMs'),
    outcome: readOutcome(fields, configMap, refuse),
    findings: kept,
    omittedFindings: fields.count('omittedFindings', 0) + findings.length - kept.length,
    ...(fields.has('unread') && { unread: readUnread(fields.object('unread')) }),
    ...(fields.has('reading') && { reading: readReading(fields.object('reading')) }),
    ...(fields.has('updates') && { updates: fields.objects('updates').slice(0, maxUpdates).map(readUpdate) }),
    detection: readDetection(fields.object('detection', {})),
    doneRequests: fields.texts('doneRequests', []).slice(0, MAX_DONE_REQUESTS),
    ...(fields.has('continuedFromMs') && { continuedFromMs: fields.time('continuedFromMs') }),
    ...(fields.has('configuration') && { configuration: fields.text('configuration') }),
    ...(fields.has('baseline') && { baseline: readBaseline(fields.object('baseline'), refuse) }),
  };
}

/** The facts in a result of FIO's own collector, in the form of our annotation. */
function factsOfFio({ metadata, data }: ConfigMap, refuse: (why: string) => RampartError): Fields {
  const { namespace, labels = {}, annotations = {}, creationTimestamp = '' } = metadata;
  const name = labels[names.ownerLabel];
  const nodeName = labels[names.nodeLabel];
  const atMs = Date.parse(creationTimestamp);
  if (name === undefined || nodeName === undefined || Number.isNaN(atMs)) {
    throw refuse(
      `it has no annotation ${resultAnnotation} and was not written by the File Integrity Operator`,
    );
  }
  const isErrored = annotations[names.errorMessage] !== undefined;
  const kind = isErrored ? 'errored' : data?.[names.logKey] ? 'failed' : 'succeeded';
  return new Fields({ kind, fileIntegrity: { namespace, name }, nodeName, sequence: atMs, atMs }, '', refuse);
}

function readOutcome(
  fields: Fields,
  { metadata: { annotations = {} }, data = {} }: ConfigMap,
  refuse: (why: string) => RampartError,
): NodeOutcome {
  const counted = (name: string): number => {
    const text = annotations[name] ?? '';
    if (!/^[0-9]{1,15}$/.test(text))
      throw refuse(`its annotation ${name} is not a number: ${JSON.stringify(text)}`);
    return Number(text);
  };
  switch (fields.oneOf('kind', ['succeeded', 'failed', 'errored'])) {
    case 'succeeded':
      return { kind: 'succeeded' };
    case 'errored':
      return {
        kind: 'errored',
        message: annotations[names.errorMessage] ?? '',
        ...(fields.has('reason') && { reason: fields.text('reason') }),
      };
    case 'failed': {
      const log = data[names.logKey];
      if (log === undefined) throw refuse(`it has no log: ${names.logKey} is missing in its data`);
      return {
        kind: 'failed',
        added: counted(names.filesAdded),
        changed: counted(names.filesChanged),
        removed: counted(names.filesRemoved),
        log: {
          data: log,
          compressed: annotations[names.compressed] !== undefined,
          tooLarge: fields.flag('tooLarge'),
        },
      };
    }
  }
}

function readBaseline(fields: Fields, refuse: (why: string) => RampartError): BaselineIdentity {
  const digest = fields.text('digest');
  if (!/^[0-9a-f]{64}$/.test(digest)) throw refuse('the digest of its baseline is malformed');
  return {
    provider: fields.oneOf('provider', ['native', 'aide']),
    digest,
    madeAtMs: fields.time('madeAtMs'),
  };
}

function readUnread(fields: Fields): Unread {
  const files = fields.objects('files').slice(0, maxUnreadFiles);
  return {
    count: fields.count('count'),
    files: files.map((file) => ({ path: file.text('path'), reason: file.text('reason', '') })),
  };
}

function readReading(fields: Fields): Reading {
  return { count: fields.count('count'), files: fields.texts('files').slice(0, maxUnreadFiles) };
}

function readUpdate(fields: Fields): PackageUpdate {
  return {
    update: fields.text('update'),
    files: fields.count('files'),
    atMs: fields.time('atMs'),
    accepted: fields.flag('accepted'),
  };
}

function readDetection(fields: Fields): Detection {
  return {
    events: fields.oneOf('events', ['sensor', 'inotify', 'none'], 'none'),
    reason: fields.text('reason', ''),
    watchedDirectories: fields.count('watchedDirectories', 0),
    unwatchedDirectories: fields.count('unwatchedDirectories', 0),
    lostEvents: fields.count('lostEvents', 0),
    lostAuthors: fields.count('lostAuthors', 0),
    directoriesWithoutAuthors: fields.count('directoriesWithoutAuthors', 0),
    ...(fields.has('packagesReason') && { packagesReason: fields.text('packagesReason') }),
  };
}
