/** The lines of this guard: a finding, and how it is shown to a person. */
import type { LineKind, PrettyLineOptions } from '../../../guard/line-kind.ts';
import { dateBefore } from '../../../lib/output/date-before.ts';
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { paint } from '../../../lib/output/table.ts';
import type { Finding } from '../model/finding.ts';
import { describeAuthor } from '../cluster/report-entries.ts';

/** As an agent writes it. */
export interface FindingLine extends Finding {
  readonly kind: 'IntegrityFinding';
  /** `namespace/name` */
  readonly fileIntegrity: string;
  readonly node: string;
  /** `gone`: it is as in the baseline again; `accepted`: the baseline has it now. */
  readonly state: 'found' | 'gone' | 'accepted';
}

const start = '{"kind":"IntegrityFinding",';
const PATH_COLUMNS = 40;

/** The policy is the FileIntegrity, the pod the one that made the change. */
export const findingLines: LineKind = {
  start,
  parse(line) {
    const finding = parseFinding(line);
    if (finding === undefined) return undefined;
    const { fileIntegrity, author, path, seenMs } = finding;
    const [namespace, name = ''] = fileIntegrity.split('/');
    return {
      timeNs: BigInt(Math.trunc(seenMs)) * 1_000_000n,
      policy: [namespace, name],
      pod: [author?.pod?.namespace, author?.pod?.name ?? ''],
      path,
      pretty: (options) => formatFinding(finding, options),
    };
  },
};

/** The finding in a line of an agent's output; undefined for its other lines. */
export function parseFinding(line: string): FindingLine | undefined {
  if (!line.startsWith(start)) return undefined;
  try {
    const { fileIntegrity, node, path, change, attributes, seenMs, ...rest } = JSON.parse(
      line,
    ) as Partial<FindingLine>;
    // What a cut line or another program's may lack.
    const isWhole =
      typeof fileIntegrity === 'string' &&
      typeof node === 'string' &&
      typeof path === 'string' &&
      typeof change === 'string' &&
      Array.isArray(attributes) &&
      Number.isFinite(seenMs);
    if (isWhole) return { fileIntegrity, node, path, change, attributes, seenMs, ...rest } as FindingLine;
  } catch {
    // No finding then.
  }
  return undefined;
}

/**
 * @example
 * // 10:00:00.123   changed       n1:/etc/passwd  /usr/bin/vi /etc/passwd (pid 41, uid 0)  (size, sha512)  guard/workers
 */
export function formatFinding(finding: FindingLine, { colour, nowMs }: PrettyLineOptions): string {
  const { fileIntegrity, node, path, change, attributes, author, seenMs, seenBy, state } = finding;
  const word = state === 'gone' ? 'as before' : state === 'accepted' ? 'accepted' : change;
  const place = `${printable(node)}:${escaped(path)}`;
  const subject = `  ${printable(word).padEnd(12)}  ${place.padEnd(PATH_COLUMNS)}`;
  const who =
    author === undefined
      ? seenBy === 'scan'
        ? 'found by a scan'
        : 'author unknown'
      : describeAuthor(author);
  const what = attributes.length === 0 ? '' : `  (${printable(attributes.join(', '))})`;
  const after = paint('dim', printable(fileIntegrity), colour);
  const shown = state === 'found' ? paint('red', subject, colour) : subject;
  return `${dateBefore(seenMs, nowMs)}${clockTime(seenMs)} ${shown}  ${who}${what}  ${after}`;
}

/** What the agent has escaped already stays so; a line from elsewhere is made harmless. */
function escaped(path: string): string {
  return path.split('\\').map(printable).join('\\');
}
