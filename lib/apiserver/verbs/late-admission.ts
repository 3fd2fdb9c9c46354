/** Admission checks of parts that start after the server, and may stop before it. */
import { type Clock, systemClock } from '../../time/clock.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { JsonObject } from '../../json/json.ts';
import { type Admission, type AdmissionRequest, admitAll, askAll, type Changed } from './admission.ts';

interface LateAdmissionOptions {
  /** Whether a write need not wait, above all because a part needs it to start. */
  readonly passes: (request: AdmissionRequest) => boolean;
  /** How long a write waits for the expected admissions before it is refused with 503. Default: 20 s. */
  readonly waitMs?: number;
  readonly clock?: Clock;
}

/**
 * Makes writes wait after a start until all expected admissions are ready, so that no write escapes their checks.
 *
 * @example
 * const late = new LateAdmission({ passes: ({ namespace }) => namespace === 'rampart' });
 * late.expect('policies');
 * await startApiServer({ admission: [late], ... });
 * using _asked = late.use('policies', policies);
 */
export class LateAdmission implements Admission {
  readonly #options: LateAdmissionOptions;
  readonly #clock: Clock;
  readonly #admissions = new Map<string, Admission>();
  readonly #awaited = new Map<string, PromiseWithResolvers<void>>();
  #inOrder: readonly Admission[] = [];

  constructor(options: LateAdmissionOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** From now on, writes wait for {@link use} or {@link giveUp} with this name. */
  expect(name: string): void {
    if (!this.#admissions.has(name) && !this.#awaited.has(name)) {
      this.#awaited.set(name, Promise.withResolvers());
    }
  }

  /** Call if the admission will not come: writes stop waiting for it. */
  giveUp(name: string): void {
    this.#awaited.get(name)?.resolve();
    this.#awaited.delete(name);
  }

  /**
   * Calls the admission for each write, until the result is disposed. From then on, writes wait for it again: dispose it
   * only when the server ends.
   */
  use(name: string, admission: Admission): Disposable {
    this.#admissions.set(name, admission);
    this.#inOrder = [...this.#admissions.values()];
    this.giveUp(name);
    return {
      [Symbol.dispose]: () => {
        if (this.#admissions.get(name) !== admission) return;
        this.#admissions.delete(name);
        this.#inOrder = [...this.#admissions.values()];
        this.expect(name);
      },
    };
  }

  admit(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): Changed | Promise<Changed> {
    if (this.#awaited.size === 0 || this.#options.passes(request)) {
      return admitAll(this.#inOrder, request, object, old);
    }
    return this.#complete().then(() => admitAll(this.#inOrder, request, object, old));
  }

  validate(request: AdmissionRequest, object?: JsonObject, old?: JsonObject): void | Promise<void> {
    return askAll(this.#inOrder, request, object, old);
  }

  /** @throws {ApiError} 503 */
  async #complete(): Promise<void> {
    const { waitMs = 20_000 } = this.#options;
    const untilMs = this.#clock.monotonicMs() + waitMs;
    for (const [name, { promise }] of this.#awaited) {
      const timeout = Promise.withResolvers<void>();
      const cancel = this.#clock.schedule(untilMs - this.#clock.monotonicMs(), timeout.resolve);
      await Promise.race([promise, timeout.promise]);
      cancel();
      if (this.#awaited.get(name)?.promise === promise) {
        throw apiErrors.unavailable(`${name} has not started yet, so no request is admitted; try again`);
      }
    }
  }
}
