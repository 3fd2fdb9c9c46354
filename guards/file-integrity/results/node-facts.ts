/** What an agent publishes about this guard in its lease, and how `rampart status` reads it. */
import type { Coverage, GuardFacts } from '../../../guard/agent-lease-names.ts';
import type { Detection } from '../model/finding.ts';

/** The progress of a baseline or a scan, as in `-o json`. */
export interface Progress {
  /** `namespace/name` of the FileIntegrity; others that select the same files may be scanned together with it. */
  readonly object: string;
  readonly step: 'init' | 'accept' | 'check';
  /** In the format of RFC 3339. */
  readonly since: string;
  /** Number of files and directories so far, and per second. */
  readonly entries: number;
  readonly entriesPerSecond: number;
}

export interface NodeState {
  /** The FileIntegrities that select this node: uid and generation of each. */
  readonly followed: readonly { readonly uid: string; readonly generation: number }[];
  readonly progress: Progress | undefined;
}

const prefix = 'generation-';
/** Limit of the FileIntegrities in a lease. */
const MANY = 100;
const UID_LENGTH = 8;

export function nodeFacts({ followed, progress }: NodeState): GuardFacts {
  return {
    ...(progress && {
      object: progress.object,
      step: progress.step,
      since: progress.since,
      entries: progress.entries,
      entriesPerSecond: progress.entriesPerSecond,
    }),
    ...Object.fromEntries(
      followed
        .slice(0, MANY)
        .map(({ uid, generation }) => [`${prefix}${uid.slice(0, UID_LENGTH)}`, generation]),
    ),
  };
}

const modes = { sensor: 'events with author', inotify: 'events without author', none: 'scans alone' };

/** What is watched on this node; empty if no FileIntegrity selects it. */
export function coverageOf(detection: Detection | undefined): Coverage {
  if (detection === undefined) return { mode: '', blindSpots: [], losses: {} };
  const { events, reason, unwatchedDirectories, directoriesWithoutAuthors } = detection;
  const { lostEvents, lostAuthors } = detection;
  return {
    mode: modes[events],
    blindSpots: [
      ...(events === 'none' ? [`what is changed back between two scans: ${reason}`] : []),
      ...(events === 'inotify' ? [`the author of changes: ${reason}`] : []),
      ...(events !== 'none' && unwatchedDirectories > 0
        ? [`what is changed back between two scans, in ${unwatchedDirectories} directories`]
        : []),
      ...(events === 'sensor' && directoriesWithoutAuthors > 0
        ? [`the author of changes, in ${directoriesWithoutAuthors} directories`]
        : []),
    ],
    losses: { events: lostEvents, authors: lostAuthors },
  };
}

/** Reads the known facts and ignores others, because the agent may have another version. */
export function readNodeFacts(facts: GuardFacts = {}): {
  /** Keyed by the first 8 characters of the uid. */
  readonly generations: ReadonlyMap<string, number>;
  readonly progress: Progress | undefined;
} {
  const generations = Object.entries(facts).flatMap(([name, value]): [string, number][] =>
    name.startsWith(prefix) && typeof value === 'number' ? [[name.slice(prefix.length), value]] : [],
  );
  return { generations: new Map(generations), progress: progressOf(facts) };
}

function progressOf({ object, step, since, entries, entriesPerSecond }: GuardFacts): Progress | undefined {
  if (typeof object !== 'string' || typeof since !== 'string' || Number.isNaN(Date.parse(since)))
    return undefined;
  if (step !== 'init' && step !== 'accept' && step !== 'check') return undefined;
  const number = (value: unknown): number => (typeof value === 'number' ? value : 0);
  return { object, step, since, entries: number(entries), entriesPerSecond: number(entriesPerSecond) };
}
