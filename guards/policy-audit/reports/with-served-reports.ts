/** Runs work that writes reports of the kind that the API serves. */
import type { GuardContext } from '../../../guard/context.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../../lib/time/clock.ts';
import { servedReportKind, usualReportKind, type WantedReportKind } from './report-kind.ts';

const RETRY = { baseMs: 250, maxMs: 15_000 };
const ASK_AGAIN_MS = 15_000;

/**
 * Runs the work until the signal of the context aborts. If the API serves no reports, nothing is audited, but the
 * rest of the work runs. If the other kind of reports is installed then, the work starts again with that kind.
 */
export async function withServedReports(
  term: GuardContext,
  wanted: WantedReportKind,
  work: (kind: ReportKind, context: GuardContext) => Promise<void>,
  clock: Clock = systemClock,
): Promise<void> {
  const { signal } = term;
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const kind = await served(term, wanted, clock);
    if (kind !== undefined && !isFirst) term.logger.info({ kind }, 'the API serves reports: auditing');
    const stop = new AbortController();
    const own = AbortSignal.any([signal, stop.signal]);
    const working = work(kind ?? usualReportKind, { ...term, signal: own });
    const watching =
      kind === undefined ? untilOther(term, wanted, own, clock).then(() => stop.abort()) : undefined;
    try {
      await working;
    } finally {
      stop.abort();
      await watching;
    }
  }
}

async function served(
  { client, signal, logger }: GuardContext,
  wanted: WantedReportKind,
  clock: Clock,
): Promise<ReportKind | undefined> {
  for (const backoff = new Backoff(RETRY); ;) {
    try {
      return await servedReportKind(wanted, client, signal);
    } catch (err) {
      if (signal.aborted) return undefined;
      logger.info({ err }, 'cannot ask the API which kind of reports it serves; retrying');
      await sleep(clock, backoff.nextMs(), signal).catch(() => undefined);
    }
  }
}

/** Resolves when the API serves another kind than the usual one, or when the signal aborts. */
async function untilOther(
  { client }: GuardContext,
  wanted: WantedReportKind,
  signal: AbortSignal,
  clock: Clock,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, ASK_AGAIN_MS, signal).catch(() => undefined);
    const kind = await servedReportKind(wanted, client, signal).catch(() => undefined);
    if (kind === undefined) continue;
    // The cache that waits for the usual kind notices this by itself.
    if (kind === usualReportKind) return await aborted(signal);
    return;
  }
}
