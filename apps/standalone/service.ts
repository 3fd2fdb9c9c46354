/** What the service manager of the machine is told of a standalone. */
import type { Guard } from '../../guard/guard.ts';
import { readinessParts } from '../../guard/part-context.ts';
import type { NodeRuntime } from '../../lib/cri/node-runtime.ts';
import { reportToServiceManager } from '../../lib/service/notify.ts';
import type { Health } from '../../lib/telemetry/health.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { aborted } from '../../lib/time/abort.ts';

export interface ReportServiceOptions {
  /** Those that were asked for. */
  readonly guards: readonly Guard[];
  readonly runtime: Pick<NodeRuntime, 'isMissing'>;
  readonly health: Pick<Health, 'liveness' | 'notReady' | 'readiness'>;
  readonly logger: Pick<Logger, 'error'>;
  readonly signal: AbortSignal;
  /** Default: that of the process. */
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Until the signal aborts. The service is up when all parts of all guards have been ready. A container runtime that does not answer is not
 * waited for, since many machines have none: what needs it comes when the runtime does, and is shown as what is wrong until then.
 * Without a service manager, or if it cannot be reached, nothing is told and the guards continue.
 */
export async function reportService(options: ReportServiceOptions): Promise<void> {
  const { guards, runtime, health, logger, signal, env = process.env } = options;
  const parts = new Set(guards.flatMap(partsOf));
  const notUp = (): string | undefined => {
    for (const part of parts) {
      if (part.needsRuntime && runtime.isMissing) continue;
      const problem = health.notReady([part.name]);
      if (problem !== undefined) return `${part.name}: ${oneLine(problem)}`;
      // One that was ready has what it needs; later failures are shown by `problem`.
      parts.delete(part);
    }
    return undefined;
  };
  const problem = (): string | undefined =>
    firstProblem(health.liveness().text) ?? firstProblem(health.readiness().text);
  try {
    await reportToServiceManager({ notUp, problem, isAlive: () => health.liveness().ok }, { signal, env });
  } catch (err) {
    logger.error({ err }, 'the service manager is not told whether the guards are up and alive');
  }
  await aborted(signal);
}

function partsOf(guard: Guard): ReturnType<typeof readinessParts> {
  return (['node', 'cluster'] as const)
    .filter((on) => guard[on] !== undefined)
    .flatMap((on) => readinessParts(guard, on));
}

/** Of the answer to /healthz or /readyz. */
function firstProblem(text: string): string | undefined {
  return /^\[-\] (.*)$/m.exec(text)?.[1];
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ');
}
