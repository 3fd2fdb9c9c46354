/** The sensor of this kernel, with the plan as input: an access to a file raises one alert for each planned alert on it. */
import { randomBytes } from 'node:crypto';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type Access, type FileIdentity, fileKey, sameFile } from '../../../lib/sensor/access.ts';
import type { SensorModeName } from '../../../lib/sensor/modes.ts';
import type { SensorOptions, SensorStats } from '../../../lib/sensor/options.ts';
import { Sensor } from '../../../lib/sensor/sensor.ts';
import { raisesAlert } from '../process-filter.ts';
import { DirectoryTargets } from './directory-targets.ts';
import { isBeside, type PlanChanges, type PlannedAlert } from './loader-plan.ts';
import { FileWatcher, type PlanWatcher } from './plan-watcher.ts';

/**
 * Receives each alert. Called while the kernel's ring is read: it must neither block nor throw.
 *
 * @param line - The JSON, without a newline.
 * @param callback - The URL to send it to as well, or empty.
 * @param id - Unique across runs and machines: it identifies an alert that is delivered twice. At most 40 ASCII
 *   characters.
 * @param access - The access that the line reports; a window on kernel memory, valid during the call only.
 * @param planned - The planned alert that raised it.
 * @param accessor - The JSON of the accessor, which is in the line; undefined if the line has none.
 */
export type AlertSink = (
  line: string,
  callback: string,
  id: string,
  access: Access,
  planned: PlannedAlert,
  accessor: string | undefined,
) => void;

export interface LocalSensorOptions extends Omit<SensorOptions<PlanWatcher>, 'onAccess'> {
  readonly onAlert: AlertSink;
  /**
   * Returns the JSON of the accessor, for a file of the container `ownerId` (see accessorJson). Without it, alerts name
   * no accessor.
   */
  readonly accessorOf?: (access: Access, ownerId: string) => string | undefined;
  /** Whether the process is in the container `ownerId` or, for a file of the node itself, in no container. Default: always. */
  readonly isAtHome?: (access: Access, ownerId: string) => boolean;
  /** Called when new files in a planned directory found no room, see {@link LocalSensor.refused}. */
  readonly onRefused?: () => void;
}

/** A file that could not be watched, with the reason: usually, the capacity is reached. */
export interface RefusedAlert {
  readonly planned: PlannedAlert;
  readonly error: RampartError;
}

/** The agent's interface to the sensor. */
export type PlannedSensor = Disposable &
  Pick<
    LocalSensor,
    | 'applyChanges'
    | 'attach'
    | 'detach'
    | 'directoryFiles'
    | 'filtered'
    | 'identify'
    | 'mode'
    | 'moved'
    | 'refused'
    | 'size'
    | 'stats'
  >;

/** A sensor that watches the files of the plan. Disposing it first delivers what is still in the ring buffer, then stops. */
export class LocalSensor implements Disposable {
  #sensor: Sensor<PlanWatcher>;
  readonly #options: SensorOptions<PlanWatcher>;
  /** Active watchers, keyed by {@link placeOf} and not by name: two planned alerts may exchange their files. */
  readonly #watchers = new Map<string, FileWatcher>();
  readonly #directories: DirectoryTargets;
  readonly #refused = new Map<string, RefusedAlert>();
  /**
   * How many of the watchers are for a moved file besides the current file of a KiveData (`#beside`), and how many are
   * for moved files at all (`#moved`). Metrics read both often, so they are not counted each time.
   */
  #beside = 0;
  #moved = 0;
  /** Accesses that raised no alert because of the process. */
  filtered = 0;
  #final: SensorStats | undefined;

  /** @throws {RampartError} see Sensor.open. */
  constructor({ onAlert, accessorOf, isAtHome, onRefused, ...options }: LocalSensorOptions) {
    // An alert's id is the number of the access after a random prefix of 96 bits for this run.
    const run = randomBytes(12).toString('base64url');
    let number = 0;
    this.#options = {
      ...options,
      onAccess: (access, watcher) => {
        const { context, processes } = watcher.planned;
        const owner = context.pod.container.id;
        if (
          processes !== undefined &&
          !raisesAlert(processes, access.executableFile, () => isAtHome?.(access, owner) ?? true)
        ) {
          this.filtered++;
          return;
        }
        const accessor = accessorOf?.(access, owner);
        const line = watcher.encoderFor(access).encode(access, accessor);
        const id = `${run}-${(number++).toString(36)}`;
        onAlert(line, context.callback, id, access, watcher.planned, accessor);
      },
    };
    this.#sensor = Sensor.open(this.#options);
    this.#directories = new DirectoryTargets({
      sensor: () => this.sensor,
      onRefused: () => onRefused?.(),
    });
  }

  get sensor(): Sensor<PlanWatcher> {
    return this.#sensor;
  }

  get mode(): SensorModeName {
    return this.#sensor.mode;
  }

  /**
   * Starts to see accesses. Call it while no file is watched.
   *
   * @throws {RampartError} see Sensor.open.
   */
  attach(): void {
    try {
      this.#sensor.attach();
    } catch (error) {
      if (!(error instanceof RampartError) || error.code !== errorCodes.EBPF) throw error;
      // The loaded programs cannot be attached: those of the next mode may be.
      const other = Sensor.open({ ...this.#options, attached: true });
      this.#sensor[Symbol.dispose]();
      this.#sensor = other;
    }
  }

  /** Stops seeing accesses; files are still identified. */
  detach(): void {
    this.#sensor.detach();
  }

  /** Number of planned alerts that are watched, without those of moved files; several may be for one file. */
  get size(): number {
    return this.#watchers.size - this.#beside + this.#directories.plans().length;
  }

  /** Number of watched files of planned directories. */
  get directoryFiles(): number {
    return this.#directories.size;
  }

  /** Number of watched alerts that are for moved files. */
  get moved(): number {
    return this.#moved;
  }

  /**
   * Planned but unwatched files; each call of `applyChanges` retries them. Includes a directory if there was
   * no room for all of its files.
   */
  get refused(): ReadonlyMap<string, RefusedAlert> {
    const all = new Map(this.#refused);
    for (const one of this.#directories.refused()) all.set(one.planned.name, one);
    return all;
  }

  plan(): Map<string, PlannedAlert> {
    const all = [...[...this.#watchers.values()].map(({ planned }) => planned), ...this.#directories.plans()];
    return new Map(all.map((planned) => [planned.name, planned]));
  }

  /** The identity of the file behind an O_PATH descriptor, for ContainerFiles. */
  identify(fd: number): FileIdentity {
    return this.sensor.identify(fd);
  }

  /** Counts so far; after disposal the final ones. */
  stats(): SensorStats {
    return this.#final ?? this.sensor.stats();
  }

  /**
   * Applies the changes. New files are added before old ones are removed, and an access meanwhile is reported
   * by the old alert or by its replacement, not by both. Never throws for a file that cannot be watched: it
   * is in `refused` then.
   */
  applyChanges(changes: PlanChanges): void {
    const { targets } = this.sensor;
    const waiting = new Map([...this.#refused.values()].map(({ planned }) => [placeOf(planned), planned]));
    this.#refused.clear();
    // Accesses so far are reported by the previous plan.
    if (changes.replace.length > 0) this.sensor.drain();
    for (const { from, to } of changes.replace) {
      if (this.#directories.has(placeOf(from)) && to.directory !== undefined) {
        this.#directories.replace(placeOf(from), placeOf(to), to);
        continue;
      }
      const watcher = this.#watchers.get(placeOf(from));
      if (watcher === undefined) {
        waiting.delete(placeOf(from));
        waiting.set(placeOf(to), to);
        continue;
      }
      this.#unset(placeOf(from), watcher);
      watcher.become(to);
      if (to.filter !== from.filter) targets.refresh(to.identity);
      this.#set(placeOf(to), watcher);
    }
    const going = [...changes.move.map(({ from }) => from), ...changes.remove];
    for (const planned of going) waiting.delete(placeOf(planned));
    for (const planned of changes.add) waiting.set(placeOf(planned), planned);
    for (const { to } of changes.move) waiting.set(placeOf(to), to);
    this.#putAll(waiting);
    const gone: FileIdentity[] = [];
    for (const planned of going) {
      this.#directories.remove(placeOf(planned));
      const watcher = this.#watchers.get(placeOf(planned));
      if (watcher === undefined) continue;
      targets.delete(planned.identity, watcher);
      this.#unset(placeOf(planned), watcher);
      gone.push(planned.identity);
    }
    // The removals may have made room.
    for (const [place, planned] of waiting) {
      const error = this.#put(place, planned);
      if (error !== undefined) this.#refused.set(planned.name, { planned, error });
    }
    this.#restore(gone);
    this.#directories.retry();
  }

  /** Starts watching for planned alerts and removes them from `waiting`, except those that failed. */
  #putAll(waiting: Map<string, PlannedAlert>): void {
    const added: { place: string; identity: FileIdentity; watcher: FileWatcher }[] = [];
    const directories: [string, PlannedAlert][] = [];
    for (const [place, planned] of waiting) {
      if (this.#watchers.has(place)) waiting.delete(place);
      else if (planned.directory !== undefined) directories.push([place, planned]);
      else added.push({ place, identity: planned.identity, watcher: new FileWatcher(planned) });
    }
    const failures = this.sensor.targets.addAll(added);
    for (const [at, { place, watcher }] of added.entries()) {
      if (failures[at] !== undefined) continue;
      waiting.delete(place);
      this.#set(place, watcher);
    }
    // Files that traps name themselves have priority over those of directories.
    for (const [place, planned] of directories) {
      waiting.delete(place);
      this.#directories.add(place, planned);
    }
  }

  /** Starts watching for one planned alert. Returns the error if that was refused. */
  #put(place: string, planned: PlannedAlert): RampartError | undefined {
    if (this.#watchers.has(place)) return undefined;
    const watcher = new FileWatcher(planned);
    for (;;) {
      try {
        this.sensor.targets.add(planned.identity, watcher);
      } catch (error) {
        if (!(error instanceof RampartError)) throw error;
        if (error.code === errorCodes.LIMIT && this.#directories.giveUpOne()) continue;
        return error;
      }
      this.#set(place, watcher);
      return undefined;
    }
  }

  #set(place: string, watcher: FileWatcher): void {
    this.#watchers.set(place, watcher);
    this.#count(watcher, 1);
  }

  #unset(place: string, watcher: FileWatcher): void {
    if (this.#watchers.delete(place)) this.#count(watcher, -1);
  }

  #count({ planned }: FileWatcher, by: number): void {
    if (isBeside(planned)) this.#beside += by;
    if (planned.context.moved === true) this.#moved += by;
  }

  /**
   * The kernel's map has one entry for an inode number and device. If two generations of a file were planned and the
   * removed one was in the map, this puts the remaining generation there.
   */
  #restore(gone: readonly FileIdentity[]): void {
    if (gone.length === 0) return;
    const places = new Map(gone.map((identity) => [`${identity.inode}:${identity.device}`, identity]));
    for (const watcher of this.#watchers.values()) {
      const { identity } = watcher.planned;
      const went = places.get(`${identity.inode}:${identity.device}`);
      if (went === undefined || sameFile(went, identity)) continue;
      this.sensor.targets.delete(identity, watcher);
      this.sensor.targets.add(identity, watcher);
    }
  }

  [Symbol.dispose](): void {
    this.#directories[Symbol.dispose]();
    this.#final ??= this.sensor.close();
  }
}

function placeOf({ name, identity }: PlannedAlert): string {
  return `${name} ${fileKey(identity)}`;
}
