/** The one condition of a per-node object, derived from the outcomes on its node. */
import { type Condition, setCondition } from '../../../lib/kube/object/conditions.ts';
import type { NodeObject } from '../api.ts';
import type { Failure, Outcome } from '../kernel/desired.ts';
import type { Wanted } from './wanted.ts';

/** Types and reasons of conditions, as in bpfman-operator. */
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

/** The status with only this condition; the same object if nothing changes. */
export function withCondition(
  before: NodeObject['status'],
  { type, reason, message }: Pick<Condition, 'message' | 'reason' | 'type'>,
  observedGeneration: number | undefined,
): NodeObject['status'] {
  const all = before?.conditions ?? [];
  const conditions = setCondition(
    all.filter((one) => one.type === type),
    { type, reason, message, status: 'True', observedGeneration },
  );
  return all.length === 1 && conditions[0] === all[0] ? before : { conditions };
}

type Kept = Extract<Outcome, { state: 'kept' }>;

/** The outcome of one program: what the kernel answered, or why the kernel was not asked, and which version runs nevertheless. */
export type Verdict =
  | { readonly outcome: Outcome; readonly digest: string; readonly notes?: readonly string[] }
  | { readonly condition: NodeCondition; readonly kept?: Kept | undefined };

export function conditionOf(wanted: Wanted, verdict: Verdict): NodeCondition {
  if ('condition' in verdict) return withKept(verdict.condition, verdict.kept);
  const { outcome, digest, notes = [] } = verdict;
  const what = `${wanted.member.spec.bpffunctionname} of ${digest}`;
  if (outcome.state === 'loaded') {
    const isAttached = !('attach' in wanted.goal && wanted.goal.attach.type === 'nowhere');
    const how = isAttached ? 'runs' : 'is loaded, and attached to nothing,';
    const text = [`${what} ${how} as program ${outcome.programId}`, ...notes, ...outcome.notes].join('; ');
    return nodeCondition('Loaded', text);
  }
  const { reason, message, mayPass } = outcome.state === 'kept' ? outcome.failure : outcome;
  const text = [`${what}: ${message}`, ...notes, ...(mayPass ? ['Retrying.'] : [])].join('\n');
  return withKept(nodeCondition(failedTypes[reason], text), outcome.state === 'kept' ? outcome : undefined);
}

/** Adds which version keeps running. The condition still says that the requested version does not run. */
function withKept(condition: NodeCondition, kept: Kept | undefined): NodeCondition {
  if (kept === undefined) return condition;
  const { digest, programId, notes } = kept;
  const runs = [`The last version that ran, ${digest}, keeps running as program ${programId}`, ...notes].join(
    '; ',
  );
  return { ...condition, message: `${condition.message}\n${runs}.` };
}

const failedTypes: Readonly<Record<Failure['reason'], NodeConditionType>> = {
  bytecode: 'BytecodeSelectorError',
  'map-owner-not-found': 'MapOwnerNotFound',
  'map-owner-not-loaded': 'MapOwnerNotLoaded',
  attach: 'NotLoaded',
  displaced: 'NotLoaded',
  load: 'NotLoaded',
  'not-allowed': 'NotLoaded',
  target: 'NotLoaded',
};
