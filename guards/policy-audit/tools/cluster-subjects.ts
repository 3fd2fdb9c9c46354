/** The objects of a cluster that policies apply to, as an audit evaluates them. */
import { systemNamespace } from '../../../guard/guard.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import {
  apiVersionOf,
  type KubeObject,
  type Namespace,
  namespaces,
} from '../../../lib/kube/object/object.ts';
import { type PolicyException, policyExceptionType } from '../api.ts';
import { type Exception, readException } from '../exceptions/exception.ts';
import type { GroupVersionResource } from '../engine/evaluator.ts';
import { coversKind } from '../policies/match.ts';
import type { Policy } from '../policies/policy.ts';
import { auditsKind, type ServedKind, servedKinds } from '../scanner/served-kinds.ts';
import { creationOf, nameOf, type Subject } from './subjects.ts';

const PAGE_SIZE = 500;

export class ClusterSubjects implements AsyncIterable<Subject> {
  readonly #client: KubeClient;
  readonly #policies: readonly (Policy | undefined)[];
  readonly #signal: AbortSignal;
  /** Kinds that could not be listed, and why. */
  readonly problems: string[] = [];

  /** @param policies - `undefined` is a policy that applies to everything. */
  constructor(client: KubeClient, policies: readonly (Policy | undefined)[], signal: AbortSignal) {
    this.#client = client;
    this.#policies = policies;
    this.#signal = signal;
  }

  /** @throws {KubeError} */
  async namespaceLabels(): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
    const signal = this.#signal;
    const { items } = await this.#client.list<Namespace>(namespaces, {}, { signal });
    return new Map(items.map(({ metadata: { name = '', labels = {} } }) => [name, labels]));
  }

  /** @throws {KubeError}, {RampartError} `INPUT` for an invalid exception */
  async exceptions(): Promise<readonly Exception[]> {
    const signal = this.#signal;
    try {
      const { items } = await this.#client.list<PolicyException>(policyExceptionType, {}, { signal });
      return items.map(readException);
    } catch (error) {
      if (isNotFound(error)) return [];
      throw error;
    }
  }

  /** Reads each kind in pages. @throws {KubeError} if the kinds are not known; the signal's reason */
  async *[Symbol.asyncIterator](): AsyncGenerator<Subject> {
    const { kinds, unread } = await servedKinds(this.#client, this.#signal);
    this.problems.push(...unread.map((group) => `${group}: the API does not say which kinds it serves`));
    for (const kind of kinds.values()) {
      if (!this.#policies.some((policy) => policy === undefined || auditsKind(policy, kind))) continue;
      try {
        yield* this.#objects(kind);
      } catch (error) {
        this.#signal.throwIfAborted();
        this.problems.push(`${kind.key}: ${messageOf(error)}`);
      }
    }
  }

  async *#objects(kind: ServedKind): AsyncGenerator<Subject> {
    const shown = this.#version(kind);
    const type = { ...kind.type, group: shown.group, version: shown.version };
    const equivalents = kind.versions.filter((one) => one !== shown);
    const name = {
      ...{ group: shown.group, version: shown.version, kind: type.kind },
      ...{ resource: type.plural, isNamespaced: type.namespaced },
    };
    let token: string | undefined;
    do {
      const page = await this.#client.list<KubeObject>(
        type,
        {},
        { limit: PAGE_SIZE, continue: token, signal: this.#signal },
      );
      for (const item of page.items) {
        const { namespace, name: ofObject } = item.metadata;
        if (namespace === systemNamespace) continue;
        const { managedFields: _, ...metadata } = item.metadata;
        const object = { apiVersion: apiVersionOf(type), kind: type.kind, ...item, metadata };
        yield {
          ...{ file: '', line: 0, kind: name, isReview: false, equivalents },
          name: nameOf(type.kind, namespace, ofObject),
          request: creationOf(object, name),
        };
      }
      token = page.metadata.continue === '' ? undefined : page.metadata.continue;
    } while (token !== undefined);
  }

  /** The first served version that a rule names: policies get the objects in this version. */
  #version({ versions }: ServedKind): GroupVersionResource {
    const rules = this.#policies.flatMap((policy) => policy?.constraints ?? []).flatMap((one) => one.rules);
    const named = versions.find((version) => rules.some((rule) => coversKind(rule, version)));
    const [first] = versions;
    if (first === undefined) throw new TypeError('a kind without a version');
    return named ?? first;
  }
}
