/**
 * `rampart policy-server`: the options, and nothing else; the work is loaded when it is asked for. The flags and the environment are
 * those of Kubewarden's policy-server, so that it can be swapped in.
 *
 * @module
 */
import { Command, Option } from 'commander';

import { append } from '../options.ts';

export interface PolicyServerCommandOptions {
  readonly policies: string;
  readonly policiesDownloadDir: string;
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
  readonly sourcesPath?: string;
  readonly verificationPath?: string;
  readonly dockerConfigJsonPath?: string;
  readonly ignoreKubernetesConnectionFailure?: true;
  readonly alwaysAcceptAdmissionReviewsOnNamespace?: string;
  readonly kubeconfig?: string;
  readonly enableMetrics?: true;
  readonly metrics: string;
  readonly logLevel: 'debug' | 'error' | 'info' | 'trace' | 'warn';
  readonly logFmt: 'json' | 'otlp' | 'text';
  readonly daemon?: true;
}

export function policyServerCommand(): Command {
  const option = (flags: string, description: string, variable: string): Option =>
    new Option(flags, description).env(`KUBEWARDEN_${variable}`);
  return (
    new Command('policy-server')
      .summary('answer admission webhooks by policies of a file')
      .description(
        'Serves the policies of a file over HTTPS, as Kubewarden names them: /validate/ID, /audit/ID, /validate_raw/ID and ' +
          '/readiness, until it is stopped. The file and the certificate may change meanwhile: they are taken without a restart.',
      )
      .addOption(
        option('--policies <file>', 'the policies, with their settings', 'POLICIES').default('policies.yml'),
      )
      .addOption(
        option('--policies-download-dir <dir>', 'where modules are kept', 'POLICIES_DOWNLOAD_DIR').default(
          '.',
        ),
      )
      .addOption(
        option('--policy-timeout <seconds>', 'how long a policy may take', 'POLICY_TIMEOUT').default('2'),
      )
      .addOption(
        option(
          '--disable-timeout-protection',
          'let policies take as long as they take',
          'DISABLE_TIMEOUT_PROTECTION',
        ),
      )
      .addOption(
        option(
          '--continue-on-errors',
          'serve a policy that cannot run too, as one that refuses everything with the reason',
          'CONTINUE_ON_ERRORS',
        ),
      )
      .addOption(option('--workers <number>', 'threads for WebAssembly', 'WORKERS'))
      .addOption(option('--addr <address>', 'the address to listen on', 'BIND_ADDRESS').default('0.0.0.0'))
      .addOption(
        option('--port <port>', 'the port to listen on; 0 takes any free one', 'PORT').default('3000'),
      )
      .addOption(
        option(
          '--readiness-probe-port <port>',
          'the port of the readiness probe, without TLS',
          'READINESS_PROBE_PORT',
        ).default('8081'),
      )
      .addOption(option('--cert-file <file>', 'the certificate for HTTPS; without it HTTP', 'CERT_FILE'))
      .addOption(option('--key-file <file>', 'its key', 'KEY_FILE'))
      .addOption(
        option(
          '--client-ca-file <file>',
          'clients have to have a certificate of this authority; repeatable',
          'CLIENT_CA_FILE',
        )
          .argParser(append)
          .default([]),
      )
      .addOption(option('--sources-path <file>', 'insecure hosts, and authorities of hosts', 'SOURCES_PATH'))
      .addOption(
        option(
          '--verification-path <file>',
          'signatures that modules have to have',
          'VERIFICATION_CONFIG_PATH',
        ),
      )
      .addOption(
        option(
          '--docker-config-json-path <file>',
          "credentials, as Docker's config.json",
          'DOCKER_CONFIG_JSON_PATH',
        ),
      )
      .addOption(
        option(
          '--ignore-kubernetes-connection-failure',
          'start also without Kubernetes: policies that ask it for something then fail',
          'IGNORE_KUBERNETES_CONNECTION_FAILURE',
        ),
      )
      .addOption(
        option(
          '--always-accept-admission-reviews-on-namespace <namespace>',
          'allow everything in this namespace: that of the server',
          'ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE',
        ),
      )
      .option(
        '--kubeconfig <file>',
        'of the cluster that policies ask; default: that of the pod, or of kubectl',
      )
      .addOption(option('--enable-metrics', 'serve metrics for Prometheus', 'ENABLE_METRICS'))
      .option('--metrics <address>', 'where they are served, on this port or host:port', '0.0.0.0:8080')
      .addOption(
        option('--log-level <level>', 'the lowest level that is logged', 'LOG_LEVEL')
          .choices(['trace', 'debug', 'info', 'warn', 'error'])
          .default('info'),
      )
      .addOption(
        option('--log-fmt <format>', 'lines for people, or JSON', 'LOG_FMT')
          .choices(['text', 'json', 'otlp'])
          .default('text'),
      )
      // Of upstream, and without a meaning here: they are taken so that its command lines work.
      .addOption(option('--sigstore-cache-dir <dir>', 'not used', 'SIGSTORE_CACHE_DIR').hideHelp())
      .addOption(option('--log-no-color', 'not used: NO_COLOR', 'LOG_NO_COLOR').hideHelp())
      .addOption(option('--enable-pprof', 'not used', 'ENABLE_PPROF').hideHelp())
      .addOption(option('--daemon', 'refused', 'DAEMON').hideHelp())
      .addOption(new Option('--daemon-pid-file <file>', 'not used').hideHelp())
      .addOption(new Option('--daemon-stdout-file <file>', 'not used').hideHelp())
      .addOption(new Option('--daemon-stderr-file <file>', 'not used').hideHelp())
      .addHelpText(
        'after',
        '\nExamples:\n' +
          '  rampart policy-server --policies policies.yml --addr 127.0.0.1 --ignore-kubernetes-connection-failure\n' +
          '  rampart policy-server --cert-file tls.crt --key-file tls.key --port 8443 --sources-path sources.yml\n' +
          '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 bad input: the policies cannot be served as they are.\n',
      )
      .action(async (options: PolicyServerCommandOptions) => {
        const { runPolicyServerCommand } = await import('./run.ts');
        await runPolicyServerCommand(options);
      })
  );
}
