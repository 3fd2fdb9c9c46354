/**
 * Enforces the rules of a node in its kernel. Each dataplane passes the suite beside this file
 * (dataplane.suite.fixture.ts), which defines with packets what that means.
 */
import type {
  Address,
  Direction,
  NodeRules,
  PodKey,
  PolicyProblem,
  RefusalVerdict,
  RulesChange,
} from '../engine/rules.ts';

export type LogGroups = readonly [number, ...number[]];

/**
 * @example
 * const strict: DataplaneOptions = { unknownPods: 'deny', logGroups: [100, 200] };
 */
export interface DataplaneOptions {
  /**
   * For addresses within the node's podCidrs that belong to no known pod, such as one that has just started. `monitor`: they are allowed,
   * and what `deny` would refuse is reported.
   */
  readonly unknownPods: 'allow' | 'deny' | 'monitor';
  /** NFLOG groups for packets that are refused or would be, ten a minute for each pod and direction: the agent reads the first one. */
  readonly logGroups: LogGroups;
}

export const defaultDataplaneOptions: DataplaneOptions = { unknownPods: 'allow', logGroups: [100] };

/**
 * The changes of a call in the kernel.
 *
 * @example
 * const unchanged: Programmed = { commands: 0 };
 * const partly: Programmed = {
 *   commands: 12,
 *   refused: [{ policy: 'shop/db', field: 'spec.ingress[0].ports[0]', message: 'The kernel does not know SCTP.' }],
 * };
 */
export interface Programmed {
  /** 0: everything was as it should be. */
  readonly commands: number;
  /** Why everything of ours was replaced, if that was not requested. */
  readonly replacedBecause?: string;
  /** Parts that the kernel rejects: they are left out and allow nothing; everything else is programmed. */
  readonly refused?: readonly PolicyProblem[];
}

/**
 * Something of ours that differs from what was programmed.
 *
 * @example
 * const emptied: Drift = { what: 'chain class-in-0a1b (shop/db)', how: 'changed' };
 */
export interface Drift {
  /** `chain pod-in-... (default/web)` */
  readonly what: string;
  readonly how: 'missing' | 'changed' | 'added';
}

/** Whose packets a chain refuses, or lets pass in monitor mode. */
export interface ChainOwner {
  /** Undefined: those of addresses that belong to no known pod. */
  readonly pod: PodKey | undefined;
  readonly direction: Direction;
  readonly verdict: RefusalVerdict;
}

/** The addresses of a logged packet. */
export interface LoggedEnds {
  readonly source: Address;
  readonly destination: Address;
}

/** Packets with this verdict since the dataplane was first programmed. */
export interface Refused extends ChainOwner {
  readonly packets: number;
  readonly bytes: number;
}

/**
 * Opening one changes nothing in the kernel: rules of an earlier process stay in force until the first {@link
 * sync}, which takes them over. Disposing it leaves everything programmed.
 *
 * Each change is atomic: a packet sees either the old or the new rules. Objects of other programs are not
 * touched. Established connections continue during all changes.
 *
 * @example
 * using dataplane = await openDataplane(options);
 * const { refused = [] } = await dataplane.sync(engine.rules); // at the start, and now and then
 * const change = engine.takeChange();
 * await dataplane.apply(engine.rules, change); // for each event
 * for (const { policy, field, message } of refused) report(policy, field, message);
 * for (const { what, how } of await dataplane.verify()) logger.warn({ what, how }, 'rules differ');
 */
export interface Dataplane extends Disposable {
  /** Makes the kernel enforce `rules`, whatever rules of ours it has now. Repairs drift. */
  sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed>;
  /** Programs the difference from the previous rules, those last passed to `sync` or `apply`. */
  apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed>;
  /** Whether there are rules of ours that packets pass, those of an earlier process included. */
  isEnforcing(signal?: AbortSignal): Promise<boolean>;
  /**
   * Removes all rules, but makes the kernel track connections: connections that are open when rules come continue only if it knows them.
   */
  idle(signal?: AbortSignal): Promise<void>;
  /** The differences between the kernel and the programmed rules. */
  verify(signal?: AbortSignal): Promise<readonly Drift[]>;
  /**
   * Whether the kernel has reported every change since {@link sync} or {@link verify} compared last, and none of our objects by another
   * program. False if it cannot tell.
   *
   * @throws {RampartError} `SYSTEM`, `PRIVILEGE`.
   */
  isUndisturbed(): boolean;
  /**
   * Whether the kernel reports that another program has changed one of our objects: true as soon as it does,
   * false on the signal. If the kernel does not report this, {@link verify} has to be called now and then.
   */
  disturbed(signal: AbortSignal): Promise<boolean>;
  counters(signal?: AbortSignal): Promise<readonly Refused[]>;
  /** Removes everything of ours; returns a line for each thing that was removed. */
  remove(signal?: AbortSignal): Promise<readonly string[]>;
  /** Whose rules logged a packet, from the prefix it was logged with and its addresses. Undefined: not one of ours, or its pod is gone. */
  ownerOfLog(prefix: string, packet: LoggedEnds): ChainOwner | undefined;
}
