/** The result of the last full pass, stored where `rampart status` finds it. */
import { managedLabels } from '../../../guard/managed-by.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { type ConfigMap, configMaps } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type Clock, sleep, systemClock } from '../../../lib/time/clock.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';

const name = 'rampart-policy-audit';
export const passLabel = 'rampart.dev/policy-audit-pass';
const key = 'summary.json';

/** Interval of writes while the counts change. */
const KEEP_MS = 2000;
const RETRY_MS = 30_000;

export interface KeptSummaries {
  readonly client: KubeClient;
  readonly logger: Logger;
  /** The summary of the last pass; undefined until the first pass has ended. */
  readonly summary: () => PassSummary | undefined;
  readonly clock?: Clock;
}

/**
 * Stores the summary of the last pass, with the current counts of objects, which include later changes. Nothing is
 * written if nothing has changed. Runs until the signal aborts.
 */
export async function keepSummaries(
  { client, logger, summary, clock = systemClock }: KeptSummaries,
  signal: AbortSignal,
): Promise<void> {
  let kept = '';
  while (!signal.aborted) {
    const now = summary();
    const text = JSON.stringify(now);
    let waitMs = KEEP_MS;
    try {
      if (now !== undefined && text !== kept) {
        await keep(client, now, signal);
        kept = text;
      }
    } catch (err) {
      if (!signal.aborted) logger.warn({ err }, 'cannot save the summary of the last pass');
      waitMs = RETRY_MS;
    }
    await sleep(clock, waitMs, signal).catch(() => undefined);
  }
}

async function keep(client: KubeClient, summary: PassSummary, signal: AbortSignal): Promise<void> {
  const object: ConfigMap = {
    metadata: {
      name,
      namespace: systemNamespace,
      labels: { ...managedLabels, [passLabel]: 'last' },
    },
    data: { [key]: JSON.stringify(summary) },
  };
  await client.apply(configMaps, object, { fieldManager: 'rampart', force: true, signal });
}

/** The stored summary; undefined if it is not in the format of this release. */
export function readLastPass({ data }: ConfigMap): PassSummary | undefined {
  try {
    const value = JSON.parse(data?.[key] ?? '') as Partial<PassSummary>;
    return typeof value.endedMs === 'number' && typeof value.objects === 'number'
      ? (value as PassSummary)
      : undefined;
  } catch {
    return undefined;
  }
}
