/**
 * Files in containers, followed over time: which file a path is now, created first where that was asked for.
 *
 * All that is in a container may be hostile, and is resolved inside its root only (see lib/sensor/paths/resolve.ts).
 */
import { constants as fsConstants } from 'node:fs';
import { resolve } from 'node:path';

import { RampartError } from '../../../lib/errors/errors.ts';
import type { FileIdentity } from '../../../lib/sensor/access.ts';
import { FileLives } from '../../../lib/sensor/paths/file-lives.ts';
import {
  type Identify,
  type PathState,
  type PathTracker,
  type PathTrackerStats,
  trackPaths,
} from '../../../lib/sensor/paths/path-tracker.ts';
import { ContainerRoot } from './container-root.ts';
import { FileCreation } from './file-creation.ts';
import { type FileState, sameState, type Seen, seenOf, unseen, withMoved } from './file-state.ts';
import { MovedFiles } from './moved-files.ts';

export interface FileRequest {
  /** A directory of this machine; `/proc/PID/root` for a container's. */
  readonly root: string;
  /** With its runtime or without; '' when `root` is no container's. See ContainerRoot. */
  readonly containerId: string;
  /** As a process of the container would write it. */
  readonly path: string;
  /** Create it where nothing has its name; its parent must be there. */
  readonly create: boolean;
  /** For a file that is created. */
  readonly modeBits: number;
  /** Default: true. Otherwise it is only of interest where the path leads now. */
  readonly keepsMoved?: boolean;
}

/** A request and what came of it. Dispose it to end it; nothing is told of it any more then. */
export interface ContainerFile extends Disposable {
  readonly request: FileRequest;
  readonly state: FileState;
}

export interface ContainerFilesOptions {
  /** See PathTrackerOptions. The sensor's, so that identities are those of its records. */
  readonly identify: Identify;
  /** Called each time a state is another one, not for the first. May add and dispose requests; must not throw. */
  readonly onChange: (file: ContainerFile) => void;
  /** Paths that cannot be followed by events, e.g. when the inotify watches are used up. */
  readonly onProblem: (problem: RampartError) => void;
}

class Request implements ContainerFile {
  readonly request: FileRequest;
  readonly moved: MovedFiles<Request> | undefined;
  seen: Seen = unseen;
  state: FileState = unseen;
  place: Place | undefined;
  readonly #leave: (asked: Request, place: Place) => void;

  constructor(
    request: FileRequest,
    lives: FileLives<Request>,
    leave: (asked: Request, place: Place) => void,
  ) {
    this.request = request;
    this.moved = request.keepsMoved === false ? undefined : new MovedFiles(lives, this);
    this.#leave = leave;
  }

  [Symbol.dispose](): void {
    this.moved?.[Symbol.dispose]();
    if (this.place !== undefined) this.#leave(this, this.place);
    this.place = undefined;
  }
}

/** A root, as long as something in it is followed. */
interface Root {
  readonly root: ContainerRoot;
  readonly places: Map<string, Place>;
}

/** One path in one root, for all who asked for it. */
interface Place {
  readonly root: Root;
  readonly path: string;
  readonly requests: Set<Request>;
  state: PathState | undefined;
  /** Once it was asked for. */
  creation: FileCreation | undefined;
}

/** Follows files in containers until it is disposed; keeps the process alive until then. */
export class ContainerFiles implements Disposable {
  readonly #options: ContainerFilesOptions;
  readonly #tracker: PathTracker;
  readonly #roots = new Map<string, Root>();
  readonly #lives: FileLives<Request>;
  /** By their path as written: those whose process was there, as of the running {@link ContainerFiles.together}. */
  #seen: Map<string, Root> | undefined;
  /** Files that were moved and that there was no room for. */
  droppedMoved = 0;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: ContainerFilesOptions) {
    this.#options = options;
    const { onProblem } = options;
    this.#lives = new FileLives({ onEnd: (asked, file) => this.#movedEnded(asked, file), onProblem });
    using failed = new DisposableStack();
    failed.use(this.#lives);
    this.#tracker = trackPaths({
      identify: (fd, type) => {
        const identity = options.identify(fd, type);
        if (type === fsConstants.S_IFREG) this.#lives.follow(fd, identity);
        return identity;
      },
      onChange: ({ root, path }, now) => {
        const place = this.#roots.get(root)?.places.get(path);
        if (place !== undefined) {
          place.state = now;
          this.#settle(place);
        }
        this.#lives.sweep();
      },
      onProblem,
    });
    failed.move();
  }

  get stats(): PathTrackerStats & { readonly files: number } {
    return { ...this.#tracker.stats, files: this.#lives.size };
  }

  /** For many {@link ContainerFiles.add} in `action`: a root is opened once for all of them. */
  together(action: () => void): void {
    this.#tracker.together(() => {
      this.#seen = new Map();
      try {
        action();
      } finally {
        this.#seen = undefined;
      }
    });
  }

  /**
   * Follows a file. Several may ask for the same one; the first that wants it created says with which mode. A root that
   * another container had before is taken over: what was asked for there is refused from then on.
   *
   * @param before - One for the same trap that this takes the place of: what was moved there stays watched.
   * @returns its state, kept current; a root that cannot be opened or is of another process is a refusal, not an error.
   * @throws {RampartError} `INPUT` for a path that is empty or has a NUL; `DISPOSED`.
   */
  add(request: FileRequest, before?: ContainerFile): ContainerFile {
    const asked = new Request(request, this.#lives, this.#leave);
    const root = this.#rootOf(request);
    if (root instanceof RampartError) {
      asked.state = { kind: 'refused', why: root.message };
      return asked;
    }
    using unfinished = new DisposableStack();
    unfinished.use(asked);
    const known = root.places.get(request.path);
    const place = known ?? newPlace(root, request.path);
    if (before instanceof Request && before.moved && known !== undefined && before.place === known)
      asked.moved?.inherit(before.moved);
    asked.place = place;
    place.requests.add(asked);
    if (known === undefined) {
      root.places.set(request.path, place);
      this.#tracker.add({ root: root.root.path, path: request.path });
      // The first makes the tracker hold the process. While the one that is held here is there, its number is no
      // other's: the tracker holds the same.
      if (root.places.size === 1 && !root.root.alive) this.#evict(root);
    } else this.#settle(place);
    unfinished.move();
    return asked;
  }

  #rootOf({ root: asWritten, containerId }: FileRequest): Root | RampartError {
    const seen = this.#seen?.get(asWritten);
    if (seen?.root.containerId === containerId && this.#roots.get(seen.root.path) === seen) return seen;
    const path = resolve(asWritten);
    const known = this.#roots.get(path);
    if (known !== undefined) {
      if (known.root.containerId === containerId && known.root.alive) {
        this.#seen?.set(asWritten, known);
        return known;
      }
      // The number of its process is another container's now, or soon will be.
      this.#evict(known);
    }
    try {
      const root: Root = { root: new ContainerRoot(path, containerId), places: new Map() };
      this.#roots.set(path, root);
      return root;
    } catch (error) {
      if (error instanceof RampartError) return error;
      throw error;
    }
  }

  #evict(root: Root): void {
    for (const place of root.places.values()) {
      for (const asked of [...place.requests]) {
        asked[Symbol.dispose]();
        this.#tell(asked, { kind: 'refused', why: 'the container is gone' });
      }
    }
  }

  readonly #leave = (asked: Request, place: Place): void => {
    const { root, path } = place;
    place.requests.delete(asked);
    if (place.requests.size > 0 || root.places.get(path) !== place) return;
    place.creation?.[Symbol.dispose]();
    root.places.delete(path);
    this.#tracker.remove({ root: root.root.path, path });
    if (root.places.size > 0) return;
    root.root[Symbol.dispose]();
    if (this.#roots.get(root.root.path) === root) this.#roots.delete(root.root.path);
  };

  /** Creates the file where it is missing, and tells what is to be told. */
  #settle(place: Place): void {
    const { state } = place;
    if (state === undefined) return;
    let next: Seen;
    if (state.kind === 'file') next = seenOf(state);
    else if (state.kind === 'unusable') next = { kind: 'refused', why: state.error.message };
    else {
      const creating = [...place.requests].find(({ request }) => request.create)?.request;
      const failure = creating && this.#create(place, creating.modeBits);
      const why = `${state.missing} does not exist`;
      next = { kind: 'waiting', why: failure === undefined ? why : `${why}; ${failure}` };
    }
    const isOver = next.kind !== 'watched' && !place.root.root.alive;
    for (const asked of [...place.requests]) {
      // All that it had ends with the container, wherever it is.
      if (isOver) asked.moved?.[Symbol.dispose]();
      else
        this.droppedMoved +=
          asked.moved?.pathLeadsTo(next.kind === 'watched' ? next.identity : undefined) ?? 0;
      this.#tell(asked, next);
    }
  }

  #create(place: Place, modeBits: number): string | undefined {
    place.creation ??= new FileCreation(place.root.root, place.path, () => this.#settle(place));
    return place.creation.attempt(modeBits);
  }

  #movedEnded(asked: Request, file: FileIdentity): void {
    if (asked.moved?.ended(file)) this.#tell(asked, asked.seen);
  }

  #tell(asked: Request, seen: Seen): void {
    const before = asked.state;
    asked.seen = seen;
    const next = withMoved(seen, asked.moved?.list);
    asked.state = next;
    if (before === unseen || sameState(before, next)) return;
    this.#options.onChange(asked);
  }

  [Symbol.dispose](): void {
    for (const { places } of [...this.#roots.values()]) {
      for (const { requests } of [...places.values()]) {
        for (const asked of [...requests]) asked[Symbol.dispose]();
      }
    }
    this.#tracker[Symbol.dispose]();
    this.#lives[Symbol.dispose]();
  }
}

function newPlace(root: Root, path: string): Place {
  return { root, path, requests: new Set(), state: undefined, creation: undefined };
}
