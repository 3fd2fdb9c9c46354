/**
 * What the agent runs for this guard on a node: it keeps the rules in the kernel as the policies say.
 *
 * @module
 */
import { setImmediate as turn } from 'node:timers/promises';

import type { NodeContext } from '../../shared/guard/context.ts';
import type { NodePart } from '../../shared/guard/guard.ts';
import { referenceTo } from '../../shared/kube/event-object.ts';
import { whenSynced } from '../../shared/kube/run-parts.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { Backoff } from '../../shared/time/backoff.ts';
import { sleep, systemClock } from '../../shared/time/clock.ts';
import { networkPolicies } from './api.ts';
import { PolicyEngine } from './engine/engine.ts';
import type { PolicyProblem } from './engine/rules.ts';
import type { Cutter, CutterOptions } from './node/established/cutter.ts';
import { type BridgeOptions, filterBridges } from './node/bridge.ts';
import { type Dataplane, defaultDataplaneOptions } from './node/dataplane.ts';
import { followObjects } from './node/followed-objects.ts';
import { nodeFacts } from './status/node-facts.ts';
import { NodeCounts, registerNodeMetrics } from './node/metrics.ts';
import { Refusals } from './node/refusals.ts';
import type { NetworkPolicyOptions } from './options.ts';

/** No retry mends it: the library or a capability is missing. */
function isHopeless(error: unknown): boolean {
  return (
    error instanceof RampartError &&
    (error.code === errorCodes.PRIVILEGE || error.code === errorCodes.UNSUPPORTED)
  );
}

/** What comes within this time of a change is programmed together; a change after a quiet time at once. */
const SETTLE_MS = 5;
const VERIFY_MS = 60_000;
const FULL_SYNC_MS = 5 * 60_000;
const RETRY = { baseMs: 100, maxMs: 10_000 };

export const networkPolicyNode: NodePart = async (context, values) => {
  const { networkPolicyDefault, podCidr, networkPolicyBackend, networkPolicyEstablished } =
    values as unknown as NetworkPolicyOptions;
  const { openBackend } = await import('./node/backend.ts');
  const { logger, signal } = context;
  const opened = await openBackend(
    networkPolicyBackend,
    { unknownPods: networkPolicyDefault },
    logger,
    signal,
  );
  using dataplane = opened.dataplane;
  logger.info(`network policies are programmed by ${opened.name}`);
  await runNetworkPolicyNode(context, {
    dataplane,
    podCidrs: podCidr,
    refusesUnknown: networkPolicyDefault === 'deny',
    backend: opened.name,
    cutsEstablished: networkPolicyEstablished === 'cut',
  });
};

export interface NetworkPolicyNodeOptions {
  readonly dataplane: Dataplane;
  /** Its name, for `rampart status`. Default: `nftables`. */
  readonly backend?: string;
  /** Rules are needed also where no policy selects a pod. */
  readonly refusesUnknown?: boolean;
  /** Connections that are no longer allowed are ended after each change. */
  readonly cutsEstablished?: boolean;
  /** Runs what looks into the node's network. Default: that of the calling thread. */
  readonly inNetwork?: CutterOptions['inNetwork'];
  /** Empty: those of the Node object. */
  readonly podCidrs?: readonly string[];
  readonly bridges?: BridgeOptions;
  /** Called after each time that the kernel has taken the rules. */
  readonly onProgrammed?: () => void;
}

/**
 * Nothing is programmed before a policy selects a pod of this node, unless unknown pods are refused: who asks for nothing finds
 * nothing in the kernel.
 *
 * Until the signal aborts. What is programmed stays then, and while the API is away: who stops this does not open anything.
 * What the kernel does not take is tried again, and nothing is opened for it.
 */
export async function runNetworkPolicyNode(
  context: NodeContext,
  options: NetworkPolicyNodeOptions,
): Promise<void> {
  const { nodeName, signal, logger, metrics, health } = context;
  const counts = new NodeCounts();
  if (metrics !== undefined) registerNodeMetrics(metrics.metrics, counts);
  const engine = new PolicyEngine(nodeName);
  using objects = followObjects(context, engine, options.podCidrs ?? []);
  let problem: string | undefined = 'not programmed yet';
  health.ready('rules', () => problem);
  const recorder = context.recorder();
  using refusals = new Refusals({
    ...{ context, recorder, engine, objects, counts },
    dataplane: options.dataplane,
    group: defaultDataplaneOptions.logGroup,
    ...(options.inNetwork && { inNetwork: options.inNetwork }),
  });
  using cutter = options.cutsEstablished === true ? await openCutter() : undefined;
  const told = new Map<string, string>();
  let isProgrammed = false;
  let refused: readonly PolicyProblem[] = [];
  let bridges: string | undefined;

  await whenSynced(objects.caches, signal, async () => {
    let changed = Promise.withResolvers<void>();
    const wake = (): void => changed.resolve();
    signal.addEventListener('abort', wake, { once: true });
    objects.begin(wake);
    const backoff = new Backoff(RETRY);
    const clock = systemClock;
    let fullAtMs = -Infinity;
    let verifiedAtMs = clock.monotonicMs();
    let programmedAtMs = verifiedAtMs;
    while (!signal.aborted) {
      changed = Promise.withResolvers();
      try {
        const nowMs = clock.monotonicMs();
        if (nowMs - fullAtMs >= FULL_SYNC_MS) {
          await programAll();
          await readCounters();
          fullAtMs = verifiedAtMs = nowMs;
        } else if (nowMs - verifiedAtMs >= VERIFY_MS) {
          await repair();
          await readCounters();
          verifiedAtMs = nowMs;
        } else await programChange();
        programmedAtMs = clock.monotonicMs();
        problem = undefined;
        backoff.reset();
        options.onProgrammed?.();
      } catch (error) {
        if (signal.aborted) return;
        if (counts.fullSyncs === 0 && isHopeless(error)) throw error;
        counts.failedSyncs++;
        problem = error instanceof Error ? error.message : String(error);
        tellFacts();
        logger.error({ err: error }, 'the kernel refused the rules; the previous rules stay, retrying');
        // Nobody knows what was taken: all of it again.
        fullAtMs = -Infinity;
        await sleep(clock, backoff.nextMs(), signal).catch(() => undefined);
        continue;
      }
      tellProblems();
      tellFacts();
      const pause = new AbortController();
      const dueMs = Math.max(0, verifiedAtMs + VERIFY_MS - clock.monotonicMs());
      const due = sleep(clock, dueMs, AbortSignal.any([signal, pause.signal])).catch(() => undefined);
      const paused = AbortSignal.any([signal, pause.signal]);
      const disturbed = isProgrammed ? options.dataplane.disturbed(paused) : Promise.resolve(false);
      await Promise.race([due, changed.promise, ...(isProgrammed ? [disturbed] : [])]);
      pause.abort();
      if (await disturbed) verifiedAtMs = -Infinity;
      const settleMs = Math.max(0, programmedAtMs + SETTLE_MS - clock.monotonicMs());
      // At least what is in the same piece of a watch's answer.
      if (settleMs === 0) await turn();
      else await sleep(clock, settleMs, signal).catch(() => undefined);
    }
  });

  async function openCutter(): Promise<Cutter> {
    const module = await import('./node/established/cutter.ts');
    return new module.Cutter({
      ...{ logger, signal },
      onCut: (flows) => (counts.flowsCut += flows),
      ...(options.inNetwork && { inNetwork: options.inNetwork }),
    });
  }

  /** Not with each change: of 1,000 pods they take some 0.3 s. */
  async function readCounters(): Promise<void> {
    if (isProgrammed) refusals.open();
    cutter?.tidy();
    counts.refused = isProgrammed ? await options.dataplane.counters(signal) : [];
  }

  function isNeeded(): boolean {
    if (options.refusesUnknown === true) return true;
    for (const pod of engine.rules.pods.values()) {
      if (pod.ingress !== undefined || pod.egress !== undefined) return true;
    }
    return false;
  }

  async function programAll(): Promise<void> {
    const beganMs = systemClock.monotonicMs();
    engine.takeChange();
    isProgrammed = isNeeded();
    if (isProgrammed) {
      tellBridges();
      // Before the rules, so that the first one who is refused is told.
      refusals.open();
      refused = (await options.dataplane.sync(engine.rules, signal)).refused ?? [];
      cutter?.programmed(engine.rules);
    } else await options.dataplane.remove(signal);
    counts.fullSyncs++;
    counts.lastSyncMs = systemClock.wallMs();
    counts.lastSyncSeconds = (systemClock.monotonicMs() - beganMs) / 1000;
    countRules();
  }

  async function programChange(): Promise<void> {
    const change = engine.takeChange();
    if (change.pods.size === 0 && change.policies.size === 0 && !change.podCidrs) return;
    if (isNeeded() !== isProgrammed) return await programAll();
    if (!isProgrammed) return;
    refused = (await options.dataplane.apply(engine.rules, change, signal)).refused ?? [];
    cutter?.programmed(engine.rules);
    counts.partialSyncs++;
    countRules();
  }

  /** What somebody else has changed of ours is put right, and told. */
  async function repair(): Promise<void> {
    const drift = isProgrammed ? await options.dataplane.verify(signal) : [];
    if (drift.length > 0) {
      counts.driftRepaired += drift.length;
      logger.warn(
        { drift: drift.slice(0, 10), count: drift.length },
        'another program changed our rules; repairing',
      );
      await programAll();
    } else await programChange();
  }

  /** With each full sync: bridges may come later, and somebody may set it back. */
  function tellBridges(): void {
    const now = filterBridges(options.bridges);
    if (now !== undefined && now !== bridges) logger.warn(now);
    bridges = now;
  }

  function tellFacts(): void {
    const { backend = 'nftables' } = options;
    const untold = refusals.problem;
    context.tellFacts(nodeFacts({ backend, isProgrammed, counts, problem, refused, untold, bridges }));
  }

  function countRules(): void {
    const { pods, policies } = engine.rules;
    counts.localPods = pods.size;
    counts.policies = policies.size;
  }

  /** Once for each policy that a pod of this node needs. */
  function tellProblems(): void {
    const problems = [...engine.problems(), ...refused];
    counts.problems = problems.length;
    if (problems.length === 0 && told.size === 0) return;
    const needed = new Set([...engine.rules.policies.values()].map(({ policy }) => policy));
    for (const [key, of] of Map.groupBy(problems, (one: PolicyProblem) => one.policy)) {
      if (!needed.has(key)) continue;
      const note = of.map(({ field, message }) => `${field}: ${message}`).join('\n');
      const policy = objects.policies.get(key);
      if (policy === undefined || told.get(key) === note) continue;
      told.set(key, note);
      logger.warn({ policy: key }, `cannot be expressed, and allows nothing: ${note}`);
      recorder.record({
        regarding: referenceTo(networkPolicies, policy),
        type: 'Warning',
        reason: 'NotExpressed',
        action: 'Program',
        note,
      });
    }
    for (const key of told.keys()) if (!problems.some(({ policy }) => policy === key)) told.delete(key);
  }
}
