/**
 * Alerts by a container that the runtime has not reported yet: its first accesses are seen before the runtime
 * was queried. Its id is known, its name and pod may be in a moment. All later alerts wait behind them, so
 * that their order stays.
 *
 * The waiting ones are in a queue on disk: the end of the process, also by kill -9, loses none of it.
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
/** A container of another runtime, e.g. Docker, is never reported. */
const strangersMs = 10_000;
const maxStrangers = 1000;
const maxWaiting = 10_000;
const maxSpoolBytes = 64 * 1024 * 1024;
const maxReadBytes = 1024 * 1024;

const queueName = { kind: 'RAMPHELD', text: 'held' };
const queueKey = '0'.repeat(32);

/** The caller disposes it. @throws {RampartError} see openSpool */
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

/** A held alert as it is stored on disk. */
interface Held {
  /** Without the accessor, unless it was known: then there is no `by`. */
  readonly line: string;
  readonly by?: Process & { readonly ownerId: string };
  readonly callback: string;
  /** Time of the access, as a decimal number. */
  readonly timeNs: string;
  readonly policy: AlertedPolicy;
}

interface Waiting extends Held {
  readonly id: string;
  readonly untilMs: number;
}

export interface HeldAlertsOptions {
  /** Without it nothing waits. */
  readonly spool: Spool | undefined;
  readonly index: ContainerIndex<AccessorJson>;
  readonly containers: Pick<ContainerSource, 'subscribe'>;
  readonly path: Pick<AlertPath, 'alert' | 'batchEnd'>;
  readonly counts: Pick<NodeCounts, 'unknownAccessors'>;
  /** Default: {@link defaultWaitMs}. */
  readonly waitMs?: number;
}

/** Disposing it passes on the waiting alerts. */
export class HeldAlerts implements Disposable {
  readonly #options: HeldAlertsOptions;
  readonly #queue: QueueLog | undefined;
  readonly #subscription: Disposable;
  #waiting: Waiting[] = [];
  /** Cgroups whose container did not come in time, and until when that is remembered. */
  readonly #strangers = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  /** How many were passed on but not yet removed from the queue. */
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
   * Passes on the held alerts of an earlier process, with the present knowledge. Call it before there are new
   * alerts.
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
    // An alert that is not on disk does not wait.
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

  /** @param isKept Whether the last of them is in the queue. */
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

  /** The queue requires that removed records have been read. */
  #settle(): void {
    try {
      while (this.#owed > 0) {
        const read = this.#queue?.heads(this.#owed, maxReadBytes).length ?? 0;
        if (read === 0) return;
        this.#queue?.pass(read);
        this.#owed -= read;
      }
    } catch {
      // Too many files are open; the next attempt may succeed. Until then, another process would report these
      // again.
    }
  }

  /** @returns whether it went on; it waits only where `isLast` says nothing else. */
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
