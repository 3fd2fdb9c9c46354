/**
 * How much of a file has changed since its finding was last reported: writing to a file is not the same as touching it
 * later. So a finding has two processes, but not one for each attribute: the sensor knows only whether a system call
 * changes content or names, or only attributes (lib/sensor/changes). Between two comparisons, several processes may
 * have done either, and it is unknown which of them set the owner and which the mode.
 */
import type { ReportedChange } from '../model/report.ts';

/** `touch`: only times that every change sets; `attributes`: other attributes, but the reported content is unchanged. */
export type Extent = 'touch' | 'attributes' | 'content';

const ofContent: ReadonlySet<string> = new Set([
  ...['file_type', 'link_name', 'size', 'growing_size', 'block_count', 'inode', 'sha256', 'sha512'],
]);
const ofTouch: ReadonlySet<string> = new Set(['access_time', 'change_time']);

/**
 * Names of the attributes that differ from the baseline. Forced attributes are in the details even if they are equal,
 * so they are left out here.
 */
export function differing({ details }: ReportedChange): string[] {
  return details.filter(({ old, now }) => old.join('\0') !== now.join('\0')).map(({ name }) => name);
}

/** @param isTouch whether no process is known to have changed more than attributes */
export function extentOf(before: ReportedChange, now: ReportedChange, isTouch: boolean): Extent {
  if (before.kind !== now.kind) return 'content';
  const [old, fresh] = [valuesOf(before), valuesOf(now)];
  // Low report levels do not list attributes.
  if (old.size === 0 && fresh.size === 0) return isTouch ? 'attributes' : 'content';
  const names = [...new Set([...old.keys(), ...fresh.keys()])].filter(
    (name) => old.get(name) !== fresh.get(name),
  );
  return extentOfNames(names, isTouch);
}

/** The extent of a new finding. */
export function extentOfFinding(change: ReportedChange, isTouch: boolean): Extent {
  return change.kind === 'changed' && change.details.length > 0
    ? extentOfNames(differing(change), isTouch)
    : 'content';
}

function extentOfNames(names: readonly string[], isTouch: boolean): Extent {
  if (names.some((name) => ofContent.has(name))) return 'content';
  // Writing sets the modification time, and so does touch(1).
  if (names.includes('modify_time')) return isTouch ? 'attributes' : 'content';
  return names.every((name) => ofTouch.has(name)) ? 'touch' : 'attributes';
}

function valuesOf({ details }: ReportedChange): Map<string, string> {
  return new Map(details.map(({ name, now }) => [name, now.join('\0')]));
}
