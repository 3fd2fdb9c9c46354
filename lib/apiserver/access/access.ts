/**
 * Access to the API: TLS with a certificate authority of its own, a token for the administrator and optionally one for a viewer,
 * and kubeconfigs with the authority and a token. Without a token, only the health endpoints answer.
 *
 * | address             | TLS                      | who                     |
 * | ------------------- | ------------------------ | ----------------------- |
 * | unix socket, 0600   | no                       | whoever can open it     |
 * | 127.0.0.1, ::1      | yes, unless `plainHttp`  | whoever has a token     |
 * | any other           | yes                      | whoever has a token     |
 *
 * The Origin and Host headers are not checked: a foreign web page cannot use the API, because a browser has no
 * cookie and no client certificate to send along, and no answer allows another origin.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { Authenticate, ListenAddress, TlsKeys } from '../http/server-options.ts';
import type { User } from '../verbs/request.ts';
import { prepareKeys } from './keys.ts';
import { ensurePrivateDirectory, readPrivateFile, writePrivateFile } from './private-files.ts';

interface AccessOptions {
  /** For `ca.key`, `ca.crt`, `server.key`, `server.crt`, `token` and `kubeconfig`; made with mode 0700. */
  readonly dir: string;
  readonly listen: ListenAddress;
  /** More names and addresses by which clients reach the server, besides loopback and `listen`. */
  readonly hosts?: readonly string[] | undefined;
  /** A second user, for whom `viewer.token` and `viewer.kubeconfig` are created. */
  readonly viewer?: User | undefined;
  /** Default: now. */
  readonly now?: Date;
}

interface Access {
  readonly authenticate: Authenticate;
  /** For `serveHttp`; `undefined` without TLS. */
  readonly tls: TlsKeys | undefined;
  /** Names and addresses in the certificate; empty without TLS. */
  readonly hosts: readonly string[];
  /** Whether this is the token of the viewer. */
  isViewer(token: string): boolean;
  /**
   * Writes the kubeconfigs, replacing existing ones, and returns the path of the administrator's. Returns `undefined` for a unix
   * socket, which kubectl cannot dial (client-go `tools/clientcmd/client_config.go`); `curl --unix-socket PATH` can.
   *
   * @param url of the listening server; a wildcard address is replaced by that of loopback.
   * @throws {RampartError} `FULL`, `SYSTEM`
   */
  writeKubeconfig(url: string | undefined): string | undefined;
}

/** The same user and groups as the administrator in a cluster made by kubeadm. */
const administrator: User = {
  name: 'kubernetes-admin',
  groups: ['system:masters', 'system:authenticated'],
};

/**
 * Creates missing files, renews old ones, refuses files that others could have read.
 *
 * @throws {RampartError} `INPUT` for an address that is not allowed and for files that others can read; `CORRUPT`,
 * `FULL`, `SYSTEM`.
 */
export function prepareAccess(options: AccessOptions): Access {
  const { dir, listen, viewer, now = new Date() } = options;
  if ('socketPath' in listen) {
    return {
      ...{ authenticate: () => administrator, tls: undefined, hosts: [] },
      isViewer: () => false,
      writeKubeconfig: () => undefined,
    };
  }
  ensurePrivateDirectory(dir);
  const known: Known[] = [knownUser(dir, '', administrator)];
  if (viewer !== undefined) known.push(knownUser(dir, 'viewer.', viewer));
  const hosts = certificateHosts(listen.host, options.hosts);
  const keys = prepareKeys(dir, hosts, now);
  return {
    authenticate: bearerOf(known),
    tls: { key: keys.key, cert: keys.cert },
    hosts,
    isViewer: (token) => known.some(({ user, token: of }) => isSame(token, of) && user === viewer),
    writeKubeconfig(url) {
      if (url === undefined) return undefined;
      for (const { user, kubeconfig, token } of known) {
        const parts = { url: reachable(url), authority: keys.authority, token };
        const name = user === administrator ? 'rampart-admin' : user.name;
        writePrivateFile(kubeconfig, kubeconfigText({ ...parts, name }));
      }
      return known[0]?.kubeconfig;
    },
  };
}

interface Known {
  readonly user: User;
  readonly token: string;
  readonly kubeconfig: string;
}

/** @param prefix - Of the file names. */
function knownUser(dir: string, prefix: string, user: User): Known {
  const kubeconfig = join(dir, `${prefix}kubeconfig`);
  return { user, token: prepareToken(join(dir, `${prefix}token`)), kubeconfig };
}

const tokenBytes = 32;
const tokenPattern = /^[A-Za-z0-9_-]{43}$/;

function prepareToken(path: string): string {
  const kept = readPrivateFile(path)?.trim();
  if (kept === undefined) {
    const made = randomBytes(tokenBytes).toString('base64url');
    writePrivateFile(path, `${made}\n`);
    return made;
  }
  if (tokenPattern.test(kept)) return kept;
  throw new RampartError(errorCodes.CORRUPT, {
    what: `cannot use the token in ${path}`,
    why: 'it is not 43 characters of base64url',
    next: 'Remove the file to create a new token; clients then need the new kubeconfig',
  });
}

function bearerOf(known: readonly Known[]): Authenticate {
  const scheme = 'bearer ';
  return (authorization = '') => {
    if (authorization.slice(0, scheme.length).toLowerCase() !== scheme) return undefined;
    const token = authorization.slice(scheme.length);
    return known.find((one) => isSame(token, one.token))?.user;
  };
}

/** Compares in a time that does not depend on how much of the token is right. Its length is not a secret. */
function isSame(given: string, token: string): boolean {
  if (given.length !== token.length) return false;
  const [one, other] = [Buffer.from(given, 'utf8'), Buffer.from(token, 'utf8')];
  // Non-ASCII text is longer in bytes.
  return one.length === other.length && timingSafeEqual(one, other);
}

const wildcards = new Set(['0.0.0.0', '::']);

function certificateHosts(host: string, more: readonly string[] = []): readonly string[] {
  const addresses = wildcards.has(host)
    ? Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address))
    : [host];
  const names = wildcards.has(host) ? [hostname()] : [];
  return [...new Set(['localhost', '127.0.0.1', '::1', ...addresses, ...names, ...more])];
}

function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** The kubeconfig as YAML, with one context, `rampart`. */
function kubeconfigText(parts: Record<'authority' | 'name' | 'token' | 'url', string>): string {
  const { url, authority, name, token } = parts;
  const lines = [
    'apiVersion: v1',
    'kind: Config',
    'current-context: rampart',
    'clusters:',
    '- name: rampart',
    '  cluster:',
    `    server: ${JSON.stringify(url)}`,
    `    certificate-authority-data: ${Buffer.from(authority).toString('base64')}`,
    'users:',
    `- name: ${name}`,
    '  user:',
    `    token: ${JSON.stringify(token)}`,
    'contexts:',
    '- name: rampart',
    '  context:',
    '    cluster: rampart',
    `    user: ${name}`,
  ];
  return `${lines.join('\n')}\n`;
}
