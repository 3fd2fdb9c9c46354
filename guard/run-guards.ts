import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { aborted } from '../lib/time/abort.ts';
import type { GuardAdmissions } from './admission.ts';
import type { ClusterContext, GuardContext, NodeContext } from './context.ts';
import { followServed } from './served-condition.ts';
import type { Guard, HealthPart, OptionValues } from './guard.ts';
import { parsedOptions } from './guard-options.ts';
import { GuardStates } from './guard-states.ts';
import { Leadership } from './lead.ts';
import { deleteLeftLeases } from './left-leases.ts';
import { type GuardProcess, healthName, partContext, readinessParts } from './part-context.ts';
import { orUndefined } from '../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { type Clock, sleep, systemClock } from '../lib/time/clock.ts';
import { Backoff } from '../lib/time/backoff.ts';
import type { Resource, Versions } from '../lib/kube/crd/resource.ts';
import { nodeFacts } from '../lib/kube/object/facts.ts';
import { nodes } from '../lib/kube/object/object.ts';
import { apiResources } from '../lib/kube/client/discovery.ts';

/** What the node parts of all guards share. */
export interface NodeFacts extends Pick<
  NodeContext,
  'nodeName' | 'containers' | 'hostRoot' | 'version' | 'say'
> {
  readonly directoryOf: (guard: Guard) => string;
}

/** What the cluster parts of all guards share. */
interface ClusterFacts extends Pick<ClusterContext, 'reports'> {
  /** Undefined if the API server is another process. */
  readonly admissions?: GuardAdmissions;
}

interface RunGuardsOptions {
  readonly guards: readonly Guard[];
  readonly process: GuardProcess;
  readonly values: OptionValues;
  readonly signal: AbortSignal;
  readonly states?: GuardStates;
}

/**
 * Runs the node parts of guards until the signal aborts and all have ended.
 *
 * A part that cannot work here (a {@link RampartError}, for example because the kernel refuses the sensor) does not end the others: its
 * state says so, the log says it once, and the process is not ready. Its error is thrown only if no part is left. Any other error is a
 * fault of the program, and so is a part that ends by itself: then all parts end, since only a new process can help.
 *
 * @throws the error of the first part that ends all others.
 */
export async function runNodeParts(options: RunGuardsOptions, node: NodeFacts): Promise<void> {
  const { states = new GuardStates() } = options;
  await runParts('node', { ...options, states }, async (guard, context) => {
    const part = await guard.node?.();
    const { directoryOf, ...facts } = node;
    return part?.(
      {
        ...context,
        ...facts,
        reportFacts: (reported) => states.setFacts(guard.name, reported),
        reportCoverage: (read) => states.setCoverage(guard.name, read),
        get directory() {
          if (guard.directory === undefined) throw new TypeError(`guard ${guard.name} declares no directory`);
          return directoryOf(guard);
        },
      },
      parsedOptions(guard, options.values),
    );
  });
}

/**
 * Runs the cluster parts of guards, as {@link runNodeParts} runs those of a node. If there are several processes, only the leader works.
 */
export async function runClusterParts(
  options: RunGuardsOptions,
  { reports, admissions }: ClusterFacts,
): Promise<void> {
  const { process, states = new GuardStates() } = options;
  const { client, logger, identity } = process;
  await using leadership = new Leadership({
    ...{ client, logger, identity, states },
    upkeep: (term) =>
      deleteLeftLeases({
        ...{ client, logger, signal: term, metrics: process.metrics?.controllers },
        nodes: process.caches.use({ type: nodes, projection: nodeFacts }, term),
      }),
  });
  await runParts('cluster', { ...options, states }, async (guard, context) => {
    const part = await guard.cluster?.();
    const { signal, health } = context;
    const running = part?.(
      {
        ...context,
        reportFacts: (reported) => states.setFacts(guard.name, reported),
        reports,
        admission: admissions && { use: (admission) => admissions.use(guard.name, admission) },
        lead: async (work) => {
          // A replica that does not lead is ready too: it can take over.
          using _part = health.ready('lease', () =>
            leadership.leader === '' ? 'its holder is not known yet' : undefined,
          );
          await leadership.lead(signal, async (term) => {
            await using stack = new AsyncDisposableStack();
            const stop = new AbortController();
            const ofTerm = partContext(guard, 'cluster', process, {
              signal: AbortSignal.any([term, stop.signal]),
              stack,
            });
            const serving = followServed(guard, ofTerm);
            try {
              await work(ofTerm);
            } finally {
              stop.abort();
              await serving;
            }
          });
        },
      },
      parsedOptions(guard, options.values),
    );
    await running?.catch((error: unknown) => {
      // The guard is reported as unavailable; writes must not wait for it forever.
      if (error instanceof RampartError) admissions?.giveUp(guard.name);
      throw error;
    });
  });
}

async function runParts(
  on: HealthPart['on'],
  { guards, process, signal: outer, states = new GuardStates() }: RunGuardsOptions,
  run: (guard: Guard, context: GuardContext) => Promise<void>,
): Promise<void> {
  const { client, health, logger } = process;
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const parts = guards.filter((guard) => guard[on] !== undefined);
  const failures: unknown[] = [];
  let left = parts.length;
  using cleanup = new DisposableStack();
  const runOne = async (guard: Guard): Promise<void> => {
    const { name } = guard;
    const log = logger.child({ guard: name });
    states.set(name, { state: 'starting' });
    cleanup.use(
      health.ready(healthName(name, on, ''), () => {
        const { state, reason } = states.get(name);
        return state === 'running' ? undefined : (reason ?? 'it has not started yet');
      }),
    );
    await using stack = new AsyncDisposableStack();
    try {
      await whenServed(client, guard.resources, {
        signal,
        isOptional: guard.worksWithoutResources === true,
        onMissing: (reason) => {
          if (states.set(name, { state: 'waiting', reason })) log.warn(`${name} waits: ${reason}`);
        },
      });
      const context = partContext(guard, on, { ...process, logger: log }, { signal, stack });
      const names = readinessParts(guard, on);
      states.untilReady(name, () => health.notReady(names));
      states.set(name, { state: 'running' });
      await run(guard, context);
      if (!signal.aborted) logger.warn(`${name} has ended; stopping`);
      stop.abort();
    } catch (error) {
      left--;
      if (signal.aborted) return;
      if (error instanceof RampartError) {
        const reason = error.message.split('\n')[0] ?? '';
        states.set(name, { state: 'unavailable', reason });
        log.error(
          { err: error },
          `${name} is not available here; the other guards continue: ${error.message}`,
        );
        if (left > 0) return;
      }
      failures.push(error);
      stop.abort();
    }
  };
  await Promise.all(parts.map(runOne));
  if (parts.length === 0) await aborted(signal);
  if (failures.length > 0) throw failures[0];
}

/** The chosen guards in the order of the list; all if no name is given. @throws {RampartError} `INPUT` for an unknown name. */
export function selectGuards(guards: readonly Guard[], names: readonly string[]): readonly Guard[] {
  if (names.length === 0) return guards;
  const unknown = names.find((name) => !guards.some((guard) => guard.name === name));
  if (unknown !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `there is no guard ${JSON.stringify(unknown)}`,
      next: `Known guards: ${guards.map(({ name }) => name).join(', ')}`,
    });
  }
  return guards.filter(({ name }) => names.includes(name));
}

const RETRY = { baseMs: 1000, maxMs: 15_000 };

/**
 * Resolves when the API serves all of `resources`, or has said that it does not serve an optional one; until
 * then it retries, and passes the reason to `onMissing`.
 *
 * @throws the signal's reason when it aborts.
 */
export async function whenServed(
  client: KubeClient,
  resources: readonly Resource[],
  { signal, onMissing, isOptional = false, clock = systemClock }: WhenServedOptions,
): Promise<void> {
  const backoff = new Backoff(RETRY);
  for (;;) {
    signal.throwIfAborted();
    let reason: string | undefined;
    try {
      reason = await missing(client, resources, signal);
      if (reason === undefined || isOptional) return;
    } catch (error) {
      signal.throwIfAborted();
      reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    }
    onMissing(reason);
    await sleep(clock, backoff.nextMs(), signal);
  }
}

interface WhenServedOptions {
  readonly signal: AbortSignal;
  readonly onMissing: (reason: string) => void;
  /** Waits only until the API has answered, even if it does not serve them. Default: false. */
  readonly isOptional?: boolean;
  readonly clock?: Clock;
}

/** A sentence that lists the kinds that the API does not serve; undefined if it serves all. */
async function missing(
  client: KubeClient,
  resources: readonly Resource[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const byVersion = Map.groupBy(resources, ({ group, versions }) => `${group}/${storedVersion(versions)}`);
  for (const [path, ofVersion] of byVersion) {
    const [group = '', version = ''] = path.split('/');
    const served = (await orUndefined(apiResources(client, { group, version }, { signal }))) ?? [];
    const absent = ofVersion.find(({ plural }) => !served.some(({ name }) => name === plural));
    if (absent !== undefined) {
      return `the API does not serve ${absent.plural}.${group}/${version}: its CustomResourceDefinition is not installed`;
    }
  }
  return undefined;
}

function storedVersion(versions: Versions): string {
  const names = Object.keys(versions);
  return names.find((name) => versions[name]?.storage === true) ?? names[0] ?? '';
}
