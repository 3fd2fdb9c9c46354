/** Reports when the paths of uprobes may lead to other files, because a package was upgraded or a link was changed. */
import { fstatSync } from 'node:fs';
import { join } from 'node:path';

import { RampartError } from '../../../../lib/errors/errors.ts';
import { type PathTracker, trackPaths } from '../../../../lib/sensor/paths/path-tracker.ts';
import type { TrackedPath } from '../../../../lib/sensor/paths/path-state.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';

export interface TargetPathsOptions {
  /** Called when a path may have changed: the caller then looks up all of them. */
  readonly onChange: () => void;
  readonly logger: Logger;
}

/**
 * Watches paths with inotify, which does not report changes made by another machine, or within a file: users of this class also check at
 * intervals.
 */
export class TargetPaths implements Disposable {
  readonly #options: TargetPathsOptions;
  readonly #followed = new Map<string, TrackedPath>();
  #tracker: PathTracker | undefined;
  #reported = '';
  #disposed = false;

  constructor(options: TargetPathsOptions) {
    this.#options = options;
  }

  /** Follows exactly these paths from now on. Does nothing after disposal. */
  follow(paths: readonly TrackedPath[]): void {
    if (this.#disposed) return;
    const wanted = new Map(paths.map((one) => [join(one.root, one.path), one]));
    for (const [key, path] of this.#followed) {
      if (wanted.has(key)) continue;
      this.#tracker?.remove(path);
      this.#followed.delete(key);
    }
    if (wanted.size === 0) this.#stop();
    for (const [key, path] of wanted) {
      if (this.#followed.has(key)) continue;
      try {
        this.#tracker ??= this.#track();
        this.#tracker.add(path);
        this.#followed.set(key, path);
      } catch (error) {
        if (!(error instanceof RampartError)) throw error;
        this.#problem(error);
      }
    }
  }

  #track(): PathTracker {
    return trackPaths({
      identify: (fd) => {
        const { dev, ino } = fstatSync(fd, { bigint: true });
        return { inode: ino, device: Number(dev), generation: 0 };
      },
      onChange: (_path, _now, before) => {
        if (before !== undefined) this.#options.onChange();
      },
      onProblem: (problem) => this.#problem(problem),
    });
  }

  #problem(problem: RampartError): void {
    if (problem.message === this.#reported) return;
    this.#reported = problem.message;
    this.#options.logger.warn(
      { err: problem },
      'cannot follow targets of uprobes; they are looked at from time to time',
    );
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#stop();
  }

  #stop(): void {
    this.#tracker?.[Symbol.dispose]();
    this.#tracker = undefined;
    this.#followed.clear();
  }
}
