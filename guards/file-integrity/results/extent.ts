/**
 * How much of a file has changed since its finding was last reported: writing a file is another matter than
 * touching it later. A finding has two processes, not one for each attribute. The sensor proves the sort of a
 * system call: it changes content or names, or attributes alone (lib/sensor/changes). Between two
 * comparisons, several processes may have done either, and which of them set the owner and which the mode is
 * unknown.
 */
import type { ReportedChange } from '../model/report.ts';

/** `touch`: times that each change sets; `attributes`: others, with the reported content unchanged. */
export type Extent = 'touch' | 'attributes' | 'content';

const ofContent: ReadonlySet<string> = new Set([
  ...['file_type', 'link_name', 'size', 'growing_size', 'block_count', 'inode', 'sha256', 'sha512'],
]);
const ofTouch: ReadonlySet<string> = new Set(['access_time', 'change_time']);

/**
 * The names of the attributes that differ from the baseline. Forced attributes are listed even if they are
 * equal.
 */
export function differing({ details }: ReportedChange): string[] {
  return details.filter(({ old, now }) => old.join('\0') !== now.join('\0')).map(({ name }) => name);
}

/** @param isTouch no process is known to have changed more than attributes */
export function extentOf(before: ReportedChange, now: ReportedChange, isTouch: boolean): Extent {
  if (before.kind !== now.kind) return 'content';
  const [old, fresh] = [valuesOf(before), valuesOf(now)];
  // Low report levels list no attributes.
  if (old.size === 0 && fresh.size === 0) return isTouch ? 'attributes' : 'content';
  const names = [...new Set([...old.keys(), ...fresh.keys()])].filter(
    (name) => old.get(name) !== fresh.get(name),
  );
  return extentOfNames(names, isTouch);
}

/** For a new finding. */
export function extentOfFinding(change: ReportedChange, isTouch: boolean): Extent {
  return change.kind === 'changed' && change.details.length > 0
    ? extentOfNames(differing(change), isTouch)
    : 'content';
}

function extentOfNames(names: readonly string[], isTouch: boolean): Extent {
  if (names.some((name) => ofContent.has(name))) return 'content';
  // Writing sets it, and so does touch(1).
  if (names.includes('modify_time')) return isTouch ? 'attributes' : 'content';
  return names.every((name) => ofTouch.has(name)) ? 'touch' : 'attributes';
}

function valuesOf({ details }: ReportedChange): Map<string, string> {
  return new Map(details.map(({ name, now }) => [name, now.join('\0')]));
}
