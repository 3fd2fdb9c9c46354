/**
 * What `rampart status` says, as one object: `--format json`.
 *
 * Within `rampart.dev/status/v1` fields keep their names and meanings; new ones, and new kinds of problems, may come.
 *
 * @module
 */

/** All of it. Times are RFC 3339 in UTC. */
export interface StatusReport {
  readonly schema: 'rampart.dev/status/v1';
  /** The API server that was asked. */
  readonly server: string;
  /** When. */
  readonly time: string;
  /** The namespace whose policies these are; `null`: of all. */
  readonly namespace: string | null;
  /** Whether all policies are, and files are compared wherever a FileIntegrity asks for it: the exit code is 0 then. */
  readonly guarded: boolean;
  /** By namespace and name. */
  readonly policies: readonly PolicyReport[];
  /** By namespace, name and group; `null` where they may not be read. */
  readonly fileIntegrities: readonly IntegrityReport[] | null;
  /** All that are known; by name. */
  readonly nodes: readonly NodeReport[];
  /** Who looks after all that a cluster needs once. Without it nothing that is guarded is lost, but status and clean-up stand still. */
  readonly operator: HolderReport;
  /** `null` where it may not be read. */
  readonly kiveData: {
    readonly total: number | null;
    /** Of policies that are not there any more; `null` also where one namespace was asked for. */
    readonly orphans: number | null;
  };
  /** What this user may not read; what depends on it is `null` or unknown. */
  readonly notRead: readonly { readonly resource: string; readonly why: string }[];
}

export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** No problem is known, and a container matches. */
  readonly guarded: boolean;
  /** It is being deleted: nothing is asked for any more. */
  readonly deleting: boolean;
  /** The condition of that type; `null` before the operator has looked at it. */
  readonly ready: {
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    /** Whether it is about the policy as it is now. */
    readonly isCurrent: boolean;
  } | null;
  readonly traps: number;
  /** Running containers that a trap is for. */
  readonly containers: number;
  readonly files: number;
  readonly kiveData: number | null;
  readonly lastAlertTime: string | null;
  readonly problems: readonly PolicyProblemReport[];
  readonly nodes: readonly PolicyNodeReport[];
}

/** What the agent of a node says of a policy. */
export interface PolicyNodeReport {
  readonly name: string;
  readonly containers: number;
  readonly files: number;
  readonly problemCount: number;
  /** Whether it is about the policy as it is now. */
  readonly isCurrent: boolean;
  readonly lastAlertTime: string | null;
}

/**
 * Why a policy does not guard all that it asks for:
 *
 * - `trap-refused`: a trap cannot work; the others do.
 * - `file-missing`: a file in a container is not watched.
 * - `no-match`: no running container matches.
 * - `node-silent`: containers match on a node whose agent has said nothing of the policy.
 * - `node-behind`: what the agent of a node says is of an older version of the policy.
 * - `no-loader`: on the node's kernel nobody alerts.
 * - `callback-failing`: files are watched, and a callback takes no alerts of the node.
 * - `not-ready`: the operator says so for another reason.
 */
export type ProblemKind =
  | 'trap-refused'
  | 'file-missing'
  | 'no-match'
  | 'node-silent'
  | 'node-behind'
  | 'no-loader'
  | 'callback-failing'
  | 'not-ready';

export interface PolicyProblemReport {
  readonly kind: ProblemKind;
  /** A sentence. */
  readonly message: string;
  readonly node?: string;
  /** `namespace/pod/container`. */
  readonly container?: string;
  readonly path?: string;
  /** Which of `spec.traps`. */
  readonly trap?: number;
}

export interface IntegrityReport {
  /** The API group that it was written in. */
  readonly group: string;
  readonly namespace: string;
  readonly name: string;
  /** It is compared on every node that has said something, and no problem is known. */
  readonly guarded: boolean;
  readonly deleting: boolean;
  /** `null` before the operator has looked at it. */
  readonly phase: string | null;
  /** No scans run: it has the annotation `holdoff`. */
  readonly paused: boolean;
  /** Whether the latest result of every node is that nothing has changed; `null` while nothing is known of one. */
  readonly intact: boolean | null;
  /** Sentences: why files are not compared, or not all. */
  readonly problems: readonly { readonly message: string; readonly node?: string }[];
  readonly nodes: readonly IntegrityNodeReport[];
}

/** What is known of the files of a node. */
export interface IntegrityNodeReport {
  readonly name: string;
  /** `Succeeded`: nothing has changed; `Failed`: something has; `Errored`: it is not known. `null` before the first result. */
  readonly condition: 'Succeeded' | 'Failed' | 'Errored' | null;
  readonly lastProbeTime: string | null;
  readonly filesAdded: number;
  readonly filesChanged: number;
  readonly filesRemoved: number;
  /** All of them. */
  readonly findingCount: number;
  /** The latest three. */
  readonly findings: readonly IntegrityFindingReport[];
  /** How changes are known between scans; `null` where nobody says. */
  readonly detection: {
    readonly events: 'sensor' | 'inotify' | 'none';
    readonly reason: string;
    readonly watchedDirectories: number;
    readonly unwatchedDirectories: number;
    readonly lostEvents: number;
    readonly lostAuthors: number;
    readonly directoriesWithoutAuthors: number;
  } | null;
}

export interface IntegrityFindingReport {
  readonly path: string;
  readonly change: 'added' | 'removed' | 'changed';
  readonly attributes: readonly string[];
  readonly seen: string;
  readonly seenBy: 'event' | 'scan';
  /** Who it was, in a few words; `null` where nobody saw it. */
  readonly author: string | null;
}

export interface NodeReport {
  readonly name: string;
  /** Its boot id; `null` where nobody tells. */
  readonly kernel: string | null;
  /** `running`: it renews the lease of its kernel, or its pod is ready. `not-seen`: neither is known. */
  readonly agent: 'running' | 'not-seen';
  /** As deploy/ labels it; `null` where there is none. */
  readonly agentPod: { readonly name: string; readonly ready: boolean } | null;
  /** Who alerts on its kernel. */
  readonly loader: HolderReport;
  /** Containers with watched files, and these files, of policies of any namespace; `null` where KiveData may not be read. */
  readonly containers: number | null;
  readonly files: number | null;
}

/** Who holds a lease. */
export interface HolderReport {
  /** `held`; `stale`: its holder has not renewed it in time; `free`: nobody's; `unknown`: it may not be read. */
  readonly state: 'held' | 'stale' | 'free' | 'unknown';
  readonly holder: string | null;
  /** By this machine's clock; negative where the holder's is ahead. */
  readonly renewedSecondsAgo: number | null;
}
