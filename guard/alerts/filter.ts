import type { LineView } from '../line-kind.ts';
import { type FindingHead, severities, type Severity } from '../stream/finding.ts';
import type { ReadFinding } from '../stream/read-finding.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { nameGlob, pathGlob } from '../../lib/regex/glob.ts';

/** Each list contains globs, one of which has to match. An empty list lets everything pass. */
export interface AlertFilterOptions {
  /** `NAME` or `NAMESPACE/NAME`. */
  readonly policy: readonly string[];
  /** `NAME` or `NAMESPACE/NAME`, as well. */
  readonly pod: readonly string[];
  readonly path: readonly string[];
  /** The namespace of the finding's object, or of its policy. */
  readonly namespace?: string | undefined;
  /** The lowest severity that passes. */
  readonly severity?: Severity | undefined;
  /** Milliseconds since 1970. */
  readonly sinceMs?: number | undefined;
}

export type AlertFilter = (
  finding: Pick<ReadFinding, 'timeNs'> & {
    readonly head: Pick<FindingHead, 'object' | 'policy' | 'severity'>;
  },
  view: Pick<LineView, 'by' | 'path'>,
) => boolean;

/** @throws {RampartError} `INPUT` for an invalid glob. */
export function alertFilter(options: AlertFilterOptions): AlertFilter {
  const policies = options.policy.map((text) => placedName(text, '--policy'));
  const pods = options.pod.map((text) => placedName(text, '--pod'));
  const paths = options.path.map((text) => pathGlob(text, '--path'));
  const sinceNs = options.sinceMs === undefined ? undefined : BigInt(options.sinceMs) * 1_000_000n;
  const { namespace } = options;
  refuseEmpty({ '--namespace': namespace });
  const min = severities.indexOf(options.severity ?? 'info');
  return ({ head: { object, policy, severity }, timeNs }, { by, path }) =>
    severities.indexOf(severity) >= min &&
    (namespace === undefined || [object, policy, by].some((one) => one?.namespace === namespace)) &&
    fitsOne(policies, policy) &&
    (fitsOne(pods, object?.kind === 'Pod' ? object : undefined) || (by !== undefined && fitsOne(pods, by))) &&
    (paths.length === 0 || (path !== undefined && paths.some((fits) => fits(path)))) &&
    (sinceNs === undefined || timeNs >= sinceNs);
}

type PlacedName = (namespace: string, name: string) => boolean;

function fitsOne(
  wanted: readonly PlacedName[],
  given: { readonly namespace: string; readonly name: string } | null | undefined,
): boolean {
  return wanted.length === 0 || wanted.some((fits) => fits(given?.namespace ?? '', given?.name ?? ''));
}

/** `NAME`, in any namespace, or `NAMESPACE/NAME`. */
function placedName(text: string, option: string): PlacedName {
  const slash = text.indexOf('/');
  if (slash < 0) {
    const name = nameGlob(text, option);
    return (_namespace, given) => name(given);
  }
  const [namespace, name] = [nameGlob(text.slice(0, slash), option), nameGlob(text.slice(slash + 1), option)];
  return (givenNamespace, givenName) => namespace(givenNamespace) && name(givenName);
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `1h30m`, `2d` ago, or a time in RFC 3339; in ms since 1970. @throws {RampartError} `INPUT` */
export function parseSince(text: string, nowMs: number): number {
  if (/^(\d{1,6}[smhd])+$/.test(text)) {
    let agoMs = 0;
    for (const [, count, unit = ''] of text.matchAll(/(\d+)([smhd])/g))
      agoMs += Number(count) * (unitMs[unit] ?? 0);
    return nowMs - agoMs;
  }
  const timeMs = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) ? Date.parse(text) : NaN;
  if (!Number.isNaN(timeMs)) return timeMs;
  throw new RampartError(errorCodes.INPUT, {
    what: `--since ${JSON.stringify(text)} is not a time`,
    next: 'Write an age such as 90s, 10m, 2h or 1d, or a time such as 2026-11-21T10:00:00Z',
  });
}
