import type { Logger } from '../../../lib/telemetry/log.ts';
import type { PlanChanges } from './loader-plan.ts';
import type { PlannedSensor } from './local-sensor.ts';

const RETRY_REFUSED_MS = 30_000;

/** Applies the plan to the sensor, and retries the alerts that exceeded its capacity. Disposing it ends the retries. */
export class PlanApplier implements Disposable {
  readonly #sensor: Pick<PlannedSensor, 'applyChanges' | 'refused'>;
  readonly #logger: Logger;
  #retry: NodeJS.Timeout | undefined;

  constructor(sensor: Pick<PlannedSensor, 'applyChanges' | 'refused'>, logger: Logger) {
    this.#sensor = sensor;
    this.#logger = logger;
  }

  readonly apply = (changes: PlanChanges): void => {
    this.#sensor.applyChanges(changes);
    const { refused } = this.#sensor;
    const [first] = refused.values();
    if (first === undefined || this.#retry !== undefined) return;
    this.#logger.error({ err: first.error, files: refused.size }, 'files are not watched');
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.retry();
    }, RETRY_REFUSED_MS);
  };

  /** Retries the alerts that exceeded the capacity now, and later again. */
  retry(): void {
    this.apply({ add: [], remove: [], replace: [], move: [] });
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#retry);
  }
}
