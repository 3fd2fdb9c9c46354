/** File integrity's part of `rampart status -o json`. */
import type { FileIntegrityNodeStatus, ReportedFinding } from '../api.ts';
import type { Detection } from '../model/finding.ts';
import type { Progress } from '../results/node-facts.ts';

/** The fields at the top level. */
export interface FileIntegrityFields {
  /** Sorted by namespace, name and group; `null` if they may not be read. */
  readonly fileIntegrities: readonly IntegrityReport[] | null;
}

export interface IntegrityReport {
  /** The API group of the FileIntegrity. */
  readonly group: string;
  readonly namespace: string;
  readonly name: string;
  /** Whether no entry in `problems[]` is about this FileIntegrity. */
  readonly guarded: boolean;
  readonly deleting: boolean;
  /** `null` if the operator has not examined the FileIntegrity yet. */
  readonly phase: string | null;
  /** Whether scans are held by the annotation `holdoff`. */
  readonly paused: boolean;
  /** Whether nothing has changed on any node, according to the latest results; `null` if a node has no result yet or an error. */
  readonly intact: boolean | null;
  readonly nodes: readonly IntegrityNodeReport[];
}

/** The report before it is decided which FileIntegrity objects are guarded. */
export type Unjudged = Omit<IntegrityReport, 'guarded'>;

export interface IntegrityNodeReport {
  readonly name: string;
  /**
   * `Succeeded`: nothing has changed; `Failed`: something has changed; `Errored`: that is unknown. `null` before the
   * first result.
   */
  readonly condition: 'Succeeded' | 'Failed' | 'Errored' | null;
  readonly lastProbeTime: string | null;
  /** What the agent is doing for this FileIntegrity; `null` if nothing, or if unknown. */
  readonly progress: Progress | null;
  readonly filesAdded: number;
  readonly filesChanged: number;
  readonly filesRemoved: number;
  readonly findingCount: number;
  /** The first three findings that no package update explains. */
  readonly findings: readonly IntegrityFindingReport[];
  /** Package updates that explain findings, and the latest ones that were accepted into the baseline. */
  readonly packageUpdates: NonNullable<FileIntegrityNodeStatus['packageUpdates']>;
  /** Large files that were not read yet since the last scan; `null` if there are no such files. */
  readonly reading: NonNullable<FileIntegrityNodeStatus['reading']> | null;
  /** How changes are detected between scans; `null` if unknown. */
  readonly detection: Detection | null;
}

export interface IntegrityFindingReport extends Omit<ReportedFinding, 'author' | 'last'> {
  /** The author as a short text; `null` if the author was not seen. */
  readonly author: string | null;
  /** A later change that did not affect the content, and its author; absent if there was no such change. */
  readonly last?: Pick<ReportedFinding, 'seen' | 'seenBy'> & { readonly author: string | null };
}
