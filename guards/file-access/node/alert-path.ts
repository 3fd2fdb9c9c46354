/**
 * The way of an alert from the sensor: a line, a count, the queue of its callback, the status of its policy.
 */
import type { Access } from '../../../lib/sensor/access.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { PlannedAlert } from './loader-plan.ts';
import type { NodeCounts } from './node-metrics.ts';

/** The facts reported for a planned alert, besides its line. */
export interface AlertedPolicy {
  readonly callbackSecret?: PlannedAlert['callbackSecret'];
  readonly context: Pick<PlannedAlert['context'], 'policyNamespace' | 'policyName'>;
}

export interface AlertPathOptions {
  /** Takes each line. */
  readonly sink: (line: string) => void;
  readonly counts: NodeCounts;
  /** Also receives the alerts of traps with a callback. Without it, those alerts are only written as lines. */
  readonly delivery: Pick<Delivery, 'enqueue'> | undefined;
  /** Called when this policy (`namespace/name`) has raised an alert. */
  readonly onAlerted: (policyKey: string, wallMs: number) => void;
}

/** One for a node. */
export class AlertPath {
  readonly #options: AlertPathOptions;
  /** Wall clock of the batch that is read: one look at it for all its alerts. 0 between batches. */
  #nowMs = 0;

  constructor(options: AlertPathOptions) {
    this.#options = options;
  }

  /** Takes each alert in its order. */
  readonly alert = (
    line: string,
    callback: string,
    id: string,
    access: Pick<Access, 'timeNs'>,
    planned: AlertedPolicy,
  ): void => {
    const { sink, counts, delivery, onAlerted } = this.#options;
    sink(line);
    counts.alerts++;
    this.#nowMs ||= Date.now();
    counts.latencies.add(Math.max(0, this.#nowMs / 1000 - Number(access.timeNs) / 1e9));
    if (callback !== '' && delivery !== undefined) {
      counts.callbacks++;
      const { callbackSecret: secret } = planned;
      if (secret === undefined || !delivery.enqueue(callback, id, line, secret)) counts.callbacksRefused++;
    }
    onAlerted(policyOf(planned), this.#nowMs);
  };

  readonly batchEnd = (): void => void (this.#nowMs = 0);
}

/** `namespace/name`. */
export function policyOf({ context }: AlertedPolicy): string {
  return `${context.policyNamespace}/${context.policyName}`;
}
