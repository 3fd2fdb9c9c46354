/**
 * References to artifacts, in their usual form: `registry.example:5000/team/policy:v1@sha256:...`. The grammar is that of
 * the distribution project; a name without a host refers to Docker Hub, as usual.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { isDigest } from './digest.ts';

export interface Reference {
  /** Host, with the port if one was given: `registry.example:5000`. */
  readonly registry: string;
  /** `team/policy` */
  readonly repository: string;
  readonly tag: string | undefined;
  /** Wins over the tag. */
  readonly digest: string | undefined;
}

const dockerHub = 'docker.io';
const LONGEST_REFERENCE = 1024;

const host = /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?$/;
const repositoryPath = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const tagName = /^\w[\w.-]{0,127}$/;

/** @throws {RampartError} `INPUT` if it is not a reference. */
export function parseReference(text: string): Reference {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, {
      what: `${JSON.stringify(text.slice(0, 200))} is not a reference to an artifact`,
      why,
      next: 'Use host/repository:tag or host/repository@sha256:..., as in registry.example/team/policy:v1',
    });
  if (text.length > LONGEST_REFERENCE) throw refuse(`it has more than ${LONGEST_REFERENCE} characters`);
  const [named = '', ...digests] = text.split('@');
  const digest = digests[0];
  if (digests.length > 1 || (digest !== undefined && !isDigest(digest))) {
    throw refuse('what follows "@" must be a digest: sha256: and 64 hexadecimal digits');
  }
  const slash = named.indexOf('/');
  const first = named.slice(0, Math.max(slash, 0));
  const hasHost = /[.:[]/.test(first) || first === 'localhost';
  const rest = hasHost ? named.slice(slash + 1) : named;
  const colon = rest.lastIndexOf(':');
  const path = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? undefined : rest.slice(colon + 1);
  if (hasHost && !host.test(first)) throw refuse(`${JSON.stringify(first)} is not a host`);
  if (!repositoryPath.test(path)) {
    throw refuse(
      path === '' ? 'it has no repository' : `${JSON.stringify(path)} is not a repository (lower case only)`,
    );
  }
  if (tag !== undefined && !tagName.test(tag)) throw refuse(`${JSON.stringify(tag)} is not a tag`);
  const registry = hasHost ? first.toLowerCase() : dockerHub;
  return {
    registry: registry === 'index.docker.io' ? dockerHub : registry,
    repository: registry === dockerHub && !path.includes('/') ? `library/${path}` : path,
    tag: tag ?? (digest === undefined ? 'latest' : undefined),
    digest,
  };
}

/** In full: with the host, and with the effective tag or digest. */
export function formatReference({ registry, repository, tag, digest }: Reference): string {
  return `${registry}/${repository}${digest === undefined ? `:${tag}` : `@${digest}`}`;
}

/** The host of a registry's API: Docker Hub's has another name. */
export function apiHost(registry: string): string {
  return registry === dockerHub ? 'registry-1.docker.io' : registry;
}

/** The host without its port, and without the brackets of IPv6. */
export function hostName(registry: string): string {
  return registry.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
