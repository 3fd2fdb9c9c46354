/** Admission checks that come and go while the server runs: those of parts that start later. */
import { type Clock, systemClock } from '../../time/clock.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { JsonObject } from '../../json/json.ts';
import { type Admission, type AdmissionRequest, admitAll, askAll, type Changed } from './admission.ts';

interface LateAdmissionOptions {
  /** Writes that never wait: what the part itself needs to start, above all. */
  readonly passes: (request: AdmissionRequest) => boolean;
  /** How long a write waits for an admission that is awaited, before it is refused with 503. Default: 20 s. */
  readonly waitMs?: number;
  readonly clock?: Clock;
}

/**
 * Keeps writes waiting from a start until the admissions that may object are ready, so that nothing slips
 * through.
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

  /** From now on writes wait for {@link use} or {@link giveUp} of this name. */
  expect(name: string): void {
    if (!this.#admissions.has(name) && !this.#awaited.has(name)) {
      this.#awaited.set(name, Promise.withResolvers());
    }
  }

  /** The admission will not come: writes stop waiting for it. */
  giveUp(name: string): void {
    this.#awaited.get(name)?.resolve();
    this.#awaited.delete(name);
  }

  /**
   * Calls it for each write, until the result is disposed. Then writes wait for it again: that is meant for
   * the end of the server.
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
