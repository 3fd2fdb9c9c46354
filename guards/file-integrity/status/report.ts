/** File integrity's part of `rampart status -o json`. */
import type { FileIntegrityNodeStatus, ReportedFinding } from '../api.ts';
import type { Detection } from '../model/finding.ts';
import type { Progress } from '../results/node-facts.ts';

/** At the top level. */
export interface FileIntegrityFields {
  /** Sorted by namespace, name and group; `null` if they may not be read. */
  readonly fileIntegrities: readonly IntegrityReport[] | null;
}

export interface IntegrityReport {
  /** The API group that it was written in. */
  readonly group: string;
  readonly namespace: string;
  readonly name: string;
  /** Without an entry in `problems[]`. */
  readonly guarded: boolean;
  readonly deleting: boolean;
  /** `null` before the operator has looked at it. */
  readonly phase: string | null;
  /** No scans run: it has the annotation `holdoff`. */
  readonly paused: boolean;
  /** Whether the latest result of every node is that nothing has changed; `null` while nothing is known of one. */
  readonly intact: boolean | null;
  readonly nodes: readonly IntegrityNodeReport[];
}

/** Before it is decided whether it is guarded. */
export type Unjudged = Omit<IntegrityReport, 'guarded'>;

export interface IntegrityNodeReport {
  readonly name: string;
  /** `Succeeded`: nothing has changed; `Failed`: something has; `Errored`: it is not known. `null` before the first result. */
  readonly condition: 'Succeeded' | 'Failed' | 'Errored' | null;
  readonly lastProbeTime: string | null;
  /** The agent's present step for this FileIntegrity; `null`: none, or unknown. */
  readonly progress: Progress | null;
  readonly filesAdded: number;
  readonly filesChanged: number;
  readonly filesRemoved: number;
  readonly findingCount: number;
  /** The first three that no update of a package explains. */
  readonly findings: readonly IntegrityFindingReport[];
  /** Updates of packages that explain findings, and the latest that were accepted into the baseline. */
  readonly packageUpdates: NonNullable<FileIntegrityNodeStatus['packageUpdates']>;
  /** Large files without a result of the last scan; `null` without any. */
  readonly reading: NonNullable<FileIntegrityNodeStatus['reading']> | null;
  /** How changes are detected between scans; `null` if unknown. */
  readonly detection: Detection | null;
}

export interface IntegrityFindingReport extends Omit<ReportedFinding, 'author' | 'last'> {
  /** The author, in a few words; `null` if not seen. */
  readonly author: string | null;
  /** A later change of something other than the content, and its author; absent without one. */
  readonly last?: Pick<ReportedFinding, 'seen' | 'seenBy'> & { readonly author: string | null };
}
