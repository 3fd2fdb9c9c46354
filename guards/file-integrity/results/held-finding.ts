/**
 * Derives the finding about a path from the current difference, what was known before, and who made the change. Holds
 * no state.
 */
import { type ByteString, isAtOrBelow } from '../model/entry.ts';
import type { Explanation } from '../model/explanation.ts';
import type { ChangeAuthor, Finding, Sighting } from '../model/finding.ts';
import { bothHands, type Hand } from '../model/hand.ts';
import type { ReportedChange } from '../model/report.ts';
import { printable } from '../report/printable.ts';
import { differing, extentOf, extentOfFinding } from './extent.ts';

/** What is currently known about a path. */
export interface PathUpdate {
  /** Including the prefix of the root. */
  readonly path: ByteString;
  /** Undefined if the path is as in the baseline. */
  readonly change: ReportedChange | undefined;
  /** Who last changed the content or the name. */
  readonly author?: ChangeAuthor;
  /** Who changed only attributes, after the author's change. */
  readonly touchedBy?: ChangeAuthor;
  /** When the last of these changes was made. Default: now. */
  readonly changedMs?: number;
  /** Whether only attributes are known to have changed. */
  readonly isTouch?: boolean;
  /** Whether the change was made by a package manager, by others, or unseen; undefined if unknown. */
  readonly hand?: Hand | undefined;
  /** When the change was first seen, if it had to wait since then; ms since 1970. */
  readonly seenMs?: number;
  /** Default: `event`. */
  readonly seenBy?: Finding['seenBy'];
  /** The package update that caused it, and in `explained` the same as text. */
  readonly explanation?: Explanation;
  readonly explained?: string;
}

export interface HeldFinding {
  readonly change: ReportedChange;
  readonly finding: Finding;
  /** Who made all changes since the baseline; undefined if that was not seen. */
  readonly hand?: Hand | undefined;
  readonly explanation?: Explanation;
}

/** An update for a path that differs from the baseline. */
type FoundUpdate = PathUpdate & { readonly change: ReportedChange };
type Seen = Pick<Finding, 'seenMs' | 'seenBy'>;

/**
 * The finding for a difference that is new or has changed.
 *
 * @param known the finding that it replaces
 * @param prefix of the scanned root; findings have paths without it
 */
export function findingOf(
  known: HeldFinding | undefined,
  update: FoundUpdate,
  seen: Seen,
  prefix: ByteString,
): HeldFinding {
  const { change, author, touchedBy } = update;
  // If there was a finding before, its changes were made by someone too.
  const hand = known === undefined ? update.hand : bothHands(known.hand ?? 'unseen', update.hand ?? 'unseen');
  const of = { change, hand, ...(update.explanation && { explanation: update.explanation }) };
  const who = by(touchedBy ?? author);
  const isTouch = isTouchOf(update);
  const extent = known && extentOf(known.change, change, isTouch);
  const made = (first: Sighting, last?: Sighting): HeldFinding => ({
    ...of,
    finding: {
      ...{ path: hostPath(change.path, prefix), change: change.kind },
      attributes: change.kind === 'changed' ? differing(change) : [],
      ...{ ...first, ...(last && { last }), ...explainedBy(update) },
    },
  });
  if (known !== undefined && (extent === 'touch' || (extent === 'attributes' && isOfContent(known)))) {
    const { seenMs, seenBy, author: first } = known.finding;
    return made({ seenMs, seenBy, ...by(first) }, { ...seen, ...who });
  }
  if (extentOfFinding(change, isTouch) !== 'content') return made({ ...seen, ...who });
  return made({ ...seen, ...by(author) }, touchedBy && { ...seen, author: touchedBy });
}

/**
 * The finding for a difference that has not changed: the update may show who made it, which package update it comes
 * from, or that another process was involved.
 *
 * @returns the finding, and whether it has new information
 */
export function refined(
  known: HeldFinding,
  update: FoundUpdate,
  seen: Seen,
): { readonly held: HeldFinding; readonly isNew: boolean } {
  const author = foundOut(known, update);
  const hand = bothHands(known.hand, update.hand);
  const isDoubted = known.finding.explained !== undefined && hand !== known.hand;
  if (author === undefined && update.explained === undefined && !isDoubted)
    return { held: hand === known.hand ? known : { ...known, hand }, isNew: false };
  const { explained: _explained, ...finding } = known.finding;
  const held = {
    ...{ change: update.change, hand },
    finding: { ...finding, ...(author && { ...seen, author }), ...explainedBy(update) },
    ...(update.explanation && { explanation: update.explanation }),
  };
  return { held, isNew: true };
}

/** Whether two changes of a path are the same difference from the baseline. */
export function isSame(one: ReportedChange | undefined, other: ReportedChange | undefined): boolean {
  if (one === undefined || one.kind !== other?.kind || one.summary !== other.summary) return false;
  return textOf(one) === textOf(other);
}

/** The path on the host as text, without the prefix: `/etc/passwd`. */
export function hostPath(path: ByteString, prefix: ByteString): string {
  const host = isAtOrBelow(path, prefix) ? path.slice(prefix.length) : path;
  return printable(host === '' ? '/' : host);
}

function by(author: ChangeAuthor | undefined): Pick<Finding, 'author'> {
  return author === undefined ? {} : { author };
}

function explainedBy({ explained }: PathUpdate): Pick<Finding, 'explained'> {
  return explained === undefined ? {} : { explained };
}

function isTouchOf({ author, isTouch = false }: PathUpdate): boolean {
  return isTouch && author === undefined;
}

function isOfContent({ change }: HeldFinding): boolean {
  return extentOfFinding(change, false) === 'content';
}

/**
 * The author of a change that a scan found before its event was read. Undefined for an update of a later action, which cannot have made it.
 */
function foundOut({ finding, change }: HeldFinding, update: PathUpdate): ChangeAuthor | undefined {
  if (finding.author !== undefined || (update.changedMs ?? 0) > finding.seenMs) return undefined;
  const { author, touchedBy } = update;
  const ofContent = extentOfFinding(change, isTouchOf(update)) === 'content';
  return author ?? (ofContent ? undefined : touchedBy);
}

function textOf({ details }: ReportedChange): string {
  return details.map(({ name, now }) => `${name}\0${now.join('\0')}`).join('\0\0');
}
