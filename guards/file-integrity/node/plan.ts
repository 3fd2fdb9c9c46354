/** Decides on the next step for the FileIntegrities of a node. */
import type { IntegrityProvider } from '../provider/provider.ts';
import type { NodeRequest } from '../results/node-result.ts';

export type AcceptRequest = Extract<NodeRequest, { kind: 'accept' }>;

/** What is known about one FileIntegrity on this node. Times are those of one monotonic clock. */
export interface JobView {
  readonly gracePeriodMs: number;
  /** The provider that the FileIntegrity requests. */
  readonly provider: IntegrityProvider['name'];
  /** Whether there is a configuration; `hasKey`: whether there is a key to sign with. */
  readonly hasConfiguration: boolean;
  readonly hasKey: boolean;
  /** Whether the annotation `holdoff` is set, or the node is being updated. */
  readonly isHeld: boolean;
  /** Whether the machine configuration is another one than when the baseline was made. */
  readonly isReconfigured: boolean;
  /** Requests that are not completed yet. */
  readonly requests: readonly NodeRequest[];
  /**
   * The state that the provider reports for this configuration; `unknown` if it was not asked yet, `broken` if there is
   * a baseline that cannot be used.
   */
  readonly baseline: 'unknown' | 'none' | 'ready' | 'other-configuration' | 'broken';
  /** The provider of the last baseline; undefined if unknown. */
  readonly madeBy: IntegrityProvider['name'] | undefined;
  /** Whether the differences from the baseline are known. */
  readonly knowsFindings: boolean;
  /** The first baseline is not made before this time, because the node is still being set up. */
  readonly firstDueMs: number;
  readonly checkDueMs: number;
  /** Whether there are changes by package updates that can be accepted into the baseline. */
  readonly hasAcceptable: boolean;
  /** Whether a scan is needed as soon as possible, because events were lost. */
  readonly wantsScan: boolean;
  /** After a failure, no step is started before this time. */
  readonly retryDueMs: number;
}

export type InitReason = 'first' | 'request' | 'provider' | 'configuration' | 'machine-config';

export type Step =
  | { readonly kind: 'wait'; readonly for: 'configuration' | 'key' | 'holdoff' }
  | { readonly kind: 'wait'; readonly for: 'time'; readonly untilMs: number }
  /** Ask the provider for the state of the baseline. */
  | { readonly kind: 'look' }
  | { readonly kind: 'init'; readonly reason: InitReason; readonly requests: readonly string[] }
  /** Without a request, package updates are accepted. */
  | { readonly kind: 'accept'; readonly request?: AcceptRequest }
  | { readonly kind: 'check' };

/** The next step of one job. */
export function stepOf(view: JobView, nowMs: number): Step {
  if (!view.hasConfiguration) return { kind: 'wait', for: 'configuration' };
  if (!view.hasKey) return { kind: 'wait', for: 'key' };
  if (nowMs < view.retryDueMs) return waitUntil(view.retryDueMs);
  if (view.baseline === 'unknown') return { kind: 'look' };
  // An explicit request is carried out even while scans are held, and whatever the state of the baseline.
  const initRequests = view.requests.filter(({ kind }) => kind === 're-init');
  if (initRequests.length > 0) {
    return { kind: 'init', reason: 'request', requests: initRequests.map(({ id }) => id) };
  }
  const accept = view.requests.find((request) => request.kind === 'accept');
  const isOfOther = view.madeBy !== undefined && view.madeBy !== view.provider;
  const isReady = view.baseline === 'ready' && !isOfOther;
  if (accept !== undefined && isReady && view.knowsFindings) return { kind: 'accept', request: accept };
  if (view.isHeld) return { kind: 'wait', for: 'holdoff' };
  // An earlier baseline of this provider is older than that of the other provider, so it is not used.
  if (isOfOther) return init('provider');
  switch (view.baseline) {
    case 'none':
      return nowMs < view.firstDueMs ? waitUntil(view.firstDueMs) : init('first');
    case 'other-configuration':
      return init('configuration');
    case 'broken':
      // The right baseline may have been restored.
      return nowMs < view.checkDueMs ? waitUntil(view.checkDueMs) : { kind: 'look' };
    case 'ready': {
      if (view.isReconfigured) return init('machine-config');
      if (view.hasAcceptable && view.knowsFindings) return { kind: 'accept' };
      if (view.wantsScan || accept !== undefined || nowMs >= view.checkDueMs) return { kind: 'check' };
      return waitUntil(view.checkDueMs);
    }
  }
}

/** A scan that would be due within this fraction of its own period is made together with one that is due now. */
export const togetherShare = 0.25;

export interface PlannedJob {
  readonly view: JobView;
  readonly step: Step;
}

/** The jobs that are scanned together: the due one, and those of the same provider that are due soon. */
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

/** The job whose step comes first: quick steps before long ones, and the scan that has been due longest. */
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

/** The earliest time at which a waiting step becomes due. */
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
