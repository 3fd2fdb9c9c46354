/** Sends the findings of a process by OTLP, if a receiver is configured. */
import { hostname } from 'node:os';
import { resolve } from 'node:path';

import { Option } from 'commander';

import { refuseEmpty } from '../../lib/cli/options.ts';
import { otlpTarget } from '../../lib/otlp/target.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import type { Metrics } from '../../lib/telemetry/metrics.ts';
import type { Guard } from '../guard.ts';
import type { FindingStream } from './finding-stream.ts';
import type { OcsfMapping } from './ocsf.ts';

export interface OtlpOptions {
  readonly otlpEndpoint?: string;
}

/** Where a process in a cluster keeps findings that wait to be sent. */
export interface OtlpQueueOptions extends OtlpOptions {
  readonly otlpQueue: string;
}

export function otlpEndpointOption(): Option {
  return new Option(
    '--otlp-endpoint <url>',
    'send findings to this base URL as logs, by OTLP over HTTP; default: OTEL_EXPORTER_OTLP_ENDPOINT, or none',
  );
}

export function otlpQueueOption(): Option {
  return new Option('--otlp-queue <dir>', 'where findings are queued for OTLP').default(
    '/var/lib/rampart/otlp',
  );
}

interface ExportOptions {
  readonly endpoint: string | undefined;
  readonly directory: string;
  /** All guards: the queue may contain findings of guards that do not run now. */
  readonly guards: readonly Pick<Guard, 'name' | 'ocsf'>[];
  readonly stream: FindingStream;
  /** Empty for a process that belongs to no node. */
  readonly nodeName: string;
  readonly version: string;
  readonly metrics: Pick<Metrics, 'counter' | 'gauge'> | undefined;
  readonly logger: Logger;
}

/**
 * The caller disposes of it after the guards have ended. Without an endpoint, in the options or the environment, it does nothing.
 *
 * @throws {RampartError} `INPUT` for invalid settings; `IN_USE`, `SYSTEM` or `FULL` if the directory cannot be used.
 */
export async function exportFindings(options: ExportOptions): Promise<AsyncDisposable> {
  const { endpoint, guards, stream, nodeName, version, metrics, logger } = options;
  refuseEmpty({ '--otlp-queue': options.directory }, 'Give a path');
  const target = otlpTarget(endpoint, process.env);
  if (target === undefined) return { [Symbol.asyncDispose]: async () => undefined };
  const { openOtlpExporter } = await import('../../lib/otlp/exporter.ts');
  const { otlpRecord } = await import('./otlp-record.ts');
  const { addOtlpMetrics } = await import('../../lib/otlp/metrics.ts');
  const mappings = new Map<string, OcsfMapping>();
  for (const { name, ocsf } of guards) if (ocsf !== undefined) mappings.set(name, await ocsf());
  const exporter = openOtlpExporter({
    target,
    directory: resolve(options.directory),
    source: {
      resource: {
        ...{ 'service.name': 'rampart', 'service.version': version },
        'host.name': nodeName === '' ? hostname() : nodeName,
        'k8s.node.name': nodeName === '' ? undefined : nodeName,
      },
      scope: { name: 'rampart', version },
    },
    logRecordOf: (stored) => otlpRecord(stored, { mappings, version }),
    userAgent: `rampart/${version}`,
    log: logger,
  });
  if (metrics !== undefined) addOtlpMetrics(metrics, exporter);
  stream.to((_guard, line) => void exporter.push(line));
  logger.info({ receiver: target.url.origin }, 'findings are sent by OTLP');
  return exporter;
}
