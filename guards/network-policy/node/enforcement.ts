/** Keeps the kernel's rules in line with the engine. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import type { PolicyEngine } from '../engine/engine.ts';
import {
  type RulesChange,
  isNoChange,
  type NodeRules,
  noRules,
  type PodKey,
  type PolicyProblem,
} from '../engine/rules.ts';
import { type BridgeOptions, filterBridges } from './bridge.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Cutter } from './established/cutter.ts';
import type { Departed } from './established/departed.ts';
import type { NodeCounts } from './metrics.ts';
import { PolicyRefusals } from './policy-refusals.ts';
import type { Refusals } from './refusals.ts';
import type { SourceCheck } from './sources/source-check.ts';

export interface EnforcementOptions {
  readonly dataplane: Dataplane;
  readonly engine: PolicyEngine;
  readonly counts: NodeCounts;
  readonly refusals: Refusals;
  readonly sources: SourceCheck;
  readonly cutter: Cutter | undefined;
  readonly departed: Pick<Departed, 'programmed' | 'problem'>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Whether rules are needed even if no policy selects a pod. */
  readonly refusesUnknown: boolean;
  readonly bridges: BridgeOptions | undefined;
}

/** Each call throws what the dataplane throws; it is then unknown what was applied, and {@link programAll} is due. */
export class Enforcement {
  readonly #options: EnforcementOptions;
  readonly #policyRefusals = new PolicyRefusals();
  #isProgrammed = false;
  #refused: readonly PolicyProblem[] = [];
  #bridges: string | undefined;
  #unbounded: string | undefined;

  constructor(options: EnforcementOptions) {
    this.#options = options;
  }

  get isProgrammed(): boolean {
    return this.#isProgrammed;
  }

  /** Rules that the kernel has rejected: all others apply. */
  get refused(): readonly PolicyProblem[] {
    return this.#refused;
  }

  /** Why packets bypass the rules; undefined if they do not. */
  get bypassed(): string | undefined {
    const { problem } = this.#options.departed;
    const inherited =
      problem && `a pod may inherit the connections of one that is gone and had its address: ${problem}`;
    return (
      [this.#bridges, this.#unbounded, inherited].filter((why) => why !== undefined).join('; ') || undefined
    );
  }

  /** Called before the API was listed: rules that an earlier process left are kept, since they reflect more than this process knows. */
  async begin(): Promise<void> {
    const { dataplane, engine, refusals, refusesUnknown, signal } = this.#options;
    if (await dataplane.isEnforcing(signal)) return;
    const { podCidrs } = engine.rules;
    if (!refusesUnknown || isUnbounded(podCidrs)) return await dataplane.idle(signal);
    this.#reportBridges();
    refusals.open();
    await dataplane.sync({ ...noRules, podCidrs }, signal);
  }

  async programAll(): Promise<void> {
    const { dataplane, engine, counts, refusals, sources, cutter, signal } = this.#options;
    const beganMs = systemClock.monotonicMs();
    sources.look(true);
    const change = engine.takeChange();
    // Changes during the call are for the next turn.
    const { rules } = engine;
    this.#isProgrammed = this.#isNeeded();
    if (this.#isProgrammed) {
      this.#reportBridges();
      // Opened before the rules are programmed, so that the first refusal is reported.
      refusals.open();
      this.#refused = (await dataplane.sync(rules, signal)).refused ?? [];
      cutter?.programmed(rules);
    } else await dataplane.idle(signal);
    this.#afterwards(rules, change);
    this.#programSources();
    counts.fullSyncs++;
    counts.lastSyncMs = systemClock.wallMs();
    counts.lastSyncSeconds = (systemClock.monotonicMs() - beganMs) / 1000;
    counts.syncSeconds.add(counts.lastSyncSeconds);
    this.#countRules();
  }

  async programChange(): Promise<void> {
    const { engine, sources } = this.#options;
    // Rules depend on the interfaces of this node's pods only: a change of other pods is in the kernel before these are looked for.
    const isLocal = engine.touchedPods.size > 0;
    if (isLocal) sources.look(false);
    await this.#programRules();
    if (!isLocal) {
      sources.look(false);
      if (engine.touchedPods.size > 0) await this.#programRules();
    }
    this.#programSources();
  }

  async #programRules(): Promise<void> {
    const { dataplane, engine, counts, cutter, signal } = this.#options;
    const change = engine.takeChange();
    if (isNoChange(change)) return;
    if (this.#isNeeded() !== this.#isProgrammed) return await this.programAll();
    const { rules } = engine;
    if (!this.#isProgrammed) return this.#afterwards(rules, change, change.pods);
    const beganMs = systemClock.monotonicMs();
    this.#refused = (await dataplane.apply(rules, change, signal)).refused ?? [];
    cutter?.programmed(rules);
    this.#afterwards(rules, change, change.pods);
    counts.partialSyncs++;
    counts.syncSeconds.add((systemClock.monotonicMs() - beganMs) / 1000);
    this.#countRules();
  }

  /** Repairs our objects after changes by other programs, and reports them. */
  async repair(): Promise<void> {
    const { dataplane, counts, logger, sources, signal } = this.#options;
    sources.look(true);
    if (!sources.verify()) counts.driftRepaired++;
    // Reading the rules is avoided if possible: it blocks the thread, so that events wait.
    const isRead = this.#isProgrammed && !dataplane.isUndisturbed();
    const drift = isRead ? await dataplane.verify(signal) : [];
    if (drift.length === 0) return await this.programChange();
    counts.driftRepaired += drift.length;
    logger.warn(
      { drift: drift.slice(0, 10), count: drift.length },
      'another program changed our rules; repairing',
    );
    await this.programAll();
  }

  /** Counters are not read after each change: for 1,000 pods that takes some 15 ms. */
  async readCounters(): Promise<void> {
    const { dataplane, engine, counts, refusals, sources, cutter, signal } = this.#options;
    if (this.#isProgrammed || sources.isProgrammed) refusals.open();
    cutter?.tidy();
    counts.forgedSources = sources.counters();
    counts.refused = this.#isProgrammed ? await dataplane.counters(signal) : [];
    counts.refusedByPolicy = this.#policyRefusals.add(counts.refused, engine.rules);
  }

  /**
   * Updates what depends on the rules.
   *
   * @param changed - Pods that may be different. Default: any pod.
   */
  #afterwards(rules: NodeRules, { peers }: RulesChange, changed?: ReadonlySet<PodKey>): void {
    const { departed, engine } = this.#options;
    const gone = [...peers.values()].flatMap((change) => [
      ...(change?.[4].gone ?? []),
      ...(change?.[6].gone ?? []),
    ]);
    // A peer whose labels have changed is not gone: it keeps its connections.
    departed.programmed(
      rules,
      changed,
      gone.filter((address) => engine.podAt(address) === undefined),
    );
  }

  #programSources(): void {
    const { counts, refusals, sources } = this.#options;
    sources.program();
    if (sources.isProgrammed) refusals.open();
    counts.uncheckedPods = sources.unchecked.size;
  }

  #isNeeded(): boolean {
    const { engine, refusesUnknown } = this.#options;
    return refusesUnknown || engine.rules.policies.size > 0;
  }

  /** Checked with each full sync: bridges may be added later, and the setting may be reset. */
  #reportBridges(): void {
    const now = filterBridges(this.#options.bridges);
    if (now !== undefined && now !== this.#bridges) this.#options.logger.warn(now);
    this.#bridges = now;
  }

  /** Checked after each change: the Node may get its CIDRs later. */
  #reportUnbounded(): void {
    const { engine, refusesUnknown, logger } = this.#options;
    const now =
      refusesUnknown && isUnbounded(engine.rules.podCidrs)
        ? 'addresses of unknown pods are not refused: the Node has no podCIDRs. Name the pod addresses of this node: --pod-cidr'
        : undefined;
    if (now !== undefined && now !== this.#unbounded) logger.warn(now);
    this.#unbounded = now;
  }

  #countRules(): void {
    this.#reportUnbounded();
    const { counts, engine } = this.#options;
    const { pods, policies } = engine.rules;
    counts.localPods = pods.size;
    counts.policies = policies.size;
  }
}

function isUnbounded(podCidrs: NodeRules['podCidrs']): boolean {
  return podCidrs[4].length + podCidrs[6].length === 0;
}
