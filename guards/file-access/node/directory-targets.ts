/** Watches the files of planned directories: adds each to the sensor's targets when it appears, and removes it when it is gone. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type {
  DirectoryChanges,
  DirectoryFile,
  DirectoryNode,
} from '../../../lib/sensor/paths/directory-tree.ts';
import type { Sensor } from '../../../lib/sensor/sensor.ts';
import type { PlannedAlert } from './loader-plan.ts';
import { ArrivalWatcher, DirectoryWatcher, EntryWatcher, type PlanWatcher } from './plan-watcher.ts';

interface Planned extends Disposable {
  readonly watcher: DirectoryWatcher;
}

interface DirectoryTargetsOptions {
  readonly sensor: () => Sensor<PlanWatcher>;
  /** Called when files appeared for which there was no room. */
  readonly onRefused: () => void;
}

export class DirectoryTargets implements Disposable {
  readonly #options: DirectoryTargetsOptions;
  /** Keyed by the place of the planned alert, see placeOf. */
  readonly #planned = new Map<string, Planned>();

  constructor(options: DirectoryTargetsOptions) {
    this.#options = options;
  }

  /** Number of watched files. */
  get size(): number {
    let all = 0;
    for (const { watcher } of this.#planned.values()) all += watcher.files.size;
    return all;
  }

  has(place: string): boolean {
    return this.#planned.has(place);
  }

  /** Directories for some of whose files there is no room. */
  *refused(): Iterable<{ readonly planned: PlannedAlert; readonly error: RampartError }> {
    for (const { watcher } of this.#planned.values()) {
      const { planned, refused, files } = watcher;
      if (refused.size === 0) continue;
      const error = new RampartError(errorCodes.LIMIT, {
        what: `cannot watch ${refused.size} of the ${refused.size + files.size} files of ${planned.context.path}`,
        why: `the limit of ${this.#options.sensor().targets.capacity} watched files is reached`,
        next: 'Let traps match fewer files',
      });
      yield { planned, error };
    }
  }

  plans(): PlannedAlert[] {
    return [...this.#planned.values()].map(({ watcher }) => watcher.planned);
  }

  /** Watches the files of a directory: those it has now, and those that appear later. */
  add(place: string, planned: PlannedAlert): void {
    const { directory } = planned;
    if (directory === undefined || this.#planned.has(place)) return;
    const watcher = new DirectoryWatcher(planned);
    const subscription = directory.subscribe((changes) => this.#change(watcher, changes));
    this.#planned.set(place, { watcher, [Symbol.dispose]: () => subscription[Symbol.dispose]() });
    this.#expect(watcher, directory.directories());
    this.#put(watcher, [...directory.files()]);
  }

  /** Gives the same directory another planned alert. */
  replace(from: string, to: string, planned: PlannedAlert): void {
    const one = this.#planned.get(from);
    if (one === undefined) return;
    const { watcher } = one;
    const before = watcher.planned.filter;
    watcher.become(planned);
    this.#planned.delete(from);
    this.#planned.set(to, one);
    if (before === planned.filter) return;
    const targets = this.#options.sensor().targets;
    for (const { identity } of watcher.files.keys()) targets.refresh(identity);
    for (const { identity } of watcher.arrivals.keys()) this.#options.sensor().refreshExpected(identity);
  }

  remove(place: string): void {
    const one = this.#planned.get(place);
    if (one === undefined) return;
    this.#planned.delete(place);
    one[Symbol.dispose]();
    this.#expectNone(one.watcher, [...one.watcher.arrivals.keys()]);
    this.#drop(one.watcher, one.watcher.files.keys());
  }

  /** Retries the files for which there was no room. */
  retry(): void {
    for (const { watcher } of this.#planned.values())
      if (watcher.refused.size > 0) this.#put(watcher, [...watcher.refused]);
  }

  /** Stops watching one file, to make room for one that a trap names itself. Returns whether there was one. */
  giveUpOne(): boolean {
    for (const { watcher } of this.#planned.values()) {
      const [file] = watcher.files.keys();
      if (file === undefined) continue;
      this.#drop(watcher, [file]);
      watcher.refused.add(file);
      return true;
    }
    return false;
  }

  #change(watcher: DirectoryWatcher, changes: DirectoryChanges): void {
    const { added, removed, addedDirectories, removedDirectories } = changes;
    this.#expect(watcher, addedDirectories);
    this.#expectNone(watcher, removedDirectories);
    const failed = this.#put(watcher, added);
    this.#drop(watcher, removed);
    if (failed) this.#options.onRefused();
  }

  /** Lets the sensor watch new files in these directories even before this class learns of them. */
  #expect(watcher: DirectoryWatcher, directories: Iterable<DirectoryNode>): void {
    for (const node of directories) {
      const arrivals = new ArrivalWatcher(watcher, node);
      if (this.#options.sensor().expectFilesIn(node.identity, arrivals)) watcher.arrivals.set(node, arrivals);
    }
  }

  #expectNone(watcher: DirectoryWatcher, directories: Iterable<DirectoryNode>): void {
    for (const node of directories) {
      const arrivals = watcher.arrivals.get(node);
      if (arrivals === undefined) continue;
      watcher.arrivals.delete(node);
      this.#options.sensor().expectNoFilesIn(node.identity, arrivals);
    }
  }

  /** Watches the files. Returns whether there was no room for some. */
  #put(watcher: DirectoryWatcher, files: readonly DirectoryFile[]): boolean {
    const wanted = files.map((file) => ({
      identity: file.identity,
      watcher: new EntryWatcher(watcher, file),
    }));
    const failures = this.#options.sensor().targets.addAll(wanted);
    let failed = false;
    for (const [at, file] of files.entries()) {
      const failure = failures[at];
      if (failure === undefined) {
        watcher.refused.delete(file);
        watcher.files.set(file, wanted[at]!.watcher);
      } else {
        watcher.refused.add(file);
        failed = true;
      }
    }
    return failed;
  }

  #drop(watcher: DirectoryWatcher, files: Iterable<DirectoryFile>): void {
    const targets = this.#options.sensor().targets;
    for (const file of files) {
      watcher.refused.delete(file);
      const entry = watcher.files.get(file);
      if (entry === undefined) continue;
      watcher.files.delete(file);
      targets.delete(file.identity, entry);
    }
  }

  [Symbol.dispose](): void {
    for (const one of this.#planned.values()) one[Symbol.dispose]();
    this.#planned.clear();
  }
}
