/** Events of a node about policies. */
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { type KivePolicy, kivePolicyType } from '../api.ts';
import type { FileEvent } from './data-writer.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { hasCallback } from '../delivery/callback-problems.ts';
import type { CallbackState, CallbackStats } from '../delivery/options.ts';
import { type NodeContainer, placeText } from '../kive-data.ts';
import type { CompiledTrap } from '../policy/matching.ts';
import type { CallbackProblem } from '../policy-status-schema.ts';

export interface NodeEventsOptions {
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly nodeName: string;
  readonly policies: IndexedCache<KivePolicy>;
  /** Called with the policies whose status has to report another state of a callback. */
  readonly onCallbacks?: (policyKeys: Iterable<string>) => void;
}

/** The part of a Delivery that events about callbacks need; without it, none are written. */
export type CallbackTroubles = Partial<
  Pick<Delivery, 'callbacks' | 'onCredentialsTrouble' | 'stateOf' | 'onLastingTrouble'>
>;

const notes: Readonly<Record<FileEvent, (path: string, where: string) => string>> = {
  Watching: (path, where) => `${path} ${where} is watched`,
  FileReplaced: (path, where) => `${path} ${where} was replaced; the new file is watched`,
  FileMissing: (path, where) => `${path} ${where} is gone; it will be watched again as soon as it reappears`,
  FileMoved: (path, where) => `${path} ${where} was moved; the moved file is still watched`,
};
/** At most this many policies get an event about one loss, or about one callback. */
const MAX_POLICIES = 20;

/** Writes events about a policy's files, losses and callbacks; the recorder folds repeated ones. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  file(event: FileEvent, trap: CompiledTrap, container: NodeContainer): void {
    const place = placeText(container);
    const where = `${place === '' ? '' : `in ${place} `}on ${this.#options.nodeName}`;
    this.#record(`${trap.policyNamespace}/${trap.policyName}`, {
      type: event === 'FileMissing' || event === 'FileMoved' ? 'Warning' : 'Normal',
      reason: event,
      note: notes[event](trap.path, where),
    });
  }

  /** Reports lost accesses to these policies; whether the accesses were to their files is unknown. */
  lost(count: number, policyKeys: Iterable<string>): void {
    const keys = new Set<string>();
    for (const key of policyKeys) {
      keys.add(key);
      if (keys.size === MAX_POLICIES) break;
    }
    const note = `${count} accesses to watched files were lost on ${this.#options.nodeName}, possibly including some of this policy`;
    for (const key of keys) this.#record(key, { type: 'Warning', reason: 'AccessesLost', note });
  }

  /** Reports problems of callbacks, including those that existed before this call: queues left by a previous run are tried immediately. */
  followCallbacks(delivery: CallbackTroubles): Disposable {
    for (const callback of delivery.callbacks?.() ?? []) {
      if (callback.failures > 0 && callback.lastError?.aboutCredentials) this.callbackFailing(callback);
    }
    const stack = new DisposableStack();
    stack.use(delivery.onCredentialsTrouble?.((callback) => this.callbackFailing(callback)));
    stack.use(delivery.onLastingTrouble?.((callback) => this.#callbackLasting(callback)));
    return stack;
  }

  #callbackLasting(state: CallbackState): void {
    const { nodeName, onCallbacks } = this.#options;
    onCallbacks?.(this.#policiesWith(state));
    const { name, problem, aboutCredentials } = state;
    // Problems of credentials were already reported by `onCredentialsTrouble`.
    if (problem === undefined || aboutCredentials) return;
    this.#reportFailing(state, `alerts for ${name} are not delivered by ${nodeName}: ${problem}`);
  }

  /** Reports that the configuration of this node does not allow alerts of this policy to go to this callback. */
  callbackRefused(policyKey: string, { callback, message }: CallbackProblem): void {
    const note = `alerts for ${callback} are not delivered by ${this.#options.nodeName}: ${message}`;
    this.#record(policyKey, { type: 'Warning', reason: 'CallbackFailing', note });
  }

  /** Reports that a callback lacks credentials, or that its receiver refuses them, to the policies with such a trap. */
  callbackFailing({ callback, secret, name, lastError }: CallbackStats): void {
    // Show only the origin of the callback: a path is often a secret, and not everybody who reads events may read
    // policies.
    const note = `alerts for ${name} are waiting on ${this.#options.nodeName}: ${lastError?.why ?? ''}`;
    this.#reportFailing({ callback, secret }, note);
  }

  #reportFailing(of: Pick<CallbackState, 'callback' | 'secret'>, note: string): void {
    let left = MAX_POLICIES;
    for (const key of this.#policiesWith(of)) {
      this.#record(key, { type: 'Warning', reason: 'CallbackFailing', note });
      if (--left === 0) return;
    }
  }

  *#policiesWith({ callback, secret }: Pick<CallbackState, 'callback' | 'secret'>): Iterable<string> {
    for (const policy of this.#options.policies.list()) {
      const { namespace = '', name = '' } = policy.metadata;
      if (hasCallback(policy, callback, secret)) yield `${namespace}/${name}`;
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
