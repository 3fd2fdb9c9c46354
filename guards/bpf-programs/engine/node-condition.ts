/** The one condition of a per-node object. */
import type { Outcome } from '../kernel/desired.ts';
import type { Wanted } from './wanted.ts';

/** Types and reasons, as in bpfman-operator. */
const reasons = {
  None: 'None',
  Loaded: 'bpfmanLoaded',
  NotLoaded: 'bpfmanNotLoaded',
  NotUnLoaded: 'bpfmanNotUnloaded',
  NotSelected: 'nodeNotSelected',
  Unloaded: 'bpfmanUnloaded',
  MapOwnerNotFound: 'mapOwnerNotFound',
  MapOwnerNotLoaded: 'mapOwnerNotLoaded',
  BytecodeSelectorError: 'bytecodeSelectorError',
  NoContainersOnNode: 'noContainersOnNode',
} as const;

export type NodeConditionType = keyof typeof reasons;

export interface NodeCondition {
  readonly type: NodeConditionType;
  readonly reason: string;
  readonly message: string;
}

export function nodeCondition(type: NodeConditionType, message: string): NodeCondition {
  return { type, reason: reasons[type], message };
}

/** The outcome of one program: what the kernel said, or why it was not tried. */
export type Verdict =
  | { readonly outcome: Outcome; readonly digest: string; readonly notes?: readonly string[] }
  | { readonly condition: NodeCondition };

export function conditionOf(wanted: Wanted, verdict: Verdict): NodeCondition {
  if ('condition' in verdict) return verdict.condition;
  const { outcome, digest, notes = [] } = verdict;
  const what = `${wanted.member.spec.bpffunctionname} of ${digest}`;
  if (outcome.state === 'loaded') {
    const text = [`${what} runs as program ${outcome.programId}`, ...notes, ...outcome.notes].join('; ');
    return nodeCondition('Loaded', text);
  }
  const { reason, message, mayPass } = outcome;
  const text = [`${what}: ${message}`, ...notes, ...(mayPass ? ['Retrying.'] : [])].join('\n');
  switch (reason) {
    case 'bytecode':
      return nodeCondition('BytecodeSelectorError', text);
    case 'map-owner-not-found':
      return nodeCondition('MapOwnerNotFound', text);
    case 'map-owner-not-loaded':
      return nodeCondition('MapOwnerNotLoaded', text);
    case 'attach':
    case 'displaced':
    case 'load':
    case 'not-allowed':
    case 'target':
      return nodeCondition('NotLoaded', text);
  }
}
