/**
 * Reads objects for the policies of a PolicyServer during the operator's audits, as the server's service account:
 * its pods do the same for webhooks. The operator itself may read almost everything, and a policy could disclose
 * that to its author in messages.
 */
import { systemNamespace } from '../../../guard/guard.ts';
import { agentWorkload, operatorWorkload } from '../../../guard/removal.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { AccountToken } from '../../../lib/kube/client/account-token.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden } from '../../../lib/kube/client/client-errors.ts';
import { apiVersionOf } from '../../../lib/kube/object/object.ts';
import { orAborted } from '../../../lib/time/abort.ts';
import { type PolicyServer, policyServerType } from '../api.ts';
import type { AskedOfCluster, JsonObject } from '../engine/evaluator.ts';
import {
  askedAccess,
  type ClusterReader,
  type KindName,
  type ListSelection,
  type ReadOptions,
} from '../engine/host-calls/cluster-reader.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import type { PolicyReader, PolicyReaders } from '../policies/read-by-server.ts';

export interface ServerReadersOptions {
  /** Requests the tokens. */
  readonly client: KubeClient;
  readonly servers: Pick<IndexedCache<PolicyServer>, 'get' | 'synced'>;
}

/** Limit of the refusals that are remembered for each server; the oldest is forgotten first. */
const MAX_REFUSALS = 1024;

/** One reader per PolicyServer, from its first open policy to its last. */
export class ServerReaders implements PolicyReaders {
  readonly #options: ServerReadersOptions;
  readonly #open = new Map<string, { readonly reader: ServerReader; policies: number }>();

  constructor(options: ServerReadersOptions) {
    this.#options = options;
  }

  open(policyServer: string): Disposable & { readonly reader: PolicyReader } {
    const own = this.#open.get(policyServer) ?? {
      reader: new ServerReader(policyServer, this.#options),
      policies: 0,
    };
    this.#open.set(policyServer, own);
    own.policies++;
    return {
      reader: own.reader,
      [Symbol.dispose]: () => {
        if (--own.policies > 0) return;
        this.#open.delete(policyServer);
        own.reader[Symbol.dispose]();
      },
    };
  }
}

/** Nothing can be read as the account, whatever its permissions. */
class NoAccountError extends Error {}

interface Identity extends Disposable {
  readonly account: string;
  readonly token: AccountToken;
  readonly reader: ClusterReader;
}

class ServerReader implements PolicyReader, Disposable {
  readonly source: AskedOfCluster;
  readonly #name: string;
  readonly #options: ServerReadersOptions;
  /** Has a cache of its own: what one account has read must not be passed to another. */
  #identity: Identity | undefined;
  readonly #refusals = new Map<string, string>();

  constructor(name: string, options: ServerReadersOptions) {
    this.#name = name;
    this.#options = options;
    this.source = { apiVersion: apiVersionOf(policyServerType), kind: policyServerType.kind, name };
  }

  get(
    kind: KindName,
    target: { readonly name: string; readonly namespace?: string | undefined },
    options?: ReadOptions,
  ): Promise<JsonObject | undefined> {
    return this.#read({ ...kind, ...target }, options, (reader) => reader.get(kind, target, options));
  }

  list(kind: KindName, selection: ListSelection, options?: ReadOptions): Promise<readonly JsonObject[]> {
    const asked = { ...kind, namespace: selection.namespace };
    return this.#read(asked, options, (reader) => reader.list(kind, selection, options));
  }

  async plural(kind: KindName, options?: ReadOptions): Promise<string> {
    const { reader } = await this.#current(options?.signal);
    return reader.plural(kind, options);
  }

  canI(spec: JsonObject, options?: ReadOptions): Promise<JsonObject> {
    return this.#read(askedAccess, options, (reader) => reader.canI(spec, options));
  }

  refusal(asked: readonly AskedOfCluster[]): string | undefined {
    for (const one of asked) {
      const refusal = this.#refusals.get(keyOf(one));
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#identity?.[Symbol.dispose]();
    this.#identity = undefined;
  }

  async #read<T>(
    asked: Asked,
    options: ReadOptions | undefined,
    ask: (reader: ClusterReader) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(asked);
    try {
      const { reader } = await this.#current(options?.signal);
      const answer = await ask(reader);
      this.#refusals.delete(key);
      return answer;
    } catch (error) {
      const refusal = this.#refusalOf(error);
      if (refusal === undefined) throw error;
      this.#refusals.delete(key);
      this.#refusals.set(key, refusal);
      const [oldest = key] = this.#refusals.keys();
      if (this.#refusals.size > MAX_REFUSALS) this.#refusals.delete(oldest);
      throw new Error(refusal, { cause: error });
    }
  }

  #refusalOf(error: unknown): string | undefined {
    if (error instanceof NoAccountError) return error.message;
    if (!isForbidden(error)) return undefined;
    const account = `${systemNamespace}/${this.#identity?.account}`;
    return `the service account ${account} of the PolicyServer ${this.#name} ${error.message}; bind a role to it that allows this`;
  }

  /** @throws {NoAccountError}, and the reason of the signal */
  async #current(signal: AbortSignal | undefined): Promise<Identity> {
    const { servers } = this.#options;
    await orAborted(servers.synced, signal);
    const server = servers.get(this.#name);
    const account = server && (server.spec.serviceAccountName || 'default');
    if (this.#identity?.account !== account) this[Symbol.dispose]();
    if (account === undefined) {
      throw new NoAccountError(
        `there is no PolicyServer ${this.#name}, as whose service account its policies read the cluster; create it, or name another in policyServer`,
      );
    }
    if ([agentWorkload.name, operatorWorkload.name].includes(account)) {
      throw new NoAccountError(
        `the PolicyServer ${this.#name} names the service account ${account}, which is Rampart's own; name another in serviceAccountName`,
      );
    }
    const identity = (this.#identity ??= this.#identityOf(account));
    try {
      await identity.token.current(signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw new NoAccountError(`the PolicyServer ${this.#name} cannot read: ${messageOf(error)}`, {
        cause: error,
      });
    }
    return identity;
  }

  #identityOf(account: string): Identity {
    const requester = this.#options.client;
    const token = new AccountToken(requester, { namespace: systemNamespace, name: account });
    const client = requester.as(token);
    const reader = new KubeClusterReader(client);
    return { account, token, reader, [Symbol.dispose]: () => client[Symbol.dispose]() };
  }
}

type Asked = KindName & { readonly namespace?: string | undefined; readonly name?: string | undefined };

function keyOf({ apiVersion, kind, namespace, name }: Asked): string {
  return JSON.stringify([apiVersion, kind, namespace, name]);
}
