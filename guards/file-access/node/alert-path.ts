/**
 * What happens to an alert from the sensor: it is written as a line, counted, queued for its callback, and noted for
 * the status of its policy.
 */
import type { Access } from '../../../lib/sensor/access.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { PlannedAlert } from './loader-plan.ts';
import type { NodeCounts } from './node-metrics.ts';

/** What an alert needs of its planned alert, besides the line. */
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

/** One for each node. */
export class AlertPath {
  readonly #options: AlertPathOptions;
  /** Wall-clock time of the batch being read: read once for all its alerts. 0 between batches. */
  #nowMs = 0;

  constructor(options: AlertPathOptions) {
    this.#options = options;
  }

  /** Called with each alert, in order. */
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
