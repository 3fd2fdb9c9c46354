/**
 * What makes the rules of a node true in its kernel. Each dataplane is run by the suite beside this file
 * (dataplane.suite.fixture.ts), which says by packets what that means.
 */
import type { Direction, NodeRules, PodKey, PolicyProblem, RulesChange } from '../engine/rules.ts';

export interface DataplaneOptions {
  /** For addresses within the node's podCidrs that are of no known pod, as of one that has just started. */
  readonly unknownPods: 'allow' | 'deny';
  /** Of NFLOG: refused packets go there, ten a minute of each pod and direction. */
  readonly logGroup: number;
}

export const defaultDataplaneOptions: DataplaneOptions = { unknownPods: 'allow', logGroup: 100 };

/** What a call has done to the kernel. */
export interface Programmed {
  /** 0: all was as it should be. */
  readonly commands: number;
  /** Why all of ours was replaced, where that was not asked for. */
  readonly replacedBecause?: string;
  /** What the kernel does not take: it is left out and allows nothing, all else is programmed. */
  readonly refused?: readonly PolicyProblem[];
}

/** Something of ours that is not as it was programmed. */
export interface Drift {
  /** `chain pod-in-... (default/web)` */
  readonly what: string;
  readonly how: 'missing' | 'changed' | 'added';
}

/** Packets that were refused since the dataplane was first programmed. */
export interface Refused {
  /** Undefined: of addresses that are of no known pod. */
  readonly pod: PodKey | undefined;
  readonly direction: Direction;
  readonly packets: number;
  readonly bytes: number;
}

/**
 * Opening one changes nothing in the kernel: what an earlier process left goes on until the first {@link sync}, which takes
 * it over. Disposing it leaves all that is programmed.
 *
 * Each change is atomic: a packet sees the rules before it or those after it. What others have in the kernel is not touched.
 * Connections that are established go on, whatever changes.
 */
export interface Dataplane extends Disposable {
  /** Makes the kernel say `rules`, whatever of ours is there. Repairs drift. */
  sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed>;
  /** Programs what is different from the rules before, which were given to `sync` or `apply`. */
  apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed>;
  /** What is in the kernel and differs from what was programmed. */
  verify(signal?: AbortSignal): Promise<readonly Drift[]>;
  /**
   * Whether the kernel told that somebody else has changed something of ours: true as soon as it did, false with the signal. Where the
   * kernel does not tell, {@link verify} has to be asked now and then.
   */
  disturbed(signal: AbortSignal): Promise<boolean>;
  counters(signal?: AbortSignal): Promise<readonly Refused[]>;
  /** Takes away all that is ours; a line for each thing that was there. */
  remove(signal?: AbortSignal): Promise<readonly string[]>;
  /** Whose refusal it is, from the prefix of a logged packet. Undefined: not one of ours, or its pod is gone. */
  whoseLog(prefix: string): { readonly pod: PodKey | undefined; readonly direction: Direction } | undefined;
}
