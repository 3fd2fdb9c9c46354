/** Examines a few small files in the caller's thread. */
import { ContentReader } from './content.ts';
import { noRoot } from './scan-run.ts';
import { Selected } from './selected.ts';
import { RunState, ThreadNote } from './shared-state.ts';
import type { PlainConf, Task, TaskResult } from './tasks.ts';
import type { ThreadPool } from './thread-pool.ts';
import { type Budget, NoRootError, Walk } from './walk.ts';

/** Limit of the work that is done here: starting a thread instead would cost some 50 ms of CPU time. */
const budget: Budget = {
  ...{ entries: 256, bytes: 256 * 1024, rootEntries: 256, fileBytes: 128 * 1024 },
};

export class InlineWalk {
  /** At most this many tasks are done here, one after another; threads do the rest. */
  static readonly maxTasks = budget.entries;
  readonly #walk: Walk;
  readonly #directory: string;

  constructor({ root, rate }: Pick<ThreadPool, 'root' | 'rate'>, conf: PlainConf) {
    this.#directory = root.directory;
    this.#walk = new Walk({
      root,
      selected: new Selected([conf]),
      content: new ContentReader(rate, false, 0),
      state: new RunState(1),
      thread: 0,
      note: new ThreadNote(),
    });
  }

  /** @throws RampartError NOT_FOUND, SYSTEM if the root cannot be opened */
  run(task: Task = { directory: '' }): TaskResult {
    try {
      return this.#walk.run(task, budget);
    } catch (error) {
      if (error instanceof NoRootError) throw noRoot(this.#directory, error.code);
      throw error;
    }
  }
}
