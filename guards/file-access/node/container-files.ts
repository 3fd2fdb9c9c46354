/**
 * Follows files in containers over time: which file a path leads to now. Creates the file first if that was requested.
 *
 * Everything in a container may be hostile: paths are resolved inside its root only (see lib/sensor/paths/resolve.ts).
 */
import { constants as fsConstants } from 'node:fs';

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
import type { ContainerRoots, SharedRoot } from './container-roots.ts';
import { FileCreation } from './file-creation.ts';
import { type FileState, sameState, type Seen, seenOf, unseen, withMoved } from './file-state.ts';
import { MovedFiles } from './moved-files.ts';

export interface FileRequest {
  /** A directory of this machine; `/proc/PID/root` for a container's. */
  readonly root: string;
  /** With its runtime or without; '' when `root` is not a container's. See ContainerRoot. */
  readonly containerId: string;
  /** As a process of the container would write it. */
  readonly path: string;
  /** Create the file if nothing has its name; its parent must exist. */
  readonly create: boolean;
  /** Mode of the file, if it is created. */
  readonly modeBits: number;
  /** Whether files that are moved away from the path stay watched. Default: true. */
  readonly keepsMoved?: boolean;
}

/** A request and its result. Dispose it to end the request; it reports nothing afterwards. */
export interface ContainerFile extends Disposable {
  readonly request: FileRequest;
  readonly state: FileState;
}

export interface ContainerFilesOptions {
  readonly roots: ContainerRoots;
  /** See PathTrackerOptions. The sensor's own, so that identities equal those in its records. */
  readonly identify: Identify;
  /** Called each time a state changes, not for the first state. May add and dispose requests; must not throw. */
  readonly onChange: (file: ContainerFile) => void;
  /** Called for paths that cannot be followed by events, e.g. when the inotify watches are used up. */
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

/** One path in one root, shared by all who follow it. */
interface Place {
  readonly root: SharedRoot;
  readonly path: string;
  readonly requests: Set<Request>;
  state: PathState | undefined;
  /** Set once the creation of the file was requested. */
  creation: FileCreation | undefined;
}

/** Follows files in containers until it is disposed; keeps the process alive until then. */
export class ContainerFiles implements Disposable {
  readonly #options: ContainerFilesOptions;
  readonly #tracker: PathTracker;
  readonly #placesIn = new Map<SharedRoot, Map<string, Place>>();
  readonly #evicted: Disposable;
  readonly #lives: FileLives<Request>;
  /** Moved files that were dropped for lack of room. */
  droppedMoved = 0;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: ContainerFilesOptions) {
    this.#options = options;
    const { onProblem, roots } = options;
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
        const shared = roots.at(root);
        const place = shared && this.#placesIn.get(shared)?.get(path);
        if (place !== undefined) {
          place.state = now;
          this.#settle(place);
        }
        this.#lives.sweep();
      },
      onProblem,
    });
    this.#evicted = roots.onEvicted((root) => this.#evict(root));
    failed.move();
  }

  get stats(): PathTrackerStats & { readonly files: number } {
    return { ...this.#tracker.stats, files: this.#lives.size };
  }

  /** Opens each root only once for all calls of {@link ContainerFiles.add} within `action`. */
  together(action: () => void): void {
    this.#options.roots.together(() => this.#tracker.together(action));
  }

  /**
   * Follows a file. Several requests may be for the same file; the first that wants it created decides the mode. If
   * another container had this root before, everything that was followed there for it is refused from then on.
   *
   * @param before - The request of the same trap that this one replaces: its moved files stay watched.
   * @returns its state, kept current; a root that cannot be opened or belongs to another process is a refusal, not an
   *   error.
   * @throws {RampartError} `INPUT` for a path that is empty or has a NUL; `DISPOSED`.
   */
  add(request: FileRequest, before?: ContainerFile): ContainerFile {
    const asked = new Request(request, this.#lives, this.#leave);
    const { roots } = this.#options;
    const root = roots.take(request);
    if (root instanceof RampartError) {
      asked.state = { kind: 'refused', why: root.message };
      return asked;
    }
    using unfinished = new DisposableStack();
    unfinished.use(asked);
    const places = this.#placesIn.get(root) ?? new Map<string, Place>();
    this.#placesIn.set(root, places);
    const known = places.get(request.path);
    const place = known ?? newPlace(root, request.path);
    if (before instanceof Request && before.moved && known !== undefined && before.place === known)
      asked.moved?.inherit(before.moved);
    asked.place = place;
    place.requests.add(asked);
    if (known === undefined) {
      places.set(request.path, place);
      this.#tracker.add({ root: root.root.path, path: request.path });
      // For the first path of a root, the tracker has opened the root by its path: check that it is still the same process.
      if (places.size === 1) roots.verify(root);
    } else this.#settle(place);
    unfinished.move();
    return asked;
  }

  #evict(root: SharedRoot): void {
    for (const { requests } of [...(this.#placesIn.get(root)?.values() ?? [])]) {
      for (const asked of [...requests]) {
        asked[Symbol.dispose]();
        this.#notify(asked, { kind: 'refused', why: 'the container is gone' });
      }
    }
  }

  readonly #leave = (asked: Request, place: Place): void => {
    const { root, requests } = place;
    if (requests.delete(asked) && requests.size === 0) this.#end(place);
    this.#options.roots.release(root);
  };

  #end(place: Place): void {
    const { root, path, creation } = place;
    const places = this.#placesIn.get(root);
    creation?.[Symbol.dispose]();
    places?.delete(path);
    if (places?.size === 0) this.#placesIn.delete(root);
    this.#tracker.remove({ root: root.root.path, path });
  }

  /** Creates the file if it is missing, and reports the changes. */
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
      // When a container has ended, its moved files are no longer followed, wherever they are.
      if (isOver) asked.moved?.[Symbol.dispose]();
      else
        this.droppedMoved +=
          asked.moved?.pathLeadsTo(next.kind === 'watched' ? next.identity : undefined) ?? 0;
      this.#notify(asked, next);
    }
  }

  #create(place: Place, modeBits: number): string | undefined {
    place.creation ??= new FileCreation(place.root.root, place.path, () => this.#settle(place));
    return place.creation.attempt(modeBits);
  }

  #movedEnded(asked: Request, file: FileIdentity): void {
    if (asked.moved?.ended(file)) this.#notify(asked, asked.seen);
  }

  #notify(asked: Request, seen: Seen): void {
    const before = asked.state;
    asked.seen = seen;
    const next = withMoved(seen, asked.moved?.list);
    asked.state = next;
    if (before === unseen || sameState(before, next)) return;
    this.#options.onChange(asked);
  }

  [Symbol.dispose](): void {
    this.#evicted[Symbol.dispose]();
    for (const places of [...this.#placesIn.values()]) {
      for (const { requests } of [...places.values()]) {
        for (const asked of [...requests]) asked[Symbol.dispose]();
      }
    }
    this.#tracker[Symbol.dispose]();
    this.#lives[Symbol.dispose]();
  }
}

function newPlace(root: SharedRoot, path: string): Place {
  return { root, path, requests: new Set(), state: undefined, creation: undefined };
}
