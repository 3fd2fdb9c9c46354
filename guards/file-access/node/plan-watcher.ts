/** The sensor's watchers of planned alerts. */
import { type Access, everyAccess } from '../../../lib/sensor/access.ts';
import type { DirectoryFile, DirectoryNode } from '../../../lib/sensor/paths/directory-tree.ts';
import type { Watcher } from '../../../lib/sensor/targets.ts';
import { AlertEncoder } from '../alert/alert.ts';
import type { PlannedAlert } from './loader-plan.ts';

/**
 * Maximum number of encoders for one directory, one for each file. Each takes some kB, so a process that reads all files of a
 * directory must not make the agent keep one for every file.
 */
const MAX_ENCODERS = 256;

export interface PlanWatcher extends Watcher {
  readonly planned: PlannedAlert;
  encoderFor(access: Access): AlertEncoder;
}

/** Watcher of one file. Its encoder is created on first use: most files are never accessed. */
export class FileWatcher implements PlanWatcher {
  planned: PlannedAlert;
  #encoder: AlertEncoder | undefined;

  constructor(planned: PlannedAlert) {
    this.planned = planned;
  }

  get filter(): number {
    return this.planned.filter ?? everyAccess;
  }

  encoderFor(): AlertEncoder {
    return (this.#encoder ??= new AlertEncoder(this.planned.context));
  }

  /** From now on, raises the alert that is planned here. */
  become(planned: PlannedAlert): void {
    this.planned = planned;
    this.#encoder = undefined;
  }
}

/** Watcher of the files of one directory. */
export class DirectoryWatcher {
  planned: PlannedAlert;
  /** Watched files, and those for which there was no room. */
  readonly files = new Map<DirectoryFile, EntryWatcher>();
  readonly refused = new Set<DirectoryFile>();
  /** Directories in which new files may appear. */
  readonly arrivals = new Map<DirectoryNode, ArrivalWatcher>();
  readonly #encoders = new Map<string, AlertEncoder>();

  constructor(planned: PlannedAlert) {
    this.planned = planned;
  }

  /** From now on, raises the alert that is planned here. */
  become(planned: PlannedAlert): void {
    this.planned = planned;
    this.#encoders.clear();
  }

  encoderOf(path: string): AlertEncoder {
    let encoder = this.#encoders.get(path);
    if (encoder === undefined) {
      const [first] = this.#encoders.keys();
      if (first !== undefined && this.#encoders.size >= MAX_ENCODERS) this.#encoders.delete(first);
      encoder = new AlertEncoder({ ...this.planned.context, file: path });
      this.#encoders.set(path, encoder);
    }
    return encoder;
  }
}

/** Watcher of one file of a directory. */
export class EntryWatcher implements PlanWatcher {
  readonly #directory: DirectoryWatcher;
  readonly #file: DirectoryFile;

  constructor(directory: DirectoryWatcher, file: DirectoryFile) {
    this.#directory = directory;
    this.#file = file;
  }

  get planned(): PlannedAlert {
    return this.#directory.planned;
  }

  get filter(): number {
    return this.planned.filter ?? everyAccess;
  }

  /** Not kept for the watcher: its file may have been renamed. */
  encoderFor(): AlertEncoder {
    return this.#directory.encoderOf(this.#file.path);
  }
}

/** Watches new files in a directory, until each has a watcher of its own. */
export class ArrivalWatcher implements PlanWatcher {
  readonly #directory: DirectoryWatcher;
  readonly #node: DirectoryNode;

  constructor(directory: DirectoryWatcher, node: DirectoryNode) {
    this.#directory = directory;
    this.#node = node;
  }

  get planned(): PlannedAlert {
    return this.#directory.planned;
  }

  get filter(): number {
    return this.planned.filter ?? everyAccess;
  }

  /** The sensor reports the name of the file with each access. */
  encoderFor(access: Access): AlertEncoder {
    return this.#directory.encoderOf(this.#node.pathOf(access));
  }
}
