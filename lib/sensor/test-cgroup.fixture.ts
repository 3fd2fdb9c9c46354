/** A cgroup of version 2 for processes of tests, wherever the machine has mounted them, if at all. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';

import { Mounted } from './file-systems.fixture.ts';

/** Removed with all that is in it; its processes have to be gone by then. */
export class TestCgroup implements Disposable {
  /** Where processes are put: `echo $$ > PATH/cgroup.procs`. */
  readonly path: string;
  readonly #mounted: Mounted;
  readonly #top: string;

  /** @param names of the cgroups, the outermost first; below one of this process */
  constructor(...names: readonly string[]) {
    this.#mounted = new Mounted('-t', 'cgroup2', 'rampart-test');
    this.#top = this.#mounted.at(`rampart-test-${process.pid}.slice`);
    this.path = [this.#top, ...names].join('/');
    mkdirSync(this.path, { recursive: true });
  }

  [Symbol.dispose](): void {
    spawnSync('find', [this.#top, '-depth', '-type', 'd', '-delete']);
    this.#mounted[Symbol.dispose]();
  }
}
