/**
 * Events on policies, from a node.
 *
 * @module
 */
import { referenceTo } from '../../shared/kube/event-object.ts';
import type { EventRecorder } from '../../shared/kube/event-recorder.ts';
import type { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import { type KivePolicy, kivePolicyType } from './api.ts';
import type { WrittenEvent } from './data-writer.ts';
import type { NodeContainer } from './kive-data.ts';
import type { CompiledTrap } from './matching.ts';

export interface NodeEventsOptions {
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly nodeName: string;
  readonly policies: IndexedCache<KivePolicy>;
}

const notes: Readonly<Record<WrittenEvent | 'FileMissing', (path: string, where: string) => string>> = {
  Watching: (path, where) => `${path} in ${where} is watched`,
  FileReplaced: (path, where) => `${path} in ${where} is another file now; that one is watched`,
  FileMissing: (path, where) => `${path} in ${where} is gone; it is watched as soon as it is there again`,
};
/** Policies that are told of one loss. */
const MAX_LOSS_EVENTS = 20;

/** Tells what people want to know of a policy; the recorder folds what repeats. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  file(event: WrittenEvent | 'FileMissing', trap: CompiledTrap, container: NodeContainer): void {
    const { namespace = '', name = '' } = container.pod.metadata;
    const where = `${namespace}/${name}/${container.name} on ${this.#options.nodeName}`;
    this.#record(`${trap.policyNamespace}/${trap.policyName}`, {
      type: event === 'FileMissing' ? 'Warning' : 'Normal',
      reason: event,
      note: notes[event](trap.path, where),
    });
  }

  /** Accesses were lost, perhaps some to files of these policies: nobody knows. */
  lost(count: number, policyKeys: Iterable<string>): void {
    const keys = new Set<string>();
    for (const key of policyKeys) {
      keys.add(key);
      if (keys.size === MAX_LOSS_EVENTS) break;
    }
    const note = `${count} accesses to watched files were lost on ${this.#options.nodeName}, perhaps some of this policy`;
    for (const key of keys) this.#record(key, { type: 'Warning', reason: 'AccessesLost', note });
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
