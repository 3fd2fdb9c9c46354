/**
 * Decides what to do next for the FileIntegrities of a node. No I/O, no clock.
 */
import type { IntegrityProvider } from '../provider/provider.ts';
import type { NodeRequest } from '../results/node-result.ts';

export type AcceptRequest = Extract<NodeRequest, { kind: 'accept' }>;

/** The known facts about one FileIntegrity on this node. Times are of one monotonic clock. */
export interface JobView {
  readonly gracePeriodMs: number;
  /** The FileIntegrity's settings. */
  readonly provider: IntegrityProvider['name'];
  /** There is a configuration, and a key to sign with. */
  readonly hasConfiguration: boolean;
  readonly hasKey: boolean;
  /** The annotation `holdoff`, or the node is being updated. */
  readonly isHeld: boolean;
  /** The machine configuration is another than the one that the baseline was made with. */
  readonly isReconfigured: boolean;
  /** Requests that were not carried out yet. */
  readonly requests: readonly NodeRequest[];
  /**
   * As the provider reports it for this configuration; `unknown` if it was not asked; `broken` when there is one that cannot be
   * used.
   */
  readonly baseline: 'unknown' | 'none' | 'ready' | 'other-configuration' | 'broken';
  /** The provider of the last one; undefined if unknown. */
  readonly madeBy: IntegrityProvider['name'] | undefined;
  /** Whether it is known what differs from the baseline. */
  readonly knowsFindings: boolean;
  /** Before it no first baseline is made: the node is still being set up. */
  readonly firstDueMs: number;
  readonly checkDueMs: number;
  /** Explained changes can be accepted into the baseline. */
  readonly hasAcceptable: boolean;
  /** A scan is needed as soon as possible: events were lost. */
  readonly wantsScan: boolean;
  /** After a failure, nothing is tried before this time. */
  readonly retryDueMs: number;
}

export type InitReason = 'first' | 'request' | 'provider' | 'configuration' | 'machine-config';

export type Step =
  | { readonly kind: 'wait'; readonly for: 'configuration' | 'key' | 'holdoff' }
  | { readonly kind: 'wait'; readonly for: 'time'; readonly untilMs: number }
  /** Ask the provider for the state of the baseline. */
  | { readonly kind: 'look' }
  | { readonly kind: 'init'; readonly reason: InitReason; readonly requests: readonly string[] }
  /** Without a request: updates of packages. */
  | { readonly kind: 'accept'; readonly request?: AcceptRequest }
  | { readonly kind: 'check' };

/** The next step of one job. */
export function stepOf(view: JobView, nowMs: number): Step {
  if (!view.hasConfiguration) return { kind: 'wait', for: 'configuration' };
  if (!view.hasKey) return { kind: 'wait', for: 'key' };
  if (nowMs < view.retryDueMs) return waitUntil(view.retryDueMs);
  if (view.baseline === 'unknown') return { kind: 'look' };
  // An explicit request: it is executed even while scans are held, and whatever the state of the baseline.
  const initRequests = view.requests.filter(({ kind }) => kind === 're-init');
  if (initRequests.length > 0) {
    return { kind: 'init', reason: 'request', requests: initRequests.map(({ id }) => id) };
  }
  const accept = view.requests.find((request) => request.kind === 'accept');
  const isOfOther = view.madeBy !== undefined && view.madeBy !== view.provider;
  const isReady = view.baseline === 'ready' && !isOfOther;
  if (accept !== undefined && isReady && view.knowsFindings) return { kind: 'accept', request: accept };
  if (view.isHeld) return { kind: 'wait', for: 'holdoff' };
  // The one that this provider made before the other is older than what the other knows.
  if (isOfOther) return init('provider');
  switch (view.baseline) {
    case 'none':
      return nowMs < view.firstDueMs ? waitUntil(view.firstDueMs) : init('first');
    case 'other-configuration':
      return init('configuration');
    case 'broken':
      // The right one may have been put back.
      return nowMs < view.checkDueMs ? waitUntil(view.checkDueMs) : { kind: 'look' };
    case 'ready': {
      if (view.isReconfigured) return init('machine-config');
      if (view.hasAcceptable && view.knowsFindings) return { kind: 'accept' };
      if (view.wantsScan || accept !== undefined || nowMs >= view.checkDueMs) return { kind: 'check' };
      return waitUntil(view.checkDueMs);
    }
  }
}

/** Scans that would be due within this share of their own period are made together with one that is due. */
export const togetherShare = 0.25;

export interface PlannedJob {
  readonly view: JobView;
  readonly step: Step;
}

/** The jobs of one scan: the due one, and those of the same provider that are due soon. */
export function checkedTogether<J extends PlannedJob>(due: J, jobs: readonly J[], nowMs: number): J[] {
  const isSoon = ({ view, step }: J): boolean =>
    view.provider === due.view.provider &&
    (step.kind === 'check' ||
      (step.kind === 'wait' &&
        step.for === 'time' &&
        view.baseline === 'ready' &&
        nowMs >= view.retryDueMs &&
        view.checkDueMs - nowMs <= togetherShare * view.gracePeriodMs));
  return [due, ...jobs.filter((job) => job !== due && isSoon(job))];
}

const urgency: Readonly<Record<Step['kind'], number>> = { look: 0, accept: 1, init: 2, check: 3, wait: 4 };

/** The job that comes first: quick steps before long ones, and the scan that has been due longest. */
export function firstOf<J extends PlannedJob>(jobs: readonly J[]): J | undefined {
  let first: J | undefined;
  for (const job of jobs) {
    if (job.step.kind === 'wait') continue;
    if (first === undefined || comesBefore(job, first)) first = job;
  }
  return first;
}

function comesBefore(one: PlannedJob, other: PlannedJob): boolean {
  const difference = urgency[one.step.kind] - urgency[other.step.kind];
  return difference !== 0 ? difference < 0 : one.view.checkDueMs < other.view.checkDueMs;
}

/** When the next step may be due by time alone. */
export function wakeAtMs(jobs: readonly PlannedJob[]): number {
  let atMs = Infinity;
  for (const { step } of jobs)
    if (step.kind === 'wait' && step.for === 'time') atMs = Math.min(atMs, step.untilMs);
  return atMs;
}

function init(reason: InitReason): Step {
  return { kind: 'init', reason, requests: [] };
}

function waitUntil(untilMs: number): Step {
  return { kind: 'wait', for: 'time', untilMs };
}
