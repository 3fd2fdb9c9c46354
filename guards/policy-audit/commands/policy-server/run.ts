/** Runs `rampart policy-server`: wires the server to the command line. */
import manifest from '../../../../package.json' with { type: 'json' };
import type { Guard } from '../../../../guard/guard.ts';
import type { Address } from '../../../../lib/net/address.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { counted } from '../../../../lib/output/words.ts';
import { createLogger, type Logger } from '../../../../lib/telemetry/log.ts';
import { registerProcessMetrics } from '../../../../lib/telemetry/process-metrics.ts';
import { createMetrics, serveMetrics } from '../../../../lib/telemetry/metrics.ts';
import { openModules } from '../../modules/open-modules.ts';
import { FindingOutput, registerDropped } from '../../../../guard/stream/finding-output.ts';
import { FindingStream } from '../../../../guard/stream/finding-stream.ts';
import { exportFindings } from '../../../../guard/stream/otlp-export.ts';
import { foldedMetric, PolicyFindings } from '../../findings/policy-findings.ts';
import type { CertificatePaths } from '../../../../lib/net/certificate-files.ts';
import { runPolicyServer } from '../../server/run-policy-server.ts';
import { stopSignal } from '../../../../lib/cli/process.ts';
import type { PolicyServerCommandOptions } from './command.ts';
import { pullSecretOf } from './credentials.ts';
import { moduleFiles } from './module-files.ts';
import { openPolicyHost } from './policy-host.ts';

/** The maximum number of threads of the engine. */
const MAX_WORKERS = 8;
const LINGER_MS = 5000;
/** The longest timer that Node.js supports: 24 days. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/** Runs until SIGINT or SIGTERM. @throws {RampartError} as `runPolicyServer`; `INPUT` for invalid options */
export async function runPolicyServerCommand(
  guard: Guard,
  options: PolicyServerCommandOptions,
): Promise<void> {
  refuseUnsupported(options);
  const logger = createLogger({ level: options.logLevel, json: options.logFmt === 'json' });
  const address = addressOf(options.addr, options.port, 'port');
  const readinessAddress = addressOf(options.addr, options.readinessProbePort, 'readiness-probe-port');
  const certificates = certificatePaths(options);
  const deadlineMs = deadlineOf(options);
  const workers = workersOf(options.workers, logger);
  const pullSecret = pullSecretOf(options.dockerConfigJsonPath);
  const stop = stopSignal();
  await using opened = new AsyncDisposableStack();
  const modules = opened.use(
    await openModules({ cacheDirectory: options.policiesDownloadDir, ...moduleFiles(options), logger }),
  );
  const host = opened.use(
    await openPolicyHost({
      cluster: { kubeconfig: options.kubeconfig, context: options.context },
      isAsked: true,
      modules,
      pullSecret,
      mayBeAlone: options.ignoreKubernetesConnectionFailure === true,
      logger,
      signal: stop.signal,
    }),
  );
  const metrics = options.enableMetrics === true ? await createMetrics() : undefined;
  if (metrics !== undefined) {
    registerProcessMetrics(metrics, manifest.version);
    const served = opened.use(await serveMetrics({ registry: metrics.registry, address: options.metrics }));
    logger.info(`metrics on ${served.url}/metrics`);
  }
  // Webhooks are answered even if nothing reads the output.
  const out = opened.use(new FindingOutput(() => undefined));
  registerDropped(metrics, out);
  const stream = new FindingStream();
  stream.to((_guard, line) => out.write(line));
  stream.counts.register(metrics);
  opened.use(
    await exportFindings({
      ...{ guards: [guard], stream, nodeName: '', metrics, logger },
      ...{ endpoint: options.otlpEndpoint, directory: options.otlpQueue, version: manifest.version },
    }),
  );
  const findings = new PolicyFindings({ sink: (line) => stream.sink('policy-audit', line) });
  metrics?.counter(foldedMetric, () => findings.folded);
  await runPolicyServer({
    policiesFile: options.policies,
    exceptionsFile: options.exceptionsPath,
    address,
    readinessAddress,
    certificates,
    modules,
    pullSecret,
    hostCalls: host.hostCalls,
    deadlineMs,
    workers,
    acceptedNamespace: options.alwaysAcceptAdmissionReviewsOnNamespace,
    // In a pod, the server keeps answering for a while after termination begins: the Service still has its address.
    lingerMs: process.env['KUBERNETES_SERVICE_HOST'] === undefined ? 0 : LINGER_MS,
    continueOnErrors: options.continueOnErrors === true,
    metrics,
    findings,
    logger,
    signal: stop.signal,
    listening: ({ address: where, readinessAddress: probe }) =>
      logger.info(
        { address: where, readiness: probe, tls: certificates !== undefined },
        'the policy server is listening',
      ),
    ready: (ids) => logger.info(`ready: serving ${counted(ids.length, 'policy', 'policies')}`),
  });
}

function refuseUnsupported({ daemon, logFmt }: PolicyServerCommandOptions): void {
  const refuse = (what: string, next: string): never => {
    throw new RampartError(errorCodes.INPUT, { what, next });
  };
  if (daemon === true) refuse('--daemon is not supported', 'Run it as a systemd service or in a pod');
  if (logFmt === 'otlp')
    refuse('--log-fmt otlp is not supported', 'Use json, and collect the lines from stderr');
}

function addressOf(host: string, text: string, option: string): Address {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return { host: host.replace(/^\[(.*)\]$/, '$1'), port };
  throw new RampartError(errorCodes.INPUT, {
    what: `--${option} ${text} is not a port`,
    next: 'Use a number up to 65535',
  });
}

/** An empty path counts as unset, as in upstream's default. */
function certificatePaths(options: PolicyServerCommandOptions): CertificatePaths | undefined {
  const [certFile = '', keyFile = ''] = [options.certFile, options.keyFile];
  const clientCaFiles = options.clientCaFile;
  if (certFile !== '' && keyFile !== '') return { of: 'the policy server', certFile, keyFile, clientCaFiles };
  if (certFile === '' && keyFile === '' && clientCaFiles.length === 0) return undefined;
  throw new RampartError(errorCodes.INPUT, {
    what: 'a certificate requires a key, and --client-ca-file requires both',
    next: 'Set --cert-file and --key-file',
  });
}

function deadlineOf({ policyTimeout, disableTimeoutProtection }: PolicyServerCommandOptions): number {
  if (disableTimeoutProtection === true) return NO_LIMIT_MS;
  const seconds = Number(policyTimeout);
  if (seconds > 0 && seconds <= 300) return seconds * 1000;
  throw new RampartError(errorCodes.INPUT, {
    what: `--policy-timeout ${policyTimeout} is not a valid time limit`,
    next: 'Give a number of seconds up to 300',
  });
}

function workersOf(text: string | undefined, logger: Logger): number | undefined {
  if (text === undefined) return undefined;
  const workers = Number(text);
  if (!Number.isInteger(workers) || workers < 1) {
    throw new RampartError(errorCodes.INPUT, { what: `--workers ${text} is not a number of threads` });
  }
  if (workers > MAX_WORKERS) logger.warn(`--workers ${text}: the maximum is ${MAX_WORKERS} threads`);
  return Math.min(workers, MAX_WORKERS);
}
