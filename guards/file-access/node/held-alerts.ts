/**
 * Holds alerts for accesses by a container that the runtime has not reported yet: its first accesses are seen before
 * the runtime was queried. Its id is known; its name and pod may be in a moment. All later alerts wait behind these,
 * which preserves the order.
 *
 * Waiting alerts are in a queue on disk, so that none is lost when the process ends, even by kill -9.
 */
import type { ContainerIndex } from '../../../lib/cri/container-index.ts';
import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import type { Access } from '../../../lib/sensor/access.ts';
import type { QueueLog } from '../../../lib/spool/queue-log.ts';
import { openSpool, type Spool } from '../../../lib/spool/spool.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { withAccessor } from '../alert/alert.ts';
import { type AccessorJson, accessorJson } from './accessor.ts';
import type { AlertedPolicy, AlertPath } from './alert-path.ts';
import type { AlertSink } from './local-sensor.ts';
import type { NodeCounts } from './node-metrics.ts';

const defaultWaitMs = 200;
/** How long to remember a container that was not reported: one of another runtime, e.g. Docker, never is. */
const strangersMs = 10_000;
const maxStrangers = 1000;
const maxWaiting = 10_000;
const maxSpoolBytes = 64 * 1024 * 1024;
const maxReadBytes = 1024 * 1024;

const queueName = { kind: 'RAMPHELD', text: 'held' };
const queueKey = '0'.repeat(32);

/** Opens the queue on disk; the caller disposes of it. @throws {RampartError} see openSpool */
export function openHeldAlerts(directory: string, logger: Logger): Spool {
  return openSpool({
    ...{ directory, contents: 'alerts', maxBytes: maxSpoolBytes, maxQueueBytes: maxSpoolBytes },
    keyOf: ({ kind }) => (kind === queueName.kind ? queueKey : undefined),
    observer: {
      damaged: (lostRecords) => logger.warn({ lostRecords }, 'alerts of before the restart cannot be read'),
      syncFailed: (err) => logger.warn({ err }, 'alerts that wait could not be synced to disk'),
    },
  });
}

type Process = Pick<Access, 'mountNamespace' | 'cgroup'>;

/** A waiting alert, as stored on disk. */
interface Held {
  /** Lacks the accessor if `by` is present; otherwise it is complete. */
  readonly line: string;
  readonly by?: Process & { readonly ownerId: string };
  readonly callback: string;
  /** Time of the access in ns, as a decimal number. */
  readonly timeNs: string;
  readonly policy: AlertedPolicy;
}

interface Waiting extends Held {
  readonly id: string;
  readonly untilMs: number;
}

export interface HeldAlertsOptions {
  /** If it is undefined, no alert waits. */
  readonly spool: Spool | undefined;
  readonly index: ContainerIndex<AccessorJson>;
  readonly containers: Pick<ContainerSource, 'subscribe'>;
  readonly path: Pick<AlertPath, 'alert' | 'batchEnd'>;
  readonly counts: Pick<NodeCounts, 'unknownAccessors'>;
  /** How long an alert waits for its container. Default: {@link defaultWaitMs}. */
  readonly waitMs?: number;
}

/** Passes alerts on, with their accessor. Disposing it passes on those that are still waiting. */
export class HeldAlerts implements Disposable {
  readonly #options: HeldAlertsOptions;
  readonly #queue: QueueLog | undefined;
  readonly #subscription: Disposable;
  #waiting: Waiting[] = [];
  /** Cgroups whose container was not reported in time, and until when (performance.now()) they are remembered. */
  readonly #strangers = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  /** Number of records of the queue whose alerts were passed on, but which are not removed yet. */
  #owed = 0;

  constructor(options: HeldAlertsOptions) {
    this.#options = options;
    const { spool, containers } = options;
    if (spool !== undefined) {
      const [left] = spool.queues;
      this.#queue = left ?? spool.add(queueName);
    }
    this.#subscription = containers.subscribe(() => this.#passKnown());
  }

  /**
   * Passes on the alerts that an earlier process held, with what is known now about their containers. Call it before
   * the first new alert.
   */
  restore(): void {
    const queue = this.#queue;
    if (queue === undefined) return;
    for (let records; (records = queue.heads(1000, maxReadBytes)).length > 0; queue.pass(records.length)) {
      for (const { id, line } of records)
        this.#pass({ ...(JSON.parse(line.toString()) as Held), id, untilMs: 0 }, true);
    }
    this.#options.path.batchEnd();
  }

  /** The JSON of the accessor; undefined if the alert has to wait for it. */
  readonly accessorOf = (access: Access, ownerId: string): string | undefined => {
    const { index, counts } = this.#options;
    const found = index.find(access);
    if (found.isUnknown) {
      if (this.#queue !== undefined && !this.#isStranger(access.cgroup)) return undefined;
      counts.unknownAccessors++;
    }
    return accessorJson(found, ownerId);
  };

  readonly alert: AlertSink = (line, callback, id, access, planned, accessor) => {
    const { path, spool, waitMs = defaultWaitMs } = this.#options;
    if (this.#queue === undefined || (accessor !== undefined && this.#waiting.length === 0)) {
      path.alert(line, callback, id, access, planned);
      return;
    }
    const { mountNamespace, cgroup, timeNs } = access;
    const { policyNamespace = '', policyName, pod } = planned.context;
    const held: Held = {
      ...{ line, callback, timeNs: String(timeNs) },
      ...(accessor === undefined && { by: { mountNamespace, cgroup, ownerId: pod.container.id } }),
      policy: {
        ...(planned.callbackSecret !== undefined && { callbackSecret: planned.callbackSecret }),
        context: { policyNamespace, policyName },
      },
    };
    const record = spool?.encode(id, JSON.stringify(held));
    const isKept = record !== undefined && spool?.append(this.#queue, record) === undefined;
    this.#waiting.push({ ...held, id, untilMs: performance.now() + waitMs });
    // An alert that could not be stored must not wait.
    if (!isKept || this.#waiting.length > maxWaiting) this.#passAll(isKept);
    else if (this.#waiting.length === 1) this.#arm();
  };

  #isStranger(cgroup: string): boolean {
    return (this.#strangers.get(cgroup) ?? 0) > performance.now();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const [first] = this.#waiting;
    if (first === undefined) return;
    this.#timer = setTimeout(() => this.#passKnown(), Math.max(0, first.untilMs - performance.now()));
    this.#timer.unref();
  }

  #passKnown(): void {
    let passed = 0;
    for (const held of this.#waiting) {
      if (!this.#pass(held, false)) break;
      passed++;
    }
    this.#passed(passed, passed);
    this.#arm();
  }

  /** @param isKept Whether the last alert is in the queue on disk. */
  #passAll(isKept: boolean): void {
    for (const held of this.#waiting) this.#pass(held, true);
    this.#passed(this.#waiting.length, this.#waiting.length - (isKept ? 0 : 1));
  }

  #passed(count: number, onDisk: number): void {
    this.#waiting = this.#waiting.slice(count);
    this.#owed += onDisk;
    this.#settle();
    if (count > 0) this.#options.path.batchEnd();
  }

  /** Removes the records of alerts that were passed on. The queue requires that records are read before they are removed. */
  #settle(): void {
    try {
      while (this.#owed > 0) {
        const read = this.#queue?.heads(this.#owed, maxReadBytes).length ?? 0;
        if (read === 0) return;
        this.#queue?.pass(read);
        this.#owed -= read;
      }
    } catch {
      // Too many files are open; the next attempt may succeed. If the process ends before, the next one reports these
      // alerts again.
    }
  }

  /**
   * Passes an alert on. `isLast`: even if its container is still unknown. @returns false if the alert has to wait for
   * its container.
   */
  #pass({ line, by, callback, id, timeNs, policy, untilMs }: Waiting, isLast: boolean): boolean {
    const { index, path, counts } = this.#options;
    let whole = line;
    if (by !== undefined) {
      const found = index.find(by);
      if (found.isUnknown) {
        const isOver = isLast || performance.now() >= untilMs || this.#isStranger(by.cgroup);
        if (!isOver) return false;
        this.#remember(by.cgroup);
        counts.unknownAccessors++;
      }
      whole = withAccessor(line, accessorJson(found, by.ownerId));
    }
    path.alert(whole, callback, id, { timeNs: BigInt(timeNs) }, policy);
    return true;
  }

  #remember(cgroup: string): void {
    if (this.#strangers.size >= maxStrangers) this.#strangers.clear();
    this.#strangers.set(cgroup, performance.now() + strangersMs);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    clearTimeout(this.#timer);
    this.#passAll(true);
  }
}
