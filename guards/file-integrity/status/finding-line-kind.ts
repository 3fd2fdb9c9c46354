/** The lines of this guard: reads findings from them, and shows them to people. */
import type { Decision, LineFold, LineKind, PrettyLineOptions } from '../../../guard/line-kind.ts';
import { type ReadFinding, readFinding } from '../../../guard/stream/read-finding.ts';
import { dateBefore } from '../../../lib/output/date-before.ts';
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { counted } from '../../../lib/output/words.ts';
import { paint } from '../../../lib/output/table.ts';
import type { Finding } from '../model/finding.ts';
import { describeAuthor, lastAuthorOf } from '../cluster/report-entries.ts';

/** The keys of a line, besides those of a FindingHead. */
export interface FindingLine extends Finding {
  /** `namespace/name` of the FileIntegrity. */
  readonly fileIntegrity: string;
  readonly node: { readonly name: string };
  /** `gone`: the file is as in the baseline again; `accepted`: its state is now in the baseline. */
  readonly state: 'found' | 'gone' | 'accepted';
  /** Time of the line. */
  readonly time: string;
}

const kind = 'IntegrityFinding';
const PATH_COLUMNS = 40;

/** `by` is the pod that made the change, if a pod did. */
export const findingLines: LineKind = {
  kind,
  view(read) {
    const finding = findingOf(read);
    const pod = finding?.author?.pod;
    return (
      finding && {
        path: finding.path,
        ...(pod && { by: pod }),
        ...(finding.state === 'found' && { next: acceptWords(finding) }),
        decision: decisionOf(finding),
        ...(finding.explained !== undefined && { fold: foldOf(finding, finding.explained) }),
        pretty: (options) => formatFinding(finding, options),
      }
    );
  },
};

/** A change needs a decision until it is accepted or undone, unless a package update explains it. */
function decisionOf({ fileIntegrity, node, path, state, explained }: FindingLine): Decision {
  return {
    key: [fileIntegrity, node.name, path].join('\0'),
    isOpen: state === 'found' && explained === undefined,
    what: ['changed file', 'changed files'],
  };
}

/** The command that shows what accepting the finding would do; the user then omits `--dry-run`. */
export function acceptWords({
  fileIntegrity,
  node,
  path,
}: Pick<FindingLine, 'fileIntegrity' | 'node' | 'path'>): string[] {
  const [namespace = '', name = ''] = fileIntegrity.split('/');
  // The option takes a glob, so special characters are escaped.
  const glob = path.replace(/[*?[\]{}\\]/g, '\\$&');
  return [
    ...['integrity', 'accept', name, '-n', namespace],
    ...['--node', node.name, '--path', glob, '--dry-run'],
  ];
}

/** Folds the files of a package update, which changes many at once. */
function foldOf({ fileIntegrity, node, state }: FindingLine, explained: string): LineFold {
  const what = state === 'accepted' ? 'accepted, ' : '';
  return {
    key: [fileIntegrity, node.name, state, explained].join('\0'),
    rest: (count) =>
      `${' '.repeat(15)}and ${counted(count, 'more file', 'more files')}: ${what}${printable(explained)}`,
  };
}

/** The finding in a line of an agent's output; undefined if the line is not a finding. */
export function parseFinding(line: string): FindingLine | undefined {
  const read = readFinding(line);
  return read?.head.kind === kind ? findingOf(read) : undefined;
}

function findingOf({ keys }: ReadFinding): FindingLine | undefined {
  const { fileIntegrity, path, change, attributes, seenMs } = keys;
  const isWhole =
    typeof fileIntegrity === 'string' &&
    typeof path === 'string' &&
    typeof change === 'string' &&
    Array.isArray(attributes) &&
    Number.isFinite(seenMs);
  return isWhole ? (keys as unknown as FindingLine) : undefined;
}

/**
 * @example
 * // 10:00:00.123   changed       n1:/etc/passwd  /usr/bin/vi /etc/passwd (pid 41, uid 0)  (size, sha512)  guard/workers
 */
export function formatFinding(finding: FindingLine, { colour, nowMs }: PrettyLineOptions): string {
  const { fileIntegrity, node, path, change, attributes, author, time, seenBy, state, explained } = finding;
  const timeMs = Date.parse(time);
  const word = state === 'gone' ? 'restored' : state === 'accepted' ? 'accepted' : change;
  const place = `${printable(node.name)}:${escaped(path)}`;
  const subject = `  ${printable(word).padEnd(12)}  ${place.padEnd(PATH_COLUMNS)}`;
  const who =
    author === undefined
      ? seenBy === 'scan'
        ? 'found by a scan'
        : 'author unknown'
      : describeAuthor(author);
  const toucher = lastAuthorOf(finding);
  const touched = toucher === undefined ? '' : `, touched later by ${describeAuthor(toucher)}`;
  const what = attributes.length === 0 ? '' : `  (${printable(attributes.join(', '))})`;
  const after = paint('dim', printable(fileIntegrity), colour);
  const shown = state === 'found' && explained === undefined ? paint('red', subject, colour) : subject;
  const why = explained === undefined ? '' : `  ${printable(explained)}`;
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${shown}  ${who}${touched}${what}${why}  ${after}`;
}

/** Keeps escapes by the agent, and escapes control characters in a line from elsewhere. */
function escaped(path: string): string {
  return path.split('\\').map(printable).join('\\');
}
