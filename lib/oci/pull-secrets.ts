/**
 * Credentials as stored by Kubernetes: Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, and
 * the file config.json of Docker.
 */
import { isObject } from '../json/json.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { nameGlob } from '../regex/glob.ts';
import type { Credentials, CredentialsSource } from './registry.ts';

interface PullSecret {
  readonly type?: string;
  /** Base64, as in the API. */
  readonly data?: Readonly<Record<string, string>>;
}

interface Entry {
  /** Labels of the host, each a glob. */
  readonly labels: readonly ((text: string) => boolean)[];
  readonly port: string;
  readonly path: string;
  /** The address that the entry is for; a longer one is more specific. */
  readonly key: string;
  readonly credentials: Credentials;
}

/** The names of Docker Hub in such files. */
const dockerHubNames: ReadonlySet<string> = new Set(['index.docker.io', 'registry-1.docker.io', 'docker.io']);

/**
 * The first Secret with the registry wins, and in it the most specific path.
 *
 * @throws {RampartError} `INPUT` for a Secret of another type, or a malformed one; its content is not
 * revealed.
 */
export function credentialsOfSecrets(
  secrets: readonly { readonly name: string; readonly secret: PullSecret }[],
): CredentialsSource {
  const sources = secrets.map(({ name, secret }) => {
    const { '.dockerconfigjson': config, '.dockercfg': old } = secret.data ?? {};
    const text = config ?? old;
    if (text === undefined) {
      throw new RampartError(errorCodes.INPUT, {
        what: `Secret ${name} is not a pull secret`,
        why: `it has type ${secret.type ?? 'Opaque'} and has neither .dockerconfigjson nor .dockercfg`,
        next: 'Create one: kubectl create secret docker-registry',
      });
    }
    return credentialsOfDockerConfig(Buffer.from(text, 'base64').toString(), `Secret ${name}`);
  });
  return (registry, repository) => {
    for (const source of sources) {
      const found = source(registry, repository);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/**
 * From the text of a config.json: `{"auths": {...}}`, or the older form without `auths`.
 *
 * @param what - Where it comes from, for messages.
 * @throws {RampartError} `INPUT`
 */
export function credentialsOfDockerConfig(text: string, what: string): CredentialsSource {
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch {
    // The parser's message contains parts of the text.
    throw unusable(what, 'it is not JSON');
  }
  if (!isObject(config)) throw unusable(what, 'it is not a JSON object');
  const auths = 'auths' in config ? config['auths'] : config;
  if (auths === undefined || auths === null) return () => undefined;
  if (!isObject(auths)) throw unusable(what, '"auths" is not an object');
  const entries = Object.entries(auths)
    .flatMap(([key, value]) => entryOf(key, value, what) ?? [])
    .toSorted((a, b) => b.key.length - a.key.length);
  return (registry, repository) => entries.find((entry) => covers(entry, registry, repository))?.credentials;
}

function entryOf(key: string, value: unknown, what: string): Entry | undefined {
  if (!isObject(value)) throw unusable(what, `the entry of ${JSON.stringify(key)} is not an object`);
  const credentials = credentialsOf(value, key, what);
  // Tools leave empty entries for credentials in a credential helper.
  if (credentials === undefined) return undefined;
  const [address = '', ...path] = key.replace(/^https?:\/\//, '').split('/');
  // Docker Hub's entry is https://index.docker.io/v1/.
  const [name = '', port = ''] = address.split(':');
  const host = dockerHubNames.has(name) ? 'docker.io' : name.toLowerCase();
  return {
    labels: host.split('.').map((label) => nameGlob(label, what)),
    port,
    path: path
      .join('/')
      .replace(/^v[12]\/?$/, '')
      .replace(/\/$/, ''),
    key,
    credentials,
  };
}

function credentialsOf(entry: Record<string, unknown>, key: string, what: string): Credentials | undefined {
  const { username, password, auth, identitytoken } = entry;
  if (typeof identitytoken === 'string' && identitytoken !== '') {
    return { username: '<token>', password: identitytoken };
  }
  if (typeof auth === 'string' && auth !== '') {
    const decoded = Buffer.from(auth, 'base64').toString();
    const colon = decoded.indexOf(':');
    if (colon < 0) {
      throw unusable(what, `"auth" of ${JSON.stringify(key)} is not username:password in base64`);
    }
    // Some tools append zero bytes.
    return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1).replace(/\0+$/, '') };
  }
  if (typeof username === 'string' && typeof password === 'string' && username !== '')
    return { username, password };
  return undefined;
}

function covers({ labels, port, path }: Entry, registry: string, repository: string): boolean {
  const [name = '', asked = ''] = registry.split(':');
  const parts = name.split('.');
  return (
    port === asked &&
    parts.length === labels.length &&
    labels.every((fits, index) => fits(parts[index] ?? '')) &&
    (path === '' || repository === path || repository.startsWith(`${path}/`))
  );
}

function unusable(what: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `${what} does not contain usable credentials`,
    why,
    next: 'Use what `docker login` writes: {"auths": {"registry.example": {"auth": "..."}}}',
  });
}
