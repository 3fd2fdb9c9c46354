/** Finds the API server and the credentials for it: from a kubeconfig, or from inside of a pod. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { proxiesOf, proxyFor, proxyUrl } from '../../net/proxy.ts';
import type { Clock } from '../../time/clock.ts';
import {
  anonymous,
  basicCredentials,
  type Credentials,
  type Source,
  StoredCredentials,
} from './credentials.ts';
import { execApiVersions, ExecCredentials } from './exec-credentials.ts';
import {
  type Fields,
  type Kubeconfig,
  type KubeconfigOptions,
  kubeconfigFiles,
  loadKubeconfig,
} from './kubeconfig.ts';

export interface ClusterAccess {
  /** `https://10.0.0.1:6443`, and a path if the server is behind one. */
  readonly server: URL;
  /** Connects to this unix socket instead of the server's host and port. */
  readonly socketPath?: string;
  /** The proxy for calls to the server. */
  readonly proxy?: URL | undefined;
  /** Authorities that must have signed the server's certificate, in PEM. Default: those that Node.js trusts. */
  readonly ca?: string | undefined;
  /** Accepts any server certificate. */
  readonly insecure?: boolean;
  /** The name that the server's certificate must have, if it differs from the host's. */
  readonly serverName?: string | undefined;
  readonly credentials: Credentials;
  /** Sent with every request, e.g. for impersonation. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** The namespace to work in if none is named. */
  readonly namespace: string;
}

interface ClusterAccessOptions extends KubeconfigOptions {
  /** Default: the kubeconfig's current one. */
  readonly context?: string | undefined;
  /** Path of a kubeconfig that is not searched; the error suggests it if nothing is found. */
  readonly suggestion?: string | undefined;
  /** Where a pod finds its service account. For tests. */
  readonly serviceAccountDir?: string;
  readonly clock?: Clock;
}

/**
 * Finds the API server as kubectl does: the file named, else the files of `KUBECONFIG`, else `~/.kube/config`, else the
 * service account of the pod that this runs in.
 *
 * @throws {RampartError} `INPUT` if nothing is found or what is found cannot work, `UNSUPPORTED` for what this
 *   client does not do: SOCKS proxies, legacy auth providers, plugins that must ask a person.
 */
export function findClusterAccess(options: ClusterAccessOptions = {}): ClusterAccess {
  const config = loadKubeconfig(options);
  if (config !== undefined) return kubeconfigAccess(config, options);
  const { env = process.env, context } = options;
  if (context !== undefined)
    throw missing(`context "${context}"`, kubeconfigFiles(options).join(', '), new Map());
  if (env['KUBERNETES_SERVICE_HOST'] && env['KUBERNETES_SERVICE_PORT']) return inClusterAccess(options);
  throw new RampartError(errorCodes.INPUT, {
    what: 'no Kubernetes API server is configured',
    why: `there is no ${kubeconfigFiles(options).join(' or ')}, and this is not a pod`,
    next:
      options.suggestion === undefined
        ? 'Set KUBECONFIG to a file that exists, or write ~/.kube/config'
        : `For the API of this machine: export KUBECONFIG=${options.suggestion}`,
  });
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The API server of the cluster that this pod runs in, called without a proxy whatever the environment says. The token is
 * read again and again: the kubelet replaces it.
 *
 * @throws {RampartError} `INPUT` if the environment or the service account's files are missing.
 */
export function inClusterAccess(options: ClusterAccessOptions = {}): ClusterAccess {
  const { env = process.env, serviceAccountDir = SERVICE_ACCOUNT_DIR, clock } = options;
  const [host, port] = [env['KUBERNETES_SERVICE_HOST'], env['KUBERNETES_SERVICE_PORT']];
  if (!host || !port) {
    throw new RampartError(errorCodes.INPUT, {
      what: 'this is not a pod of a Kubernetes cluster',
      why: 'KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set',
    });
  }
  const tokenFile = join(serviceAccountDir, 'token');
  // Read now rather than at the first request: a pod without its token will never get one.
  readFile(tokenFile, "this pod's service account token");
  return {
    server: parseServer(
      `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      'KUBERNETES_SERVICE_HOST',
    ),
    ca: readFile(join(serviceAccountDir, 'ca.crt'), "the cluster's certificate authority"),
    credentials: new StoredCredentials({ token: { file: tokenFile }, clock }),
    namespace: readFile(join(serviceAccountDir, 'namespace'), "this pod's namespace").trim(),
  };
}

/** One context of a kubeconfig. Throws as {@link findClusterAccess}. */
export function kubeconfigAccess(
  config: Kubeconfig,
  options: Pick<ClusterAccessOptions, 'clock' | 'context' | 'env'> = {},
): ClusterAccess {
  const files = config.files.join(', ');
  const name = options.context ?? config.currentContext;
  if (name === undefined) throw missing('current-context', files, config.contexts);
  const context = config.contexts.get(name)?.fields;
  if (context === undefined) throw missing(`context "${name}"`, files, config.contexts);
  const clusterName = context.required('cluster');
  const cluster = config.clusters.get(clusterName)?.fields;
  if (cluster === undefined) throw missing(`cluster "${clusterName}"`, files, config.clusters);
  const userName = context.text('user');
  const user = userName ? config.users.get(userName)?.fields : undefined;
  if (userName && user === undefined) throw missing(`user "${userName}"`, files, config.users);

  const ca =
    cluster.data('certificate-authority')?.toString('utf8') ?? fileText(cluster, 'certificate-authority');
  const insecure = cluster.flag('insecure-skip-tls-verify');
  if (insecure && ca !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: cluster.where,
      why: 'it has both a certificate authority and insecure-skip-tls-verify',
      next: 'Keep one of them',
    });
  }
  const server = parseServer(cluster.required('server'), cluster.where);
  return {
    server,
    proxy: proxyOf(cluster, server, options.env ?? process.env),
    ca,
    insecure,
    serverName: cluster.text('tls-server-name') || undefined,
    credentials: user ? userCredentials(user, cluster, ca, options.clock) : anonymous,
    headers: user ? impersonation(user) : {},
    namespace: context.text('namespace') || 'default',
  };
}

function userCredentials(
  user: Fields,
  cluster: Fields,
  ca: string | undefined,
  clock: Clock | undefined,
): Credentials {
  if (user.has('auth-provider')) {
    throw unsupported(user, 'auth-provider', 'Use the exec plugin of your provider instead');
  }
  const withClock = clock && { clock };
  const certificate = certificateSources(user);
  if (user.has('exec')) return execCredentials(user.object('exec'), cluster, ca, clock);
  const [tokenFile, token] = [user.path('tokenFile'), user.text('token') || undefined];
  if (tokenFile || token) {
    const source = tokenFile ? { file: tokenFile } : { value: token ?? '' };
    return new StoredCredentials({
      token: source,
      fallbackToken: tokenFile && token,
      certificate,
      ...withClock,
    });
  }
  const username = user.text('username');
  if (username) return basicCredentials(username, user.text('password') ?? '');
  return certificate ? new StoredCredentials({ certificate, ...withClock }) : anonymous;
}

function certificateSources(user: Fields): { cert: Source; key: Source } | undefined {
  const source = (name: string): Source | undefined => {
    const data = user.data(name);
    if (data !== undefined) return { value: data.toString('utf8') };
    const file = user.path(name);
    return file === undefined ? undefined : { file };
  };
  const [cert, key] = [source('client-certificate'), source('client-key')];
  if (cert && key) return { cert, key };
  if (!cert && !key) return undefined;
  throw new RampartError(errorCodes.INPUT, {
    what: user.where,
    why: `it has a ${cert ? 'client-certificate but no client-key' : 'client-key but no client-certificate'}`,
  });
}

function execCredentials(
  exec: Fields,
  cluster: Fields,
  ca: string | undefined,
  clock: Clock | undefined,
): ExecCredentials {
  const apiVersion = exec.required('apiVersion');
  if (!execApiVersions.includes(apiVersion)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `${exec.where}: apiVersion ${apiVersion}`,
      next: `Use one of: ${execApiVersions.join(', ')}`,
    });
  }
  if (exec.text('interactiveMode') === 'Always') {
    throw unsupported(exec, 'interactiveMode: Always', 'Use a non-interactive plugin');
  }
  const command = exec.required('command');
  return new ExecCredentials({
    apiVersion,
    // A bare name is looked up in PATH; anything else is a path, relative to the file.
    command: command.includes('/') ? (exec.path('command') ?? command) : command,
    args: exec.texts('args'),
    env: Object.fromEntries(
      exec.list('env').map((entry) => [entry.required('name'), entry.text('value') ?? '']),
    ),
    installHint: exec.text('installHint'),
    cluster: exec.flag('provideClusterInfo') ? clusterInfo(cluster, ca) : undefined,
    clock,
  });
}

/** `spec.cluster` of an ExecCredential. */
function clusterInfo(cluster: Fields, ca: string | undefined): Readonly<Record<string, unknown>> {
  const extension = cluster
    .list('extensions')
    .find((entry) => entry.text('name') === 'client.authentication.k8s.io/exec');
  return {
    server: cluster.required('server'),
    ...(cluster.has('tls-server-name') && { 'tls-server-name': cluster.text('tls-server-name') }),
    ...(cluster.flag('insecure-skip-tls-verify') && { 'insecure-skip-tls-verify': true }),
    ...(ca && { 'certificate-authority-data': Buffer.from(ca).toString('base64') }),
    config: extension?.raw('extension') ?? null,
  };
}

function impersonation(user: Fields): Record<string, string | readonly string[]> {
  const headers: Record<string, string | readonly string[]> = {};
  if (user.has('as')) headers['impersonate-user'] = user.required('as');
  if (user.has('as-uid')) headers['impersonate-uid'] = user.required('as-uid');
  if (user.has('as-groups')) headers['impersonate-group'] = user.texts('as-groups');
  const extra = user.object('as-user-extra');
  for (const name of extra.names()) {
    headers[`impersonate-extra-${encodeURIComponent(name)}`] = extra.texts(name);
  }
  return headers;
}

function parseServer(text: string, where: string): URL {
  const url = URL.parse(text);
  const wrong =
    url === null || !['http:', 'https:'].includes(url.protocol)
      ? 'it is not an http or https address'
      : url.username || url.password
        ? 'it contains a user or a password'
        : undefined;
  if (url !== null && wrong === undefined) return url;
  // Without the address itself: there may be a password in it.
  throw new RampartError(errorCodes.INPUT, { what: `the server of ${where}`, why: wrong ?? '' });
}

function fileText(fields: Fields, name: string): string | undefined {
  const path = fields.path(name);
  return path === undefined ? undefined : readFile(path, `the ${name} of ${fields.where}`);
}

function readFile(path: string, what: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${what}`,
      why: messageOf(error),
      cause: error,
    });
  }
}

function missing(what: string, files: string, known: ReadonlyMap<string, unknown>): RampartError {
  const names = [...known.keys()];
  return new RampartError(errorCodes.INPUT, {
    what: `kubeconfig ${files} has no ${what}`,
    next:
      names.length > 0 ? `It has: ${names.join(', ')}` : 'It has none at all; check that it is a kubeconfig',
  });
}

/** The proxy that kubectl would use: the cluster's, else the environment's. */
function proxyOf(
  cluster: Fields,
  server: URL,
  env: NonNullable<ClusterAccessOptions['env']>,
): URL | undefined {
  const own = cluster.text('proxy-url') || undefined;
  if (own === undefined) return proxyFor(server, proxiesOf(env));
  if (/^socks/i.test(own))
    throw unsupported(cluster, 'a SOCKS proxy-url', 'Use an http:// or https:// proxy');
  return proxyUrl(own);
}

function unsupported(fields: Fields, what: string, next: string): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: `${what} of ${fields.where} is not supported`,
    next,
  });
}
