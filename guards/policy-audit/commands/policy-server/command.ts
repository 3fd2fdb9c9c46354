/**
 * `rampart policy-server`: options only; the implementation is loaded on demand. The flags and the environment are
 * those of Kubewarden's policy-server, so that it can be swapped in.
 */
import { Command, Option } from 'commander';

import type { Guard } from '../../../../guard/guard.ts';
import {
  otlpEndpointOption,
  otlpQueueOption,
  type OtlpQueueOptions,
} from '../../../../guard/stream/otlp-export.ts';
import { sigstoreTrustConfig } from '../../options.ts';
import { addClusterOptions } from '../../../../lib/cli/cluster-options.ts';
import { failAsService } from '../../../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../../../lib/cli/help.ts';
import { append } from '../../../../lib/cli/options.ts';
import type { ModuleFilePaths } from './module-files.ts';

export interface PolicyServerCommandOptions extends ModuleFilePaths, OtlpQueueOptions {
  readonly policies: string;
  readonly policiesDownloadDir: string;
  readonly exceptionsPath?: string;
  readonly policyTimeout: string;
  readonly disableTimeoutProtection?: true;
  readonly continueOnErrors?: true;
  readonly workers?: string;
  readonly addr: string;
  readonly port: string;
  readonly readinessProbePort: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly clientCaFile: readonly string[];
  readonly dockerConfigJsonPath?: string;
  readonly ignoreKubernetesConnectionFailure?: true;
  readonly alwaysAcceptAdmissionReviewsOnNamespace?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly enableMetrics?: true;
  readonly metrics: string;
  readonly logLevel: 'debug' | 'error' | 'info' | 'trace' | 'warn';
  readonly logFmt: 'json' | 'otlp' | 'text';
  readonly daemon?: true;
}

/** Flag, its help, its environment variable after `KUBEWARDEN_`, and its default. The default of a repeatable flag is a list. */
type Row = readonly [
  flags: string,
  description: string,
  variable: string,
  preset?: string | readonly string[],
];

const rows: readonly Row[] = [
  ['--policies <file>', 'the policies, with their settings', 'POLICIES', 'policies.yml'],
  ['--policies-download-dir <dir>', 'where modules are stored', 'POLICIES_DOWNLOAD_DIR', '.'],
  [
    '--exceptions-path <file>',
    'a list of PolicyExceptions: objects that policies do not apply to',
    'EXCEPTIONS_PATH',
  ],
  ['--policy-timeout <seconds>', 'time limit of an evaluation', 'POLICY_TIMEOUT', '2'],
  ['--disable-timeout-protection', 'do not limit the time of evaluations', 'DISABLE_TIMEOUT_PROTECTION'],
  [
    '--continue-on-errors',
    'also serve a policy that cannot run: it rejects every request with the reason',
    'CONTINUE_ON_ERRORS',
  ],
  ['--workers <number>', 'threads for WebAssembly', 'WORKERS'],
  ['--addr <address>', 'the address to listen on', 'BIND_ADDRESS', '0.0.0.0'],
  ['--port <port>', 'the port to listen on; 0 selects a free one', 'PORT', '3000'],
  [
    '--readiness-probe-port <port>',
    'the port of the readiness probe, without TLS',
    'READINESS_PROBE_PORT',
    '8081',
  ],
  ['--cert-file <file>', 'the certificate for HTTPS; without it, HTTP is served', 'CERT_FILE'],
  ['--key-file <file>', 'its key', 'KEY_FILE'],
  [
    '--client-ca-file <file>',
    'require client certificates from this authority; repeatable',
    'CLIENT_CA_FILE',
    [],
  ],
  ['--sources-path <file>', 'insecure hosts, and certificate authorities per host', 'SOURCES_PATH'],
  ['--verification-path <file>', 'signatures that modules must have', 'VERIFICATION_CONFIG_PATH'],
  [sigstoreTrustConfig.flags, sigstoreTrustConfig.description, 'SIGSTORE_TRUST_CONFIG_PATH'],
  [
    '--docker-config-json-path <file>',
    "registry credentials, in the format of Docker's config.json",
    'DOCKER_CONFIG_JSON_PATH',
  ],
  [
    '--ignore-kubernetes-connection-failure',
    'also start without Kubernetes; policies that query it then fail',
    'IGNORE_KUBERNETES_CONNECTION_FAILURE',
  ],
  [
    '--always-accept-admission-reviews-on-namespace <namespace>',
    'allow everything in this namespace, that of the server',
    'ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE',
  ],
];

function option(...[flags, description, variable, preset]: Row): Option {
  const made = new Option(flags, description).env(`KUBEWARDEN_${variable}`).default(preset);
  return Array.isArray(preset) ? made.argParser(append) : made;
}

export function policyServerCommand(guard: Guard): Command {
  const command = new Command('policy-server')
    .summary('answer admission webhooks with policies from a file')
    .description(
      "Serves the policies of a file over HTTPS under Kubewarden's paths: /validate/ID, /audit/ID, /validate_raw/ID and " +
        '/readiness, until stopped. Reloads the file and the certificate when they change.',
    );
  for (const row of rows) command.addOption(option(...row));
  addClusterOptions(command, 'which policies may query')
    .addOption(option('--enable-metrics', 'serve metrics for Prometheus', 'ENABLE_METRICS'))
    .option('--metrics <address>', 'the port or host:port to serve metrics on', '0.0.0.0:8080')
    .addOption(otlpEndpointOption())
    .addOption(otlpQueueOption())
    .addOption(
      option('--log-level <level>', 'the minimum level to log', 'LOG_LEVEL')
        .choices(['trace', 'debug', 'info', 'warn', 'error'])
        .default('info'),
    )
    .addOption(
      option('--log-fmt <format>', 'text or JSON', 'LOG_FMT')
        .choices(['text', 'json', 'otlp'])
        .default('text'),
    )
    // Upstream's flags that have no effect here: accepted so that its command lines work.
    .addOption(option('--sigstore-cache-dir <dir>', 'not used', 'SIGSTORE_CACHE_DIR').hideHelp())
    .addOption(option('--log-no-color', 'not used: NO_COLOR', 'LOG_NO_COLOR').hideHelp())
    .addOption(option('--enable-pprof', 'not used', 'ENABLE_PPROF').hideHelp())
    .addOption(option('--daemon', 'refused', 'DAEMON').hideHelp())
    .addOption(new Option('--daemon-pid-file <file>', 'not used').hideHelp())
    .addOption(new Option('--daemon-stdout-file <file>', 'not used').hideHelp())
    .addOption(new Option('--daemon-stderr-file <file>', 'not used').hideHelp())
    .action(async (options: PolicyServerCommandOptions) => {
      failAsService();
      const { runPolicyServerCommand } = await import('./run.ts');
      await runPolicyServerCommand(guard, options);
    });
  return addHelp(command, {
    examples: [
      'rampart policy-server --policies policies.yml --addr 127.0.0.1',
      'rampart policy-server --cert-file tls.crt --key-file tls.key --port 8443',
    ],
    exitCodes: serviceExitCodes,
  });
}
