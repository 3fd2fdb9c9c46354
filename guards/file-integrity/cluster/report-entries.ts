/** Converts the findings of a node to a report, with one entry for each changed file. */
import type { OwnerReference } from '../../../lib/kube/object/object.ts';
import { printable } from '../../../lib/output/printable.ts';
import type { Report, ReportEntry } from '../../../guard/reports/report-entry.ts';
import type { ReportTarget } from '../../../guard/reports/report-writer.ts';
import type { ChangeAuthor, Finding, Unread } from '../model/finding.ts';
import type { NodeResult } from '../results/node-result.ts';
import { nodeStatusName } from '../results/object-names.ts';

const reportSource = 'rampart/file-integrity';
const category = 'File integrity';

export interface IntegrityReportOptions {
  /** The FileIntegrity; the report is deleted with it. */
  readonly owner?: OwnerReference;
  /** Where the complete log is, such as `ConfigMap ns/aide-example-node-1-failed`. */
  readonly completeAt?: string;
}

export function integrityReport(
  result: NodeResult,
  { owner, completeAt }: IntegrityReportOptions = {},
): Report {
  const { fileIntegrity, nodeName } = result;
  const omittedFindings = omittedUnexplained(result);
  return {
    ...integrityReportTarget(fileIntegrity, nodeName),
    scope: { apiVersion: 'v1', kind: 'Node', name: nodeName },
    entries: reportEntries(result),
    ...(omittedFindings > 0 && { omitted: { fail: omittedFindings } }),
    ...(completeAt !== undefined && { completeAt }),
    ...(owner && { owner }),
  };
}

/**
 * The namespace and name of the report: it is in the namespace of the FileIntegrity, and has the name of the
 * FileIntegrityNodeStatus.
 */
export function integrityReportTarget(
  { namespace, name }: NodeResult['fileIntegrity'],
  nodeName: string,
): ReportTarget {
  return { namespace, name: nodeStatusName(name, nodeName) };
}

/** Number of omitted findings, without those that a package update explains: the update has one entry for all of its files. */
function omittedUnexplained({ omittedFindings, findings, updates = [] }: NodeResult): number {
  const shown = findings.filter(({ explained }) => explained !== undefined).length;
  const all = updates.reduce((sum, { accepted, files }) => (accepted ? sum : sum + files), 0);
  return Math.max(0, omittedFindings - Math.max(0, all - shown));
}

/** The entries of the report; at least one. */
export function reportEntries(result: NodeResult): ReportEntry[] {
  const { fileIntegrity, nodeName, atMs, outcome, findings } = result;
  const common = { source: reportSource, policy: fileIntegrity.name, category, severity: 'high' } as const;
  const whole = (kind: 'error' | 'pass' | 'fail' | 'warn', message: string): ReportEntry => ({
    ...common,
    rule: 'scan',
    result: kind,
    message,
    timestampMs: atMs,
    properties: { node: nodeName },
  });
  if (outcome.kind === 'errored') return [whole('error', printable(outcome.message))];
  // Without findings, the node passes only if all files could be read.
  const unread = result.unread === undefined ? [] : [whole('warn', describeUnread(result.unread, nodeName))];
  if (outcome.kind === 'succeeded')
    return unread.length > 0 ? unread : [whole('pass', `No file of node ${nodeName} has changed.`)];
  // The check may fail without findings, if no difference is known in detail, e.g. because the log cannot be read.
  if (findings.length === 0) {
    const { added, changed, removed } = outcome;
    return [whole('fail', `${added} files were added, ${changed} changed, ${removed} removed.`), ...unread];
  }
  // One entry for all files of a package update.
  const updates = (result.updates ?? []).filter(({ accepted }) => !accepted);
  const explained = updates.map(({ update, files, atMs: seenMs }): ReportEntry => ({
    ...{ ...common, severity: 'info', rule: 'package-update', result: 'warn' },
    message: `${files} ${files === 1 ? 'file differs' : 'files differ'} from the baseline on node ${nodeName} by an update: ${printable(update)}.`,
    timestampMs: seenMs,
    properties: { node: nodeName, update: printable(update), files: String(files) },
  }));
  const unexplained = findings.filter((finding) => finding.explained === undefined);
  const reported = unexplained.map((finding): ReportEntry => ({
    ...common,
    rule: `file-${finding.change}`,
    result: 'fail',
    message: describeFinding(finding, nodeName),
    timestampMs: finding.seenMs,
    properties: propertiesOf(finding, nodeName),
  }));
  return [...reported, ...explained, ...unread];
}

/** `2 files of node n1 cannot be read: /etc/x (EACCES: ...), ...`. */
export function describeUnread({ count, files }: Unread, nodeName: string): string {
  const some = files.slice(0, 3).map(({ path, reason }) => `${path} (${reason})`);
  const more = some.length > 0 && count > some.length ? ', ...' : '';
  const reported = some.length > 0 ? `: ${printable(some.join(', '))}${more}` : '';
  return `${count} ${count === 1 ? 'file' : 'files'} of node ${nodeName} cannot be read${reported}`;
}

const changes = { added: 'was added', removed: 'was removed', changed: 'has changed' } as const;

export function describeFinding(finding: Finding, nodeName: string): string {
  const { path, change, attributes, author, explained } = finding;
  const what = attributes.length === 0 ? '' : ` (${attributes.join(', ')})`;
  const who = author === undefined ? '' : `, by ${describeAuthor(author)}`;
  const toucher = lastAuthorOf(finding);
  const touched = toucher === undefined ? '' : `, touched later by ${describeAuthor(toucher)}`;
  const why = explained === undefined ? '' : `: ${explained}`;
  return `${path} ${changes[change]}${what} on node ${nodeName}${who}${touched}${why}.`;
}

/** The process that touched the file last, if it is not the one that changed the content. */
export function lastAuthorOf({
  author,
  last,
}: {
  readonly author?: ChangeAuthor;
  readonly last?: { readonly author?: ChangeAuthor };
}): ChangeAuthor | undefined {
  const by = last?.author;
  return by?.pid === author?.pid && by?.binary === author?.binary ? undefined : by;
}

/** `/usr/bin/vi /etc/passwd (pid 41, uid 0) in shop/web/main`. */
export function describeAuthor({ binary, arguments: args, pid, uid, ...where }: ChangeAuthor): string {
  const command = printable(args === '' ? binary : `${binary} ${args}`);
  return `${command} (pid ${pid}, uid ${uid})${printable(placeText(where))}`;
}

function placeText({
  relation,
  container,
  pod,
  unit,
  mounts,
}: Pick<ChangeAuthor, 'relation' | 'container' | 'pod' | 'unit' | 'mounts'>): string {
  if (pod !== undefined)
    return ` in ${pod.namespace}/${pod.name}${container === undefined ? '' : `/${container.name}`}`;
  switch (relation) {
    case 'container':
      return ` in container ${container?.name || container?.id || '?'}`;
    case 'host':
      if (mounts === undefined) return '';
      return unit === undefined ? ' on the host, mount namespace of its own' : ` in ${unit}`;
    case 'unknown':
      return container === undefined
        ? ' in an unknown container'
        : ` in unknown container ${container.id.slice(0, 12)}`;
  }
}

function propertiesOf(finding: Finding, nodeName: string): Record<string, string> {
  const { path, change, attributes, seenBy, author, last } = finding;
  return {
    node: nodeName,
    path,
    change,
    ...(attributes.length > 0 && { attributes: attributes.join(',') }),
    'seen-by': seenBy,
    ...(author && authorProperties(author)),
    ...(last && { 'last-seen': new Date(last.seenMs).toISOString(), 'last-seen-by': last.seenBy }),
    ...(last?.author && lastProperties(last.author)),
  };
}

/** The properties of the last author, prefixed with `last-`. */
function lastProperties(author: ChangeAuthor): Record<string, string> {
  return Object.fromEntries(
    Object.entries(authorProperties(author)).map(([key, value]) => [`last-${key}`, value]),
  );
}

function authorProperties({ pod, container, ...by }: ChangeAuthor): Record<string, string> {
  const properties = {
    'process-binary': by.binary,
    'process-arguments': by.arguments,
    'process-cwd': by.cwd,
    'process-uid': String(by.uid),
    'process-gid': String(by.gid),
    'process-pid': String(by.pid),
    'parent-pid': String(by.ppid),
    'parent-binary': by.parentBinary,
    'process-relation': by.relation,
    'pod-namespace': pod?.namespace ?? '',
    'pod-name': pod?.name ?? '',
    'container-name': container?.name ?? '',
    'container-id': container?.id ?? '',
    'process-unit': by.unit ?? '',
    'process-mounts': by.mounts ?? '',
  };
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([, value]) => value !== '')
      .map(([key, value]) => [key, printable(value)]),
  );
}
