/** Standalone's reports to the machine's service manager. */
import type { Guard } from '../../guard/guard.ts';
import { readinessParts } from '../../guard/part-context.ts';
import { reportToServiceManager } from '../../lib/service/notify.ts';
import type { Health } from '../../lib/telemetry/health.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { aborted } from '../../lib/time/abort.ts';

export interface ReportServiceOptions {
  /** The selected guards. */
  readonly guards: readonly Guard[];
  readonly health: Pick<Health, 'liveness' | 'notReady' | 'readiness'>;
  readonly logger: Pick<Logger, 'error'>;
  readonly signal: AbortSignal;
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Reports until the signal aborts. The service is up once all parts of all guards have been ready. Without a service manager, or if it
 * cannot be reached, nothing is reported and the guards continue.
 */
export async function reportService(options: ReportServiceOptions): Promise<void> {
  const { guards, health, logger, signal, env = process.env } = options;
  const parts = new Set(guards.flatMap(partsOf));
  const notUp = (): string | undefined => {
    for (const part of parts) {
      const problem = health.notReady([part]);
      if (problem !== undefined) return `${part}: ${oneLine(problem)}`;
      // A part that was ready has what it needs; later failures are shown by `problem`.
      parts.delete(part);
    }
    return undefined;
  };
  const remark = (): string | undefined => {
    const [alive, ready] = [health.liveness().text, health.readiness().text];
    const problem = firstLine(alive, '-') ?? firstLine(ready, '-');
    const known = firstLine(ready, '+');
    return problem ?? (known && `All parts are ready; ${known}`);
  };
  try {
    await reportToServiceManager({ notUp, remark, isAlive: () => health.liveness().ok }, { signal, env });
  } catch (err) {
    logger.error({ err }, 'the service manager is not told whether the guards are up and alive');
  }
  await aborted(signal);
}

function partsOf(guard: Guard): string[] {
  return (['node', 'cluster'] as const)
    .filter((on) => guard[on] !== undefined)
    .flatMap((on) => readinessParts(guard, on));
}

/** The text of the first part with this mark in an answer of /healthz or /readyz; parts without a text are skipped. */
function firstLine(text: string, mark: '+' | '-'): string | undefined {
  return new RegExp(`^\\[\\${mark}\\] (.*: .*)$`, 'm').exec(text)?.[1];
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ');
}
