/** The exceptions of a policy server, from a file that is read again when it changes. */
import { readFile } from 'node:fs/promises';

import type { Logger } from '../../../lib/telemetry/log.ts';
import { type Clock, sleep } from '../../../lib/time/clock.ts';
import type { PolicyRequest } from '../engine/evaluator.ts';
import { type Exception, exceptionFor, exceptionsByPolicy, noExceptions } from '../exceptions/exception.ts';
import { exceptionsOf } from '../exceptions/exception-file.ts';
import { parseYaml, unreadable } from '../../../lib/files/yaml-file.ts';
import type { ServedPolicy } from './served-policy.ts';

export class ServedExceptions {
  readonly #path: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  #text: string | undefined;
  #exceptions = noExceptions;

  constructor(path: string, logger: Logger, clock: Clock) {
    this.#path = path;
    this.#logger = logger;
    this.#clock = clock;
  }

  /** The exception that exempts the object of a request from a policy. */
  readonly find = (policy: ServedPolicy, request: PolicyRequest): Exception | undefined => {
    if (this.#exceptions.size === 0) return undefined;
    const { kind, namespace = '', name, object, oldObject } = request;
    const either = (object ?? oldObject ?? {}) as {
      readonly metadata?: { readonly name?: string; readonly labels?: Readonly<Record<string, string>> };
    };
    const target = {
      ...{ group: kind.group, kind: kind.kind },
      // In a request for a Namespace, the API server sets the namespace to that Namespace itself.
      namespace: kind.kind === 'Namespace' && kind.group === '' ? '' : namespace,
      name: name ?? either.metadata?.name ?? '',
      labels: either.metadata?.labels ?? {},
    };
    return exceptionFor(this.#exceptions, originOf(policy), target, this.#clock.wallMs());
  };

  /** @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT`; the exceptions then stay as they are */
  async load(): Promise<void> {
    let text: string;
    try {
      text = await readFile(this.#path, 'utf8');
    } catch (error) {
      throw unreadable(`the exceptions in ${this.#path}`, error);
    }
    if (text === this.#text) return;
    this.#exceptions = exceptionsByPolicy(exceptionsOf(parseYaml(text, this.#path), this.#path));
    this.#text = text;
    this.#logger.info({ file: this.#path }, 'the exceptions from policies were loaded');
  }

  /** Reads the file when it changes, until `signal` aborts. A file that cannot be read is reported once. */
  async follow(everyMs: number, signal: AbortSignal): Promise<void> {
    let reportedOf = '';
    while (!signal.aborted) {
      await sleep(this.#clock, everyMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.load();
        reportedOf = '';
      } catch (error) {
        const { message } = error as Error;
        if (message !== reportedOf)
          this.#logger.error({ err: error }, 'the exceptions cannot be used; keeping the previous ones');
        reportedOf = message;
      }
    }
  }
}

/**
 * The origin of an entry. For one that was written by hand it is derived from the ID, which contains the name of a
 * cluster-scoped policy.
 */
function originOf({ id, origin }: ServedPolicy): { readonly kind: string; readonly name: string } {
  if (origin !== undefined) return origin;
  const group = 'clusterwide-group-';
  if (id.startsWith(group)) return { kind: 'ClusterAdmissionPolicyGroup', name: id.slice(group.length) };
  return { kind: 'ClusterAdmissionPolicy', name: id.replace(/^clusterwide-/, '') };
}
