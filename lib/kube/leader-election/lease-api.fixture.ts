/** A Lease in memory, reached over a network that can be broken. */
import type { Clock } from '../../time/clock.ts';
import { errorFromStatus, unreachable } from '../client/client-errors.ts';
import type { LeaseStore } from './lease-store.ts';
import type { Lease } from '../object/object.ts';

/** The API server's side: one lease, changed only at its version. */
export class LeaseServer {
  lease: Lease | undefined;
  #version = 0;
  /** How often it was changed. */
  get writes(): number {
    return this.#version;
  }

  create(
    spec: NonNullable<Lease['spec']>,
    metadata: Lease['metadata'] = { namespace: 'test', name: 'lock' },
  ): Lease {
    if (this.lease !== undefined) throw refused(409, 'AlreadyExists');
    return this.#store({ metadata, spec });
  }

  update(lease: Lease): Lease {
    if (this.lease === undefined) throw refused(404, 'NotFound');
    if (lease.metadata.resourceVersion !== this.lease.metadata.resourceVersion)
      throw refused(409, 'Conflict');
    return this.#store(lease);
  }

  /** Changes a label, as a person might. */
  touch(): void {
    if (this.lease)
      this.#store({ ...this.lease, metadata: { ...this.lease.metadata, labels: { touched: 'yes' } } });
  }

  #store(lease: Lease): Lease {
    const resourceVersion = `${++this.#version}`;
    this.lease = structuredClone({ ...lease, metadata: { ...lease.metadata, resourceVersion } });
    return this.lease;
  }
}

function refused(code: number, reason: string): Error {
  return errorFromStatus('use the lease', { code, reason, message: 'test' });
}

/** The fate of a request. */
export type Network =
  /** It goes there and comes back, each way in up to `delayMs`. */
  | { readonly kind: 'works'; readonly delayMs: number }
  /** It fails at once. */
  | { readonly kind: 'refused' }
  /** It gets lost on the way there. */
  | { readonly kind: 'lost' }
  /** It is carried out, and the answer gets lost. */
  | { readonly kind: 'mute' }
  /** It arrives after up to `delayMs`, even if its sender has given up. */
  | { readonly kind: 'late'; readonly delayMs: number };

/** One process's way to the server. */
export class LeaseLink implements LeaseStore {
  readonly description = 'test/lock';
  network: Network = { kind: 'works', delayMs: 50 };
  readonly #server: LeaseServer;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #heedsSignal: boolean;
  readonly #deliver: (answer: () => void) => void;

  /**
   * `clock` is the world's: a message in the network knows no process. `deliver` hands an answer to the process,
   * which may stand still.
   */
  constructor(
    server: LeaseServer,
    clock: Clock,
    random: () => number,
    heedsSignal: boolean,
    deliver: (answer: () => void) => void = (answer) => answer(),
  ) {
    this.#server = server;
    this.#clock = clock;
    this.#random = random;
    this.#heedsSignal = heedsSignal;
    this.#deliver = deliver;
  }

  get(signal: AbortSignal): Promise<Lease | undefined> {
    return this.#send(signal, () => this.#server.lease);
  }

  create(spec: NonNullable<Lease['spec']>, signal: AbortSignal): Promise<Lease> {
    return this.#send(signal, () => this.#server.create(spec));
  }

  update(lease: Lease, signal: AbortSignal): Promise<Lease> {
    const sent = structuredClone(lease);
    return this.#send(signal, () => this.#server.update(sent));
  }

  #send<T>(signal: AbortSignal, carryOut: () => T): Promise<T> {
    const network = this.network;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (this.#heedsSignal) {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    }
    const after = (delayMs: number, then: () => void): void =>
      void this.#clock.schedule(delayMs * this.#random(), then);
    const arrive = (): void => {
      let answer: () => void;
      try {
        const result = structuredClone(carryOut());
        answer = () => resolve(result);
      } catch (error: unknown) {
        answer = () => reject(error);
      }
      if (network.kind === 'works' || network.kind === 'late')
        after(network.delayMs, () => this.#deliver(answer));
    };
    if (network.kind === 'refused') reject(unreachable('use the lease', 'refused'));
    else if (network.kind === 'mute') after(100, arrive);
    else if (network.kind !== 'lost') after(network.delayMs, arrive);
    return promise;
  }
}
