import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { sleep } from '../../time/clock.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { PASS_OVER, type Urgency } from './ready-lists.ts';
import { WorkQueue } from './workqueue.ts';

const LEVELS = 2;
const BASE_MS = 20;
const MAX_MS = 80;

/** The queue's promises in the plainest form: arrays, searched from the front. */
class Model {
  readonly waiting: string[][] = Array.from({ length: LEVELS }, () => []);
  readonly passed: number[] = Array.from({ length: LEVELS }, () => 0);
  /** Keys in the hands of workers; the value is the level at which they wait again, if they do. */
  readonly running = new Map<string, number | undefined>();
  delayed: { key: string; dueMs: number; level: number }[] = [];
  readonly attempts = new Map<string, number>();
  nowMs = 0;

  add(key: string, level: number): void {
    if (this.running.has(key)) {
      this.running.set(key, Math.min(level, this.running.get(key) ?? LEVELS));
      return;
    }
    const at = this.waiting.findIndex((keys) => keys.includes(key));
    if (at !== -1 && at <= level) return;
    if (at !== -1) this.waiting[at] = (this.waiting[at] ?? []).filter((other) => other !== key);
    this.waiting[level]?.push(key);
  }

  addAfter(key: string, delayMs: number, level: number): void {
    if (delayMs === 0) return this.add(key, level);
    const dueMs = this.nowMs + delayMs;
    const known = this.delayed.find((one) => one.key === key);
    if (known) known.level = Math.min(known.level, level);
    if (known && known.dueMs <= dueMs) return;
    this.delayed = this.delayed.filter((one) => one !== known);
    this.delayed.push({ key, dueMs, level: known?.level ?? level });
  }

  retry(key: string, level: number): void {
    const attempt = this.attempts.get(key) ?? 0;
    this.attempts.set(key, attempt + 1);
    this.addAfter(key, Math.min(MAX_MS, BASE_MS * 2 ** attempt), level);
  }

  get(): string | undefined {
    const some = [...this.waiting.keys()].filter((level) => (this.waiting[level] ?? []).length > 0);
    if (some.length === 0) return undefined;
    const overdue = some.filter((level) => (this.passed[level] ?? 0) >= PASS_OVER);
    const longest = Math.max(...overdue.map((level) => this.passed[level] ?? 0));
    const chosen = overdue.find((level) => this.passed[level] === longest) ?? some[0] ?? 0;
    for (const level of this.waiting.keys()) {
      this.passed[level] = level !== chosen && some.includes(level) ? (this.passed[level] ?? 0) + 1 : 0;
    }
    const key = this.waiting[chosen]?.shift() as string;
    this.running.set(key, undefined);
    return key;
  }

  done(key: string): void {
    const again = this.running.get(key);
    this.running.delete(key);
    if (again !== undefined) this.add(key, again);
  }

  pass(ms: number): void {
    this.nowMs += ms;
    const due = this.delayed.filter(({ dueMs }) => dueMs <= this.nowMs).sort((a, b) => a.dueMs - b.dueMs);
    this.delayed = this.delayed.filter(({ dueMs }) => dueMs > this.nowMs);
    for (const { key, level } of due) this.add(key, level);
  }
}

type Operation =
  | { readonly kind: 'add'; readonly key: string; readonly level: Urgency }
  | { readonly kind: 'retry'; readonly key: string; readonly level: Urgency }
  | { readonly kind: 'after'; readonly key: string; readonly level: Urgency; readonly ms: number }
  | { readonly kind: 'forget'; readonly key: string }
  | { readonly kind: 'get' }
  | { readonly kind: 'done'; readonly which: number }
  | { readonly kind: 'pass'; readonly ms: number };

const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
const level = fc.constantFrom(0 as const, 1 as const);
const ms = fc.nat(60);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('add' as const), key, level }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), key, level }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('after' as const), key, level, ms }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const), key }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('get' as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('done' as const), which: fc.nat(7) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms }) },
);

suite('workqueue, properties', () => {
  test('hands out what the model hands out, in its order', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 150, size: 'max' }), (operations) => {
        const clock = new ManualClock(0);
        const queue = new WorkQueue({
          clock,
          backoff: { baseMs: BASE_MS, maxMs: MAX_MS, jitter: 0 },
          retryLimit: { perSecond: Infinity, burst: 1 },
        });
        const model = new Model();
        for (const step of operations) {
          if (step.kind === 'add') {
            queue.add(step.key, { level: step.level });
            model.add(step.key, step.level);
          } else if (step.kind === 'after') {
            queue.addAfter(step.key, step.ms, { level: step.level });
            model.addAfter(step.key, step.ms, step.level);
          } else if (step.kind === 'retry') {
            queue.addRateLimited(step.key, { level: step.level });
            model.retry(step.key, step.level);
          } else if (step.kind === 'forget') {
            queue.forget(step.key);
            model.attempts.delete(step.key);
          } else if (step.kind === 'get') {
            assert.equal(queue.tryGet(), model.get());
          } else if (step.kind === 'done') {
            const running = [...model.running.keys()];
            const finished = running[step.which % running.length];
            if (finished === undefined) continue;
            queue.done(finished);
            model.done(finished);
          } else {
            clock.advanceSync(step.ms);
            model.pass(step.ms);
          }
          const { depth, delayed, processing } = queue.stats();
          assert.deepEqual(
            { depth, delayed, processing },
            {
              depth: model.waiting.map(({ length }) => length),
              delayed: model.delayed.length,
              processing: model.running.size,
            },
          );
        }
      }),
      { numRuns: 1000 },
    );
  });

  test('several workers: never two on a key, each key worked on after its last add, none left', async () => {
    const adds = fc.array(fc.record({ key, level, atMs: fc.nat(200), delayMs: fc.nat(30) }), {
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(
        adds,
        fc.integer({ min: 1, max: 5 }),
        fc.infiniteStream(fc.nat(25)),
        async (plan, workers, durations) => {
          const clock = new ManualClock(0);
          const queue = new WorkQueue({ clock });
          const busy = new Set<string>();
          let step = 0;
          const lastAdded = new Map<string, number>();
          const lastStarted = new Map<string, number>();
          const work = async (): Promise<void> => {
            for (;;) {
              const got = await queue.get();
              if (got === undefined) return;
              assert.ok(!busy.has(got), `two workers have ${got}`);
              busy.add(got);
              lastStarted.set(got, step++);
              // Some work is over within the same turn of the loop, some takes time.
              const forMs = durations.next().value ?? 0;
              if (forMs > 5) await sleep(clock, forMs);
              busy.delete(got);
              queue.done(got);
            }
          };
          const working = Array.from({ length: workers }, work);
          for (const { key: added, level: at, atMs, delayMs } of plan) {
            clock.schedule(atMs, () => {
              lastAdded.set(added, step++);
              queue.addAfter(added, delayMs, { level: at });
            });
          }
          await clock.advance(3000);
          assert.deepEqual([queue.depth, busy.size, queue.stats().delayed], [0, 0, 0]);
          for (const [added, at] of lastAdded) {
            assert.ok((lastStarted.get(added) ?? -1) > at, `${added} was not worked on after its last add`);
          }
          queue.shutDown();
          await Promise.all(working);
        },
      ),
      { numRuns: 200 },
    );
  });
});
