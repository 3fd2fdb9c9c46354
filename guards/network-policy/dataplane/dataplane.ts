/**
 * Enforces the rules of a node in its kernel. Each dataplane passes the tests in dataplane.suite.fixture.ts, which
 * define with packets what that means.
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
   * What happens to packets of addresses within the node's podCidrs that belong to no known pod, such as one that has
   * just started. `monitor`: they are allowed, and those that `deny` would refuse are reported.
   */
  readonly unknownPods: 'allow' | 'deny' | 'monitor';
  /**
   * NFLOG groups for packets that are or would be refused, limited to ten a minute for each pod and direction. The
   * agent reads the first group.
   */
  readonly logGroups: LogGroups;
}

export const defaultDataplaneOptions: DataplaneOptions = { unknownPods: 'allow', logGroups: [100] };

/**
 * What a call has changed in the kernel.
 *
 * @example const unchanged: Programmed = { commands: 0 }; const partly: Programmed = { commands: 12, refused: [{
 *   policy: 'shop/db', field: 'spec.ingress[0].ports[0]', message: 'The kernel does not know SCTP.' }], };
 */
export interface Programmed {
  /** Number of commands; 0 if everything was already as it should be. */
  readonly commands: number;
  /** Why all of Rampart's rules were replaced although that was not requested. */
  readonly replacedBecause?: string;
  /** Parts of policies that the kernel rejects: they are left out and allow nothing. Everything else is programmed. */
  readonly refused?: readonly PolicyProblem[];
}

/**
 * One of Rampart's objects in the kernel that differs from what was programmed.
 *
 * @example const emptied: Drift = { what: 'chain class-in-0a1b (shop/db)', how: 'changed' };
 */
export interface Drift {
  /** Such as `chain pod-in-... (default/web)`. */
  readonly what: string;
  readonly how: 'missing' | 'changed' | 'added';
}

/** The pod whose packets a chain refuses or, in monitor mode, would refuse. */
export interface ChainOwner {
  /** Undefined for addresses that belong to no known pod. */
  readonly pod: PodKey | undefined;
  readonly direction: Direction;
  readonly verdict: RefusalVerdict;
}

/** The addresses of a logged packet. */
export interface LoggedEnds {
  readonly source: Address;
  readonly destination: Address;
}

/** Number of packets with this verdict since the dataplane was first programmed. */
export interface Refused extends ChainOwner {
  readonly packets: number;
  readonly bytes: number;
}

/**
 * Opening a dataplane changes nothing in the kernel: rules of an earlier process remain in force until the first {@link
 * sync}, which takes them over. Disposing it leaves everything programmed.
 *
 * Each change is atomic: a packet sees either the old or the new rules. Objects of other programs are not touched.
 * Established connections continue during all changes.
 *
 * @example using dataplane = await openDataplane(options); const { refused = [] } = await dataplane.sync(engine.rules);
 *   // at the start, and now and then const change = engine.takeChange(); await dataplane.apply(engine.rules, change);
 *   // for each event for (const { policy, field, message } of refused) report(policy, field, message); for (const {
 *   what, how } of await dataplane.verify()) logger.warn({ what, how }, 'rules differ');
 */
export interface Dataplane extends Disposable {
  /** Makes the kernel enforce `rules`, whichever of Rampart's rules it has now. Repairs drift. */
  sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed>;
  /** Programs the difference from the previous rules, those last passed to `sync` or `apply`. */
  apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed>;
  /** Whether packets pass any of Rampart's rules, including those of an earlier process. */
  isEnforcing(signal?: AbortSignal): Promise<boolean>;
  /**
   * Removes all rules, but keeps the kernel tracking connections. When rules are programmed later, open connections can
   * continue only if the kernel knows them.
   */
  idle(signal?: AbortSignal): Promise<void>;
  /** The differences between the kernel and the programmed rules. */
  verify(signal?: AbortSignal): Promise<readonly Drift[]>;
  /**
   * Whether no other program has changed one of Rampart's objects since {@link sync} or {@link verify} last compared
   * them. False also if the kernel may not have reported all changes.
   *
   * @throws {RampartError} `SYSTEM`, `PRIVILEGE`.
   */
  isUndisturbed(): boolean;
  /**
   * Waits until the kernel reports that another program has changed one of Rampart's objects, and then returns true;
   * returns false when the signal aborts. If the kernel does not report such changes, {@link verify} has to be called
   * now and then.
   */
  disturbed(signal: AbortSignal): Promise<boolean>;
  counters(signal?: AbortSignal): Promise<readonly Refused[]>;
  /** Removes all of Rampart's objects; returns a line for each that was removed. */
  remove(signal?: AbortSignal): Promise<readonly string[]>;
  /**
   * The pod whose rules logged a packet, derived from the log prefix and the packet's addresses. Undefined if the
   * prefix is not Rampart's, or the pod is gone.
   */
  ownerOfLog(prefix: string, packet: LoggedEnds): ChainOwner | undefined;
}
