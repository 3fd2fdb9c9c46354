/** Determines which files the sensor watches: all those in KiveData of this kernel, whichever node wrote them. One per kernel. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { done, type Result } from '../../../lib/kube/controller/controller.ts';
import { hasFinalizer, isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type AlertedFile, alertedOfData } from '../alert/alerted-file.ts';
import { type KiveData, kiveDataNamespace, kiveDataType } from '../api.ts';
import { dataHolds, type FoundOn, isInScope, nodeOf } from '../kive-data.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';
import { kernelOf } from '../policy/spellings.ts';
import {
  dataNameOf,
  isBeside,
  loaderPlan,
  type LoaderPlan,
  type PlanChanges,
  planChanges,
  type PlannedAlert,
} from './loader-plan.ts';
import { TouchedKeys } from './touched-keys.ts';

/** Files that this node found itself; see Discovery. */
export interface LocalData {
  found(name: string): AlertedFile | undefined;
  names(): Iterable<string>;
}

export interface LoaderOptions {
  readonly client: KubeClient;
  readonly on: FoundOn;
  /** A cache that has the index `kernel`. */
  readonly data: IndexedCache<KiveData>;
  readonly policyScope: PolicyScope;
  readonly local: LocalData;
  /** Keys of KiveData that are being deleted; handled by {@link Loader.reconcile}. */
  readonly queue: WorkQueue;
  /** Applies the changes; see LocalSensor.apply. */
  readonly apply: (changes: PlanChanges) => void;
  /** Called with a new planned alert. */
  readonly onPlanned: (planned: PlannedAlert) => void;
  /**
   * `attach` is called before the loader becomes active or gets its first file, `detach` when the loader is not active
   * and has no files.
   */
  readonly sensor: { attach(): void; detach(): void };
  /** Called when `active` has changed. */
  readonly onActive: () => void;
  readonly logger: Logger;
}

/** Maintains the plan of alerts while it is active. */
export class Loader implements Disposable {
  readonly #options: LoaderOptions;
  readonly #plan = new Map<string, PlannedAlert>();
  readonly #touched: TouchedKeys;
  /** Names of the planned alerts for moved files, keyed by the name of their KiveData. */
  readonly #beside = new Map<string, string[]>();
  readonly #names = new Set<string>();
  readonly #stack = new DisposableStack();
  #active = false;
  /** Whether the sensor is attached: it is also if the loader is not active but this node has directories to watch. */
  #attached = false;
  #disposed = false;

  constructor(options: LoaderOptions) {
    const { data, logger } = options;
    this.#options = options;
    this.#touched = this.#stack.use(
      new TouchedKeys({
        each: (name) => void this.#names.add(name),
        onSliceEnd: () => this.#settle(),
        onProblem: (err, name) => logger.error({ err, data: name }, 'cannot process a KiveData'),
      }),
    );
    this.#stack.use(
      data.subscribe(({ object }) => {
        const { name = '' } = object.metadata;
        // An object in the plan may have moved to another kernel, so it is examined too.
        if (this.#active && (kernelOf(object) === options.on.kernelId || this.#plan.has(name)))
          this.#touched.add(name);
      }),
    );
  }

  get active(): boolean {
    return this.#active;
  }

  /** The current plan, see {@link LoaderPlan}. */
  get plan(): LoaderPlan {
    return this.#plan;
  }

  /** Call when this node's files for these names have changed: they are watched when this returns. */
  found(names: Iterable<string>): void {
    for (const name of names) if (this.#active || this.#isOfDirectory(name)) this.#names.add(name);
    this.#settle();
  }

  /**
   * Starts or stops watching. When this returns after a stop, none of its files are in the kernel's map and no program
   * is attached, unless this node has directories to watch.
   *
   * @throws {RampartError} if the sensor cannot be attached.
   */
  setActive(active: boolean): void {
    if (this.#active === active) return;
    const { data, local, on } = this.#options;
    if (active) this.#attach();
    this.#active = active;
    this.#options.onActive();
    if (!active) {
      for (const planned of this.#plan.values()) this.#names.add(dataNameOf(planned));
      this.#settle();
      this.#names.clear();
      if (this.#plan.size === 0) this.#detach();
      return;
    }
    for (const name of local.names()) this.#touched.add(name);
    for (const key of data.keysByIndex('kernel', on.kernelId)) this.#touched.add(nameOf(key));
    this.#touched.flush();
  }

  /** Removes the finalizer of a KiveData that is being deleted and that the sensor no longer watches. */
  readonly reconcile = async (key: string, signal: AbortSignal): Promise<Result> => {
    const { client, data } = this.#options;
    const object = data.get(key);
    if (object === undefined || !this.#active || !this.#mayRelease(object)) return done;
    if (!hasFinalizer(object, dataHolds)) return done;
    await removeFinalizer(client, kiveDataType, object, dataHolds, { signal });
    return done;
  };

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.setActive(false);
    for (const name of this.#plan.keys()) this.#names.add(name);
    this.#settle();
    this.#stack.dispose();
  }

  /** Updates the plan for the names in `#names`; the rest is unchanged. */
  #settle(): void {
    if (this.#names.size === 0) return;
    const { logger } = this.#options;
    const names = [...this.#names];
    this.#names.clear();
    const before = new Map<string, PlannedAlert>();
    for (const name of names) {
      for (const one of [name, ...(this.#beside.get(name) ?? [])]) {
        const planned = this.#plan.get(one);
        if (planned !== undefined) before.set(one, planned);
      }
      this.#beside.delete(name);
    }
    // Computed for these names only, so that the cost of a change does not depend on the number of files.
    const after = loaderPlan(this.#filesOf(names), before);
    for (const name of before.keys()) if (!after.has(name)) this.#plan.delete(name);
    for (const [name, planned] of after) {
      if (isBeside(planned)) {
        const dataName = dataNameOf(planned);
        this.#beside.set(dataName, [...(this.#beside.get(dataName) ?? []), name]);
      }
      if (before.get(name) === planned) continue;
      this.#plan.set(name, planned);
      this.#options.onPlanned(planned);
    }
    try {
      if (after.size > 0) this.#attach();
      this.#options.apply(planChanges(before, after));
    } catch (err) {
      logger.error({ err }, 'cannot watch all files');
    }
    if (!this.#active) {
      if (this.#plan.size === 0) this.#detach();
      return;
    }
    // Queued only after the plan was applied: as long as the object exists in the API, its file has to be watched.
    for (const name of names) {
      const key = `${kiveDataNamespace}/${name}`;
      const object = this.#options.data.get(key);
      if (object !== undefined && this.#mayRelease(object)) this.#options.queue.add(key);
    }
  }

  /**
   * Whether the finalizer may be removed: the object belongs to this kernel, or this node wrote it. A node has one
   * kernel, whatever its KiveData say; an object that now belongs to another kernel is watched by the loader there.
   */
  #mayRelease(data: KiveData): boolean {
    const { kernelId, nodeName } = this.#options.on;
    return isDeleting(data) && (kernelOf(data) === kernelId || nodeOf(data) === nodeName);
  }

  /** This node's own files take precedence over those in the API, which may be outdated. */
  *#filesOf(names: readonly string[]): Iterable<AlertedFile> {
    const { data, local } = this.#options;
    if (this.#disposed) return;
    for (const name of names) {
      const found = local.found(name);
      if (!this.#active) {
        if (found?.directory !== undefined) yield found;
        continue;
      }
      const file = found ?? this.#ofOtherNode(data.get(`${kiveDataNamespace}/${name}`));
      if (file !== undefined) yield file;
    }
  }

  /**
   * Whether it is a directory that this node watches itself: no KiveData lists the files of a directory, so the loader
   * cannot.
   */
  #isOfDirectory(name: string): boolean {
    return this.#plan.has(name) || this.#options.local.found(name)?.directory !== undefined;
  }

  #attach(): void {
    if (!this.#attached) this.#options.sensor.attach();
    this.#attached = true;
  }

  #detach(): void {
    if (this.#attached) this.#options.sensor.detach();
    this.#attached = false;
  }

  /**
   * The file of another node's KiveData. Undefined for KiveData of this node: it finds those files itself, and deletes
   * outdated KiveData as soon as it can.
   */
  #ofOtherNode(data: KiveData | undefined): AlertedFile | undefined {
    if (data === undefined) return undefined;
    const { on, policyScope } = this.#options;
    const { kernelId, nodeName } = on;
    if (kernelOf(data) !== kernelId || nodeOf(data) === nodeName) return undefined;
    // The agent that wrote it may be gone, or be older and not know the scope.
    return isInScope(data, policyScope) ? alertedOfData(data) : undefined;
  }
}

function nameOf(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}
