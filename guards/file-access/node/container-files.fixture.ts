/** Container roots for tests: directories, and the states of the files in them. */
import { mkdirSync } from 'node:fs';

import type { RampartError } from '../../../lib/errors/errors.ts';
import { identifyByStat } from '../../../lib/sensor/paths/path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { type ContainerFile, ContainerFiles, type FileRequest } from './container-files.ts';
import { ContainerRoots } from './container-roots.ts';
import { patience } from '../../../lib/testing/until.fixture.ts';

/** Files followed in `root`, a directory beside `outside`, which nothing may reach. */
export class FollowedFiles extends TemporaryDirectory {
  readonly files: ContainerFiles;
  readonly problems: RampartError[] = [];
  changes = 0;
  #waiting: (() => void)[] = [];

  constructor(identify = identifyByStat) {
    super();
    mkdirSync(this.at('root'));
    mkdirSync(this.at('outside'));
    this.files = new ContainerFiles({
      roots: new ContainerRoots(),
      identify,
      onChange: () => {
        this.changes += 1;
        for (const wake of this.#waiting.splice(0)) wake();
      },
      onProblem: (problem) => this.problems.push(problem),
    });
  }

  add(path: string, more: Partial<FileRequest> = {}): ContainerFile {
    return this.files.add({
      root: this.at('root'),
      containerId: '',
      path,
      create: false,
      modeBits: 0o400,
      ...more,
    });
  }

  /** Resolves when `holds` does; asks after each change. */
  async until(holds: () => boolean): Promise<void> {
    const signal = patience();
    while (!holds()) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      const onAbort = (): void => reject(new Error(`waited in vain for ${String(holds)}`));
      signal.addEventListener('abort', onAbort, { once: true });
      await promise;
      signal.removeEventListener('abort', onAbort);
    }
  }

  override [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

/** The inode number that a file is watched by. */
export function inodeOf({ state }: ContainerFile): bigint | undefined {
  return state.kind === 'watched' ? state.identity.inode : undefined;
}
