/** The symbolic links of followed directories: each may lead to a file anywhere in the root. */
import { constants as fsConstants } from 'node:fs';

import type { DirectoryLink, DirectoryNode } from './directory-tree.ts';
import type { PathState, PathTrackerOptions } from './path-state.ts';
import { type PathTracker, trackPaths } from './path-tracker.ts';

interface FollowedLink {
  readonly node: DirectoryNode;
  readonly name: string;
  readonly link: DirectoryLink;
}

interface DirectoryLinksOptions extends Pick<PathTrackerOptions, 'identify' | 'onProblem'> {
  /** Called after links got another target and their trees were updated; not for the targets that {@link DirectoryLinks.follow} finds. */
  readonly onChange: (nodes: readonly DirectoryNode[]) => void;
}

export class DirectoryLinks implements Disposable {
  readonly #tracker: PathTracker;
  /** Keyed by root and path. Several trees may have the same link. */
  readonly #followed = new Map<string, Set<FollowedLink>>();

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor({ onChange, ...options }: DirectoryLinksOptions) {
    this.#tracker = trackPaths({
      ...options,
      onChange: ({ root, path }, now, before) => {
        const all = [...(this.#followed.get(keyOf(root, path)) ?? [])];
        for (const followed of all) setLinked(followed, now);
        if (before !== undefined) onChange(all.map(({ node }) => node));
      },
    });
  }

  /** See PathTrackerStats. */
  get overflows(): number {
    return this.#tracker.stats.overflows;
  }

  /** Follows a link from now on, and puts the file that it leads to into its tree. */
  follow(root: string, followed: FollowedLink): void {
    const { path } = followed.link;
    const key = keyOf(root, path);
    const all = this.#followed.get(key);
    if (all === undefined) this.#followed.set(key, new Set([followed]));
    else all.add(followed);
    setLinked(followed, this.#tracker.add({ root, path }));
  }

  forget(root: string, link: DirectoryLink): void {
    const key = keyOf(root, link.path);
    const all = this.#followed.get(key);
    for (const followed of all ?? []) if (followed.link === link) all?.delete(followed);
    if (all === undefined || all.size > 0) return;
    this.#followed.delete(key);
    this.#tracker.remove({ root, path: link.path });
  }

  [Symbol.dispose](): void {
    this.#tracker[Symbol.dispose]();
  }
}

function setLinked({ node, name, link }: FollowedLink, now: PathState): void {
  const isFile = now.kind === 'file' && now.type === fsConstants.S_IFREG;
  node.tree.setLinked(node, name, link, isFile ? now.identity : undefined);
}

function keyOf(root: string, path: string): string {
  return `${root}\0${path}`;
}
