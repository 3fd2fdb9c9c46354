/** The guard's part on a node: it keeps the rules in the kernel in line with the policies. */
import type { NodeContext } from '../../../guard/context.ts';
import type { NodePart } from '../../../guard/guard.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { PolicyEngine } from '../engine/engine.ts';
import type { Cutter, CutterOptions } from './established/cutter.ts';
import { Departed } from './established/departed.ts';
import type { BridgeOptions } from './bridge.ts';
import { type Dataplane, defaultDataplaneOptions, type LogGroups } from '../dataplane/dataplane.ts';
import { Enforcement } from './enforcement.ts';
import { type FollowedObjects, followObjects } from './followed-objects.ts';
import { coverageOf, nodeFacts } from '../status/node-facts.ts';
import { NodeCounts, registerNodeMetrics } from './metrics.ts';
import { KeptNamespace } from '../dataplane/namespace.ts';
import { type OtherRules, readOtherRules } from '../other-rules/other-rules.ts';
import { OtherRulesReport } from '../other-rules/other-rules-report.ts';
import { announceEnforcer } from './presence.ts';
import type { FlowLog } from './flows/flow-log.ts';
import { Refusals } from './refusals.ts';
import { SourceCheck } from './sources/source-check.ts';
import { Turns } from './turns.ts';
import type { NetworkPolicyOptions } from '../options.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { networkPolicies } from '../api.ts';
import type { PolicyMode } from '../engine/monitor.ts';
import type { NodeRules, PolicyProblem } from '../engine/rules.ts';

/** Whether retrying is useless: the library or a capability is missing. */
function isHopeless(error: unknown): boolean {
  return (
    error instanceof RampartError &&
    (error.code === errorCodes.PRIVILEGE || error.code === errorCodes.UNSUPPORTED)
  );
}

const RETRY = { baseMs: 100, maxMs: 10_000 };

export const networkPolicyNode: NodePart<NetworkPolicyOptions> = async (context, options) => {
  const { unknownPods, podCidrs, mode, backend, established, logGroups, flowsPerSecond } = options;
  // Requested first, so that the API answers while the kernel is tried.
  const followed = follow(context, podCidrs, mode);
  using _objects = followed.objects;
  await using _presence = await announceEnforcer();
  const { openBackend } = await import('../dataplane/backend.ts');
  const { logger, signal } = context;
  const unknown = unknownPods === 'deny' && mode === 'monitor' ? 'monitor' : unknownPods;
  const opened = await openBackend(backend, { unknownPods: unknown, logGroups }, logger, signal);
  using dataplane = opened.dataplane;
  logger.info(`network policies are programmed by ${opened.name}`);
  if (mode === 'monitor')
    logger.warn('network policies refuse nothing on this node: --network-policy-mode monitor');
  using namespace = new KeptNamespace();
  const how = {
    dataplane,
    otherRules: () => readOtherRules(namespace, signal),
    refusesUnknown: unknownPods === 'deny',
    backend: opened.name,
    mode,
    cutsEstablished: established === 'cut',
    logGroups,
    flowsPerSecond,
  };
  await runNetworkPolicyNode(context, how, followed);
};

/** An engine, and the caches that feed it. */
interface Followed {
  readonly engine: PolicyEngine;
  readonly objects: FollowedObjects;
}

/** @param podCidrs - Pod CIDRs of this node; if empty, those of the Node object. */
export function follow(
  context: NodeContext,
  podCidrs: readonly string[] = [],
  mode: PolicyMode = 'enforce',
): Followed {
  const engine = new PolicyEngine(context.nodeName, mode);
  return { engine, objects: followObjects(context, engine, podCidrs) };
}

export interface NetworkPolicyNodeOptions {
  readonly dataplane: Dataplane;
  /** Name of the dataplane, for `rampart status`. Default: `nftables`. */
  readonly backend?: string;
  /** Mode of the engine. Default: `enforce`. */
  readonly mode?: PolicyMode;
  /** Whether rules are needed even if no policy selects a pod. */
  readonly refusesUnknown?: boolean;
  /** Whether connections that are no longer allowed are ended after each change. */
  readonly cutsEstablished?: boolean;
  /** Runs code in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: CutterOptions['inNetwork'];
  readonly bridges?: BridgeOptions;
  /** The NFLOG groups that the dataplane logs to: the first one is read here. */
  readonly logGroups?: LogGroups;
  /** Maximum number of allowed connections logged per second. Default: 0, none. */
  readonly flowsPerSecond?: number;
  /** Reads other programs' rules in the kernel. Default: they are not read. */
  readonly otherRules?: () => Promise<OtherRules>;
  /** Called each time the kernel has accepted the rules. */
  readonly onProgrammed?: () => void;
}

/**
 * No rule is programmed before a policy selects a pod of this node, unless unknown pods are refused: without
 * policies, the kernel only tracks connections.
 *
 * Runs until the signal aborts. The rules stay after that, and while the API is unavailable, so that nothing more
 * is allowed. Rejected rules are retried; until they are accepted, they allow nothing.
 */
export async function runNetworkPolicyNode(
  context: NodeContext,
  options: NetworkPolicyNodeOptions,
  { engine, objects }: Followed,
): Promise<void> {
  const { signal, logger, metrics, health } = context;
  const { dataplane, backend = 'nftables', mode = 'enforce', inNetwork } = options;
  const { logGroups = defaultDataplaneOptions.logGroups } = options;
  const counts = new NodeCounts();
  if (metrics !== undefined) registerNodeMetrics(metrics.metrics, counts);
  let problem: string | undefined = 'not programmed yet';
  health.ready('rules', () => problem);
  const recorder = context.recorder();
  const refusesUnknown = options.refusesUnknown === true;
  using sources = new SourceCheck({
    ...{ engine, logger, logGroups, mode, inNetwork },
    isNeeded: () => refusesUnknown || objects.policies.size > 0,
  });
  using refusals = new Refusals({
    ...{ context, recorder, engine, objects, counts, dataplane, sources, mode },
    group: logGroups[0],
    ...(inNetwork && { inNetwork }),
  });
  using cutter = options.cutsEstablished === true ? await openCutter(context, counts, inNetwork) : undefined;
  using flowLog = await openFlowLog(context, { engine, objects }, counts, options);
  const departed = new Departed({
    ...{ logger, signal },
    onForgotten: (flows) => (counts.flowsForgotten += flows),
    ...(inNetwork && { inNetwork }),
  });
  const enforcement = new Enforcement({
    ...{ dataplane, engine, counts, refusals, sources, cutter, departed, logger, signal, refusesUnknown },
    bridges: options.bridges,
  });
  const reportProblems = problemReporter(logger, recorder, objects.policies);
  let policiesVersion: string | undefined;
  await using others =
    options.otherRules &&
    new OtherRulesReport({ read: options.otherRules, onChange: () => reportFacts(), logger, signal });
  const reportFacts = (): void => {
    const { isProgrammed, refused, bypassed } = enforcement;
    const unreported = refusals.problem;
    const unlogged = flowLog?.problem;
    context.reportFacts(
      nodeFacts({
        backend,
        mode,
        isProgrammed,
        counts,
        policiesVersion,
        problem,
        refused,
        unreported,
        unlogged,
        bypassed,
        others: others?.words,
      }),
    );
  };

  context.reportCoverage(() =>
    coverageOf(backend, mode, options.cutsEstablished === true, counts, sources, flowLog !== undefined),
  );
  await begin(enforcement, objects.caches, signal, logger);
  await whenSynced(objects.caches, signal, async () => {
    const turns = new Turns(enforcement, dataplane, signal);
    objects.begin(() => turns.wake());
    const backoff = new Backoff(RETRY);
    while (!signal.aborted) {
      try {
        // Read before the rules are programmed: later changes may not be in the kernel yet.
        const version = objects.policiesVersion();
        await turns.take();
        policiesVersion = version;
        problem = undefined;
        flowLog?.open();
        backoff.reset();
        options.onProgrammed?.();
      } catch (error) {
        if (signal.aborted) return;
        if (counts.fullSyncs === 0 && isHopeless(error)) throw error;
        counts.failedSyncs++;
        problem = messageOf(error);
        reportFacts();
        logger.error(
          { err: error },
          'the kernel refused the rules; the previous rules stay in place, retrying',
        );
        await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
        continue;
      }
      const problems = [...engine.problems(), ...enforcement.refused];
      counts.problems = problems.length;
      reportProblems({ NotExpressed: problems, ReadDifferently: engine.warnings() }, engine.rules);
      reportFacts();
      others?.look(counts.fullSyncs);
      await turns.next();
    }
  });
}

/**
 * Calls `enforcement.begin()` until it succeeds. Gives up once the caches are synced: the first turn of the main
 * loop then programs the rules itself, and reports a failure.
 *
 * @throws the kernel's refusal, if retrying cannot help
 */
async function begin(
  enforcement: Enforcement,
  caches: FollowedObjects['caches'],
  signal: AbortSignal,
  logger: Logger,
): Promise<void> {
  const synced = whenSynced(caches, signal, async () => undefined);
  const backoff = new Backoff(RETRY);
  for (;;) {
    try {
      return await enforcement.begin();
    } catch (error) {
      if (signal.aborted) return;
      if (isHopeless(error)) throw error;
      logger.error({ err: error }, 'the kernel refused to be prepared for rules; retrying');
      const waited = sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
      const isOver = await Promise.race([synced.then(() => true), waited.then(() => signal.aborted)]);
      if (isOver) return;
    }
  }
}

/** Without the flow log, its modules are not loaded. */
async function openFlowLog(
  context: NodeContext,
  { engine, objects }: Followed,
  counts: NodeCounts,
  { flowsPerSecond = 0, inNetwork }: NetworkPolicyNodeOptions,
): Promise<FlowLog | undefined> {
  if (flowsPerSecond === 0) return undefined;
  const module = await import('./flows/flow-log.ts');
  return new module.FlowLog({ context, engine, objects, counts, perSecond: flowsPerSecond, inNetwork });
}

async function openCutter(
  { logger, signal }: NodeContext,
  counts: NodeCounts,
  inNetwork: CutterOptions['inNetwork'],
): Promise<Cutter> {
  const module = await import('./established/cutter.ts');
  return new module.Cutter({
    ...{ logger, signal },
    onCut: (flows) => (counts.flowsCut += flows),
    ...(inNetwork && { inNetwork }),
  });
}

/** Keyed by the reason of the event. */
const problemWords = {
  NotExpressed: 'cannot be expressed, and allows nothing',
  ReadDifferently: 'says something else than what applies',
} as const;

type ProblemReason = keyof typeof problemWords;

/**
 * Reports the parts of policies that cannot be expressed, or that apply in another way than their text suggests: a
 * line and an event each time they change. Only policies that pods of this node need are reported.
 */
export function problemReporter(
  logger: Logger,
  recorder: Pick<EventRecorder, 'record'>,
  policies: FollowedObjects['policies'],
): (problems: Readonly<Record<ProblemReason, readonly PolicyProblem[]>>, rules: NodeRules) => void {
  /** For each reason, what was reported last; keyed by policy. */
  const reported = { NotExpressed: new Map<string, string>(), ReadDifferently: new Map<string, string>() };

  function notify(reason: ProblemReason, problems: readonly PolicyProblem[], rules: NodeRules): void {
    const before = reported[reason];
    if (problems.length === 0 && before.size === 0) return;
    const needed = new Set([...rules.policies.values()].map(({ policy }) => policy));
    const byPolicy = Map.groupBy(problems, ({ policy }) => policy);
    for (const [key, of] of byPolicy) {
      const note = of.map(({ field, message }) => `${field}: ${message}`).join('\n');
      const policy = policies.get(key);
      if (!needed.has(key) || policy === undefined || before.get(key) === note) continue;
      before.set(key, note);
      logger.warn({ policy: key }, `${problemWords[reason]}: ${note}`);
      recorder.record({
        regarding: referenceTo(networkPolicies, policy),
        ...{ type: 'Warning', reason, action: 'Program', note },
      });
    }
    for (const key of before.keys()) if (!byPolicy.has(key)) before.delete(key);
  }

  return ({ NotExpressed, ReadDifferently }, rules) => {
    notify('NotExpressed', NotExpressed, rules);
    notify('ReadDifferently', ReadDifferently, rules);
  };
}
