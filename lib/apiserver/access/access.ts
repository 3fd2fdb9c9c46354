/**
 * Access to the API: TLS by an authority of this server's own, one token for its administrator, and the
 * kubeconfig that has both. Without the token, only the health endpoints answer.
 *
 * | address             | TLS                      | who                     |
 * | ------------------- | ------------------------ | ----------------------- |
 * | unix socket, 0600   | no                       | whoever may open it     |
 * | 127.0.0.1, ::1      | yes, unless `plainHttp`  | who has the token       |
 * | any other           | yes                      | who has the token       |
 *
 * Web pages cannot use what their browser does not have: there are no cookies and no client certificates, and
 * no answer allows another origin. So the Origin and Host headers are not checked.
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
  /** Names and addresses that clients call the server by, besides those of loopback and of `listen`. */
  readonly hosts?: readonly string[] | undefined;
  /** Default: now. */
  readonly now?: Date;
}

interface Access {
  readonly authenticate: Authenticate;
  /** For `serveHttp`. */
  readonly tls: TlsKeys | undefined;
  /**
   * Writes a kubeconfig, in place of the one that is there, and returns its path. `undefined` where kubectl cannot be
   * used: it does not dial unix sockets (client-go `tools/clientcmd/client_config.go`).
   * `curl --unix-socket PATH` can.
   *
   * @param url of the server once it listens; of a wildcard address, loopback's is written.
   * @throws {RampartError} `FULL`, `SYSTEM`
   */
  writeKubeconfig(url: string | undefined): string | undefined;
}

/** As the administrator of a cluster made by kubeadm. */
const administrator: User = {
  name: 'kubernetes-admin',
  groups: ['system:masters', 'system:authenticated'],
};

/**
 * Makes what is missing, renews what is old, refuses what others could have read.
 *
 * @throws {RampartError} `INPUT` for an address that is not allowed and for files that others can read; `CORRUPT`,
 * `FULL`, `SYSTEM`.
 */
export function prepareAccess(options: AccessOptions): Access {
  const { dir, listen, now = new Date() } = options;
  if ('socketPath' in listen) {
    return { authenticate: () => administrator, tls: undefined, writeKubeconfig: () => undefined };
  }
  ensurePrivateDirectory(dir);
  const token = prepareToken(join(dir, 'token'));
  const keys = prepareKeys(dir, certificateHosts(listen.host, options.hosts), now);
  const kubeconfig = join(dir, 'kubeconfig');
  return {
    authenticate: bearerOf(token),
    tls: { key: keys.key, cert: keys.cert },
    writeKubeconfig(url) {
      if (url === undefined) return undefined;
      writePrivateFile(kubeconfig, kubeconfigText({ url: reachable(url), authority: keys.authority, token }));
      return kubeconfig;
    },
  };
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

/** Compares in a time that does not depend on how much of the token is right. Its length is no secret. */
function bearerOf(token: string): Authenticate {
  const expected = Buffer.from(token, 'utf8');
  const scheme = 'bearer ';
  const length = scheme.length + token.length;
  return (authorization) => {
    if (authorization?.length !== length) return undefined;
    if (authorization.slice(0, scheme.length).toLowerCase() !== scheme) return undefined;
    const given = Buffer.from(authorization.slice(scheme.length), 'utf8');
    // Non-ASCII text is longer in bytes.
    return given.length === expected.length && timingSafeEqual(given, expected) ? administrator : undefined;
  };
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

/** As YAML, with one context of the name `rampart`. */
function kubeconfigText({ url, authority, token }: Record<'authority' | 'token' | 'url', string>): string {
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
    '- name: rampart-admin',
    '  user:',
    `    token: ${JSON.stringify(token)}`,
    'contexts:',
    '- name: rampart',
    '  context:',
    '    cluster: rampart',
    '    user: rampart-admin',
  ];
  return `${lines.join('\n')}\n`;
}
