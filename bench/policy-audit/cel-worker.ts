/** One core's part of cel.ts: reviews are decoded and evaluated by policies of CEL, for a while. */
import { parentPort, workerData } from 'node:worker_threads';

import { openCelEvaluator } from '../../guards/policy-audit/engine/cel/open.ts';
import type { PolicyRequest } from '../../guards/policy-audit/engine/evaluator.ts';
import { expressions, reviewOf } from './reviews.ts';

export interface Load {
  readonly kind: 'decode' | 'one' | 'all' | 'evaluate';
  readonly warmUpMs: number;
  readonly measureMs: number;
}

export interface Done {
  readonly reviews: number;
  readonly evaluations: number;
  /** CPU seconds of all threads of the process: including the garbage collector's, and other workers'. */
  readonly cpuSeconds: number;
}

const REVIEWS = 500;

/** `one`: each review is decoded and asked of one of the policies; `all`: of all of them; `evaluate`: of one, decoded before. */
export async function run({ kind, warmUpMs, measureMs }: Load): Promise<Done> {
  const texts = Array.from({ length: REVIEWS }, (_, index) => reviewOf(index));
  const policies = expressions.map((expression) => openCelEvaluator({ validations: [{ expression }] }));
  const decode = (text: string): PolicyRequest =>
    (JSON.parse(text) as { readonly request: PolicyRequest }).request;
  const decoded = texts.map(decode);
  const ask = async (request: PolicyRequest, policy: number): Promise<void> => {
    const verdict = await policies[policy]?.evaluate(request);
    if (verdict?.allowed !== true) throw new Error(`${expressions[policy]}: ${verdict?.message}`);
  };
  const forMs = async (ms: number): Promise<Done> => {
    const start = performance.now();
    const before = process.cpuUsage();
    let [reviews, evaluations] = [0, 0];
    while (performance.now() - start < ms) {
      for (let index = 0; index < 100; index++) {
        const at = reviews++ % REVIEWS;
        const request = kind === 'evaluate' ? decoded[at] : decode(texts[at] ?? '');
        if (request === undefined) throw new Error('no review');
        if (kind === 'all')
          for (let policy = 0; policy < policies.length; policy++) await ask(request, policy);
        else if (kind !== 'decode') await ask(request, reviews % policies.length);
        evaluations += kind === 'all' ? policies.length : kind === 'decode' ? 0 : 1;
      }
    }
    const { user, system } = process.cpuUsage(before);
    return { reviews, evaluations, cpuSeconds: (user + system) / 1e6 };
  };
  await forMs(warmUpMs);
  return await forMs(measureMs);
}

parentPort?.postMessage(await run(workerData as Load), []);
