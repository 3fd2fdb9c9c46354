/** Measures the speed of a policy, one request at a time. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { EvaluationError, type PolicyRequest, type RuntimeName } from '../engine/evaluator.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../policies/open-evaluator.ts';
import type { PolicyProgram } from '../engine/program.ts';

export interface Measured {
  readonly runtime: RuntimeName;
  readonly openMs: number;
  /** Duration of the first request, with cold caches. */
  readonly firstMs: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Requests without a verdict. */
  readonly errors: number;
}

/** Limit of recorded durations; beyond it, each new one replaces the oldest. */
const MAX_TIMES = 100_000;

/** @throws {RampartError} `INPUT` for settings that the policy rejects; as `openEvaluator`; the signal's reason */
export async function measurePolicy(
  program: PolicyProgram,
  requests: readonly PolicyRequest[],
  { engine, forMs }: { readonly engine: OpenEvaluatorOptions; readonly forMs: number },
): Promise<Measured> {
  const openedAt = performance.now();
  await using evaluator = await openEvaluator(program, engine);
  const openMs = performance.now() - openedAt;
  const settings = await evaluator.validateSettings();
  if (!settings.valid) {
    throw new RampartError(errorCodes.INPUT, {
      what: 'the policy rejects its settings',
      why: settings.message ?? 'it gives no reason',
    });
  }
  const timesMs: number[] = [];
  let [count, errors, firstMs] = [0, 0, 0];
  const startMs = performance.now();
  let nowMs = startMs;
  while (nowMs - startMs < forMs) {
    engine.signal?.throwIfAborted();
    const request = requests[count % requests.length];
    if (request === undefined) throw new RangeError('there is nothing to evaluate');
    try {
      await evaluator.evaluate(request, engine.signal && { signal: engine.signal });
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error;
      errors++;
    }
    const endMs = performance.now();
    if (count === 0) firstMs = endMs - nowMs;
    if (timesMs.length < MAX_TIMES) timesMs.push(endMs - nowMs);
    else timesMs[count % MAX_TIMES] = endMs - nowMs;
    count++;
    nowMs = endMs;
    // Lets timers and signals run.
    if (count % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  timesMs.sort((a, b) => a - b);
  const at = (share: number): number =>
    timesMs[Math.min(timesMs.length - 1, Math.floor(timesMs.length * share))] ?? 0;
  return {
    runtime: evaluator.runtime,
    openMs,
    firstMs,
    perSecond: (count * 1000) / (nowMs - startMs),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    errors,
  };
}
