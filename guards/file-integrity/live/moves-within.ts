/**
 * Files that may be renamed within their directory (attribute `I`), as when logs are rotated. A difference of such a
 * file can only be judged together with the other differences in its directory.
 */
import { readdir } from 'node:fs/promises';

import { setOf } from '../model/attributes.ts';
import { changedAttributes } from '../compare/changed-attributes.ts';
import type { ByteString } from '../model/entry.ts';
import { withoutPrefix } from '../scan/scan-path.ts';
import { directoryOf, type Selection } from '../aide-conf/selection.ts';
import type { Recheck } from './recheck.ts';
import type { LiveJob } from './live-job.ts';

/** A directory with more names is not compared as a whole: each of its paths is compared alone. */
const maxNames = 1000;
/** Maximum number of directories whose differing paths are kept; before one more is added, the paths of all are dropped. */
const maxDirectories = 1000;
const followsInode = setOf('I');

export class MovesWithin {
  readonly #job: Pick<LiveJob, 'baseline' | 'root'>;
  readonly #selection: Selection;
  readonly #isUsed: boolean;
  /** Differing paths of directories that were compared as a whole, keyed by directory. */
  readonly #differing = new Map<ByteString, Set<ByteString>>();

  constructor(job: Pick<LiveJob, 'baseline' | 'root'>, selection: Selection) {
    this.#job = job;
    this.#selection = selection;
    this.#isUsed = (job.baseline.counts.attributes & followsInode) !== 0;
  }

  concerns(path: ByteString): boolean {
    if (!this.#isUsed) return false;
    return ((this.#selection.select(path, 'f')?.attributes ?? 0) & followsInode) !== 0;
  }

  /**
   * The other paths of the directory that have to be compared together with this one: all of them the first time, later
   * only those that differ.
   */
  async besides(path: ByteString, signal: AbortSignal): Promise<readonly ByteString[]> {
    const directory = directoryOf(path);
    const known = this.#differing.get(directory);
    if (known !== undefined) return [...known].filter((other) => other !== path);
    const names = new Set<ByteString>();
    for (const name of await this.#listed(directory)) names.add(`${directory}/${name}`);
    for await (const batch of this.#job.baseline.below(directory, signal)) {
      for (const entry of batch) if (directoryOf(entry.path) === directory) names.add(entry.path);
      if (names.size > maxNames) break;
    }
    names.delete(path);
    const concerned = names.size > maxNames ? [] : [...names].filter((name) => this.concerns(name));
    if (this.#differing.size >= maxDirectories) this.#differing.clear();
    this.#differing.set(directory, new Set());
    return concerned;
  }

  looked(paths: readonly ByteString[], { old, now }: Pick<Recheck, 'old' | 'now'>): void {
    for (const path of paths) {
      const known = this.#differing.get(directoryOf(path));
      if (known === undefined) continue;
      const [before, after] = [old.get(path), now.get(path)];
      const isSame =
        before === after ||
        (before !== undefined && after !== undefined && changedAttributes(before, after) === 0);
      if (isSame || known.size >= maxNames) known.delete(path);
      else known.add(path);
    }
  }

  async #listed(directory: ByteString): Promise<readonly ByteString[]> {
    const { root } = this.#job;
    const within = withoutPrefix(directory, root.prefix) ?? '';
    const path = Buffer.concat([Buffer.from(root.directory), Buffer.from(within, 'latin1')]);
    return readdir(path, { encoding: 'latin1' }).catch(() => []);
  }
}
