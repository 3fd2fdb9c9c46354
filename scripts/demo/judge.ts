/** Compares what a step should raise with what it raised. */
import { describeMask, type Verdict } from '../../lib/sensor/access.ts';
import type { Operation, SensorModeName } from '../../lib/sensor/modes.ts';
import { type KiveAlert, maskOf } from '../../guards/file-access/alert/alert.ts';

/** One access that a step makes. */
export interface Expected {
  /** A line of the table in lib/sensor/modes.ts. */
  readonly operation: Operation;
  /** Says what is special here; the operation's name when left out. */
  readonly label?: string;
  /** Name of the watched file, in the demo's directory. */
  readonly file: string;
  /** Full path of the executable. In the modes that look at permissions, an exec is still its caller's. */
  readonly binary: string;
  readonly uid: number;
  /** In a mode that sees it. */
  readonly verdict: Verdict;
  /** Why it is not seen on this machine, although the mode sees such accesses elsewhere. */
  readonly unseenHere?: string | undefined;
}

/** The compared parts of an alert. */
export type Seen = Pick<Expected, 'file' | 'binary' | 'uid' | 'verdict'> & { readonly mask: number };

export interface Judged {
  readonly expected: Expected;
  /** Undefined when the mode does not see it. */
  readonly mask: number | undefined;
  /** Why it does not; undefined when it does. */
  readonly unseenBecause: string | undefined;
  /** How often it was seen. */
  readonly seen: number;
  readonly ok: boolean;
  /** The differences from the expectation; empty when `ok`. */
  readonly differences: readonly string[];
}

export function seenIn(alert: KiveAlert, directory: string): Seen {
  const { metadata, process } = alert;
  return {
    file: metadata.path.startsWith(`${directory}/`)
      ? metadata.path.slice(directory.length + 1)
      : metadata.path,
    mask: maskOf(metadata),
    verdict: metadata.verdict,
    binary: process.binary,
    uid: process.uid,
  };
}

/**
 * Every access that the mode can see must be reported once, exactly as expected; the others not at all. An
 * unexpected alert fails the last access of the step.
 */
export function judge(
  expected: readonly Expected[],
  seen: readonly Seen[],
  mode: SensorModeName,
): readonly Judged[] {
  const unexplained = new Set(seen);
  const judged = expected.map((access): Judged => {
    const mask = access.unseenHere === undefined ? access.operation.seen[mode] : undefined;
    const unseenBecause =
      mask === undefined ? (access.unseenHere ?? access.operation.unseenBecause) : undefined;
    if (mask === undefined)
      return { expected: access, mask, unseenBecause, seen: 0, ok: true, differences: [] };
    const wanted: Seen = { ...access, mask };
    const matching = seen.filter((alert) => describeSeen(alert) === describeSeen(wanted));
    for (const alert of matching) unexplained.delete(alert);
    const ok = matching.length === 1;
    const differences = ok ? [] : [`expected once, seen ${times(matching.length)}: ${describeSeen(wanted)}`];
    return { expected: access, mask, unseenBecause, seen: matching.length, ok, differences };
  });
  const last = judged.at(-1);
  if (last === undefined || unexplained.size === 0) return judged;
  return judged.with(judged.length - 1, {
    ...last,
    seen: last.seen + unexplained.size,
    ok: false,
    differences: [
      ...last.differences,
      ...[...unexplained].map((alert) => `seen, not expected: ${describeSeen(alert)}`),
    ],
  });
}

function times(count: number): string {
  return count === 0 ? 'never' : `${count} times`;
}

function describeSeen({ file, mask, verdict, binary, uid }: Seen): string {
  return `${describeMask(mask).join(',')} (mask ${mask}) of ${file} by ${binary} as uid ${uid}, ${verdict}`;
}
