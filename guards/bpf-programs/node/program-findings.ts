/** Reports programs that do not run, run again, or were repaired: once for each change, as a finding and as an Event on their object. */
import type { NodeContext } from '../../../guard/context.ts';
import { FindingLimiter } from '../../../guard/stream/finding-limiter.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { Condition } from '../../../lib/kube/object/conditions.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { Parent } from '../engine/parent.ts';
import type { NodeConditionType } from '../engine/node-condition.ts';
import { objectNameOf } from '../engine/node-object.ts';
import type { Wanted } from '../engine/wanted.ts';
import { onOneLine, programFindingLine, type ProgramVerdict } from '../findings/program-finding.ts';
import type { Drift } from '../kernel/desired.ts';
import type { Reported } from '../engine/reported.ts';
import type { ConditionListener } from './node-objects.ts';

export interface ProgramFindingsOptions {
  readonly context: Pick<NodeContext, 'nodeName' | 'sink'>;
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly clock?: Clock;
}

/** What the condition of a program means. Other conditions mean neither: the program waits, or is not wanted here. */
const meanings: Readonly<Partial<Record<string, 'failed' | 'runs'>>> = {
  Loaded: 'runs',
  NotLoaded: 'failed',
  MapOwnerNotFound: 'failed',
  MapOwnerNotLoaded: 'failed',
  BytecodeSelectorError: 'failed',
} satisfies Partial<Record<NodeConditionType, 'failed' | 'runs'>>;

const events: Readonly<Record<ProgramVerdict, string>> = {
  'not-loaded': 'NotLoaded',
  running: 'Running',
  repaired: 'Repaired',
  displaced: 'Displaced',
  outdated: 'Outdated',
  'map-lost': 'MapContentsLost',
};

/** The message has only the beginning of a reason; the complete reason has its own key. */
const MAX_REASON = 500;

export class ProgramFindings implements ConditionListener {
  readonly #options: ProgramFindingsOptions;
  readonly #clock: Clock;
  readonly #limiter: FindingLimiter;
  /** The last reported failure, keyed by object; empty if its program runs. */
  readonly #reported = new Map<string, string>();

  constructor(options: ProgramFindingsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limiter = new FindingLimiter({ clock: this.#clock });
  }

  /** The number of findings that were folded. */
  get folded(): number {
    return this.#limiter.folded;
  }

  /** Called before the condition is written. A failure that the object already has was reported by an earlier process. */
  condition(reported: Reported, before: readonly Condition[] | undefined): void {
    const { wanted, condition, isDisplaced, isKept, lost } = reported;
    if (lost.length > 0) this.#notify('map-lost', reported, lost.join(' '));
    const meaning = meanings[condition.type];
    if (meaning === undefined) return;
    const key = keyOf(wanted);
    const known = this.#reported.get(key) ?? failureIn(before) ?? '';
    const now = meaning === 'runs' ? '' : failureOf(condition);
    this.#reported.set(key, now);
    if (now === known) return;
    const failed = isKept ? 'outdated' : isDisplaced ? 'displaced' : 'not-loaded';
    const verdict = meaning === 'runs' ? 'running' : failed;
    this.#notify(verdict, reported, meaning === 'runs' ? '' : condition.message);
  }

  /** Reports repaired drift: one finding for each user's object. */
  repaired(drift: readonly Drift[], all: readonly Reported[]): void {
    for (const { what, owners } of drift) {
      for (const owner of new Set(owners)) {
        const reported = all.find(
          ({ wanted, condition }) => wanted.parent.key === owner && condition.type === 'Loaded',
        );
        if (reported !== undefined) this.#notify('repaired', reported, what);
      }
    }
  }

  /** Forgets all other objects. */
  keepOnly(all: readonly Reported[]): void {
    const wanted = new Set(all.map((one) => keyOf(one.wanted)));
    for (const key of this.#reported.keys()) if (!wanted.has(key)) this.#reported.delete(key);
  }

  #notify(verdict: ProgramVerdict, { wanted }: Reported, reason: string): void {
    const { parent, attachPoint, member } = wanted;
    const { nodeName, sink } = this.#options.context;
    const folded = this.#limiter.take(`${parent.key} ${verdict}`);
    if (folded === undefined) return;
    const message = messageOf(verdict, parent, nodeName, reason);
    const namespace = parent.namespace ?? '';
    sink(
      programFindingLine(
        {
          verdict,
          message,
          node: { name: nodeName },
          object: { kind: parent.kind.nodeType.kind, namespace, name: objectNameOf(wanted, nodeName) },
          policy: { kind: parent.kind.kind, namespace, name: parent.name },
        },
        { function: member.spec.bpffunctionname, attachPoint, reason, folded },
        this.#clock.wallMs(),
      ),
    );
    this.#options.recorder.record({
      regarding: referenceTo(parent.kind.type, parent.object),
      type: verdict === 'running' ? 'Normal' : 'Warning',
      reason: events[verdict],
      action: verdict === 'repaired' ? 'Repair' : 'Load',
      note: message,
    });
  }
}

/** A key that is unique on the node. */
function keyOf({ parent, id }: Wanted): string {
  return `${parent.kind.nodeType.kind} ${id}`;
}

function messageOf(verdict: ProgramVerdict, { key }: Parent, nodeName: string, reason: string): string {
  const reported = onOneLine(reason.slice(0, MAX_REASON)).replace(/\.$/, '');
  const what = `A program of ${key}`;
  const messages = {
    'not-loaded': `${what} does not run on node ${nodeName}: ${reported}.`,
    displaced: `${what} does not run on node ${nodeName}, because another one is in its place: ${reported}.`,
    outdated: `${what} runs on node ${nodeName} in its last version that could, because the requested one does not: ${reported}.`,
    'map-lost': `A new version of a program of ${key} runs on node ${nodeName}. ${reported}.`,
    repaired: `${what} was repaired on node ${nodeName}: ${reported}.`,
    running: `${what} runs again on node ${nodeName}.`,
  };
  return messages[verdict];
}

function failureOf({ type, message }: Pick<Condition, 'message' | 'type'>): string {
  return `${type} ${message}`;
}

/** The failure in an object's conditions; undefined if they report none. */
function failureIn(conditions: readonly Condition[] = []): string | undefined {
  const [failed] = conditions.filter(({ type }) => meanings[type] === 'failed');
  return failed && failureOf(failed);
}
