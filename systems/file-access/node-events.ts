/**
 * Events on policies, from a node.
 *
 * @module
 */
import { referenceTo } from '../../shared/kube/event-object.ts';
import type { EventRecorder } from '../../shared/kube/event-recorder.ts';
import type { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import { type KivePolicy, kivePolicyType } from './api.ts';
import type { FileEvent } from './data-writer.ts';
import type { Delivery } from './delivery/delivery.ts';
import type { CallbackStats } from './delivery/options.ts';
import type { NodeContainer } from './kive-data.ts';
import type { CompiledTrap } from './matching.ts';

export interface NodeEventsOptions {
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly nodeName: string;
  readonly policies: IndexedCache<KivePolicy>;
}

/** The part of a Delivery that events are made of; without it there are none. */
export type CallbackTroubles = Partial<Pick<Delivery, 'callbacks' | 'onCredentialsTrouble'>>;

const notes: Readonly<Record<FileEvent, (path: string, where: string) => string>> = {
  Watching: (path, where) => `${path} in ${where} is watched`,
  FileReplaced: (path, where) => `${path} in ${where} is another file now; that one is watched`,
  FileMissing: (path, where) => `${path} in ${where} is gone; it is watched as soon as it is there again`,
  FileMoved: (path, where) => `${path} in ${where} is gone: the file was moved, and is still watched`,
};
/** Policies that are told of one loss, or of one callback. */
const MAX_POLICIES = 20;

/** Tells what people want to know of a policy; the recorder folds what repeats. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  file(event: FileEvent, trap: CompiledTrap, container: NodeContainer): void {
    const { namespace = '', name = '' } = container.pod.metadata;
    const where = `${namespace}/${name}/${container.name} on ${this.#options.nodeName}`;
    this.#record(`${trap.policyNamespace}/${trap.policyName}`, {
      type: event === 'FileMissing' || event === 'FileMoved' ? 'Warning' : 'Normal',
      reason: event,
      note: notes[event](trap.path, where),
    });
  }

  /** Accesses were lost, perhaps some to files of these policies: nobody knows. */
  lost(count: number, policyKeys: Iterable<string>): void {
    const keys = new Set<string>();
    for (const key of policyKeys) {
      keys.add(key);
      if (keys.size === MAX_POLICIES) break;
    }
    const note = `${count} accesses to watched files were lost on ${this.#options.nodeName}, perhaps some of this policy`;
    for (const key of keys) this.#record(key, { type: 'Warning', reason: 'AccessesLost', note });
  }

  /** Tells of callbacks from now on, and what there is to tell already: queues from before are tried at once. */
  followCallbacks(delivery: CallbackTroubles): Disposable | undefined {
    for (const callback of delivery.callbacks?.() ?? []) {
      if (callback.failures > 0 && callback.lastError?.aboutCredentials) this.callbackFailing(callback);
    }
    return delivery.onCredentialsTrouble?.((callback) => this.callbackFailing(callback));
  }

  /** A callback lacks credentials, or the receiver does not take them: told to the policies with such a trap. */
  callbackFailing({ callback, secret, name, lastError }: CallbackStats): void {
    const { nodeName, policies } = this.#options;
    // Of the callback only the origin: a path is often a secret, and events are read by others than policies are.
    const note = `alerts for ${name} wait on ${nodeName}: ${lastError?.why ?? ''}`;
    let left = MAX_POLICIES;
    for (const { metadata, spec } of policies.list()) {
      const { namespace = '', name: policyName = '' } = metadata;
      const isOne = spec.traps.some(
        (trap) =>
          trap.callback === callback &&
          (trap.callbackSecret === undefined ? '' : `${namespace}/${trap.callbackSecret}`) === secret,
      );
      if (!isOne) continue;
      this.#record(`${namespace}/${policyName}`, { type: 'Warning', reason: 'CallbackFailing', note });
      if (--left === 0) return;
    }
  }

  #record(
    policyKey: string,
    event: { readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly note: string },
  ): void {
    const { recorder, policies } = this.#options;
    const policy = policies.get(policyKey);
    if (policy === undefined) return;
    recorder.record({ regarding: referenceTo(kivePolicyType, policy), action: 'Watch', ...event });
  }
}
