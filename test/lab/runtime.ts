/** The containerd of a lab: started, stopped and started again over the same directories. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Cri } from '../../lib/cri/cri.ts';
import { labPaths } from './configuration.ts';
import { images } from './image.ts';
import type { Namespaces } from './namespaces.ts';

const START_TIMEOUT_MS = 60_000;

export class Runtime {
  readonly #namespaces: Namespaces;
  readonly #paths: ReturnType<typeof labPaths>;
  readonly #env: NodeJS.ProcessEnv;
  #process: ChildProcess | undefined;

  /** `programs`: a directory with containerd, ctr and the shim, before those in PATH. */
  constructor(namespaces: Namespaces, directory: string, programs: string | undefined) {
    this.#namespaces = namespaces;
    this.#paths = labPaths(directory);
    const path = [...(programs === undefined ? [] : [programs]), process.env['PATH'] ?? ''];
    this.#env = { ...process.env, PATH: [...path, '/usr/sbin:/usr/bin:/sbin:/bin'].join(':') };
  }

  /** containerd's pid while it runs. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Starts containerd and waits until it answers. Does nothing while it runs. */
  async start(cri: Cri, signal: AbortSignal | undefined): Promise<void> {
    if (this.#process !== undefined) return;
    await mkdir(this.#paths.podLogs, { recursive: true });
    await using log = await open(this.#paths.log, 'a');
    const containerd = this.#namespaces.spawn(['containerd', '--config', this.#paths.config], {
      stdio: ['ignore', log.fd, log.fd],
      env: this.#env,
    });
    this.#process = containerd;
    containerd.once('exit', () => {
      if (this.#process === containerd) this.#process = undefined;
    });
    const endsAtMs = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      signal?.throwIfAborted();
      try {
        await cri.version({ signal });
        // Whoever ran before may have left a socket that another containerd answers at: not in a directory of our own.
        return;
      } catch (error) {
        if (this.#process !== containerd || performance.now() > endsAtMs) {
          throw new Error(`containerd does not start:\n${await this.logTail()}`, { cause: error });
        }
        await sleep(20);
      }
    }
  }

  /** Ends containerd; its shims and their containers go on. */
  async stop(killSignal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const containerd = this.#process;
    if (containerd === undefined) return;
    const exited = once(containerd, 'exit');
    containerd.kill(killSignal);
    await exited;
  }

  /** Makes the images of an archive known, and waits until pods can be made of them. */
  async importImages(cri: Cri, signal: AbortSignal | undefined): Promise<void> {
    const ctr = this.#namespaces.spawn(
      [
        'ctr',
        '--address',
        this.#paths.socket,
        '--namespace',
        'k8s.io',
        'images',
        'import',
        this.#paths.image,
      ],
      { stdio: ['ignore', 'ignore', 'pipe'], env: this.#env },
    );
    const exited = once(ctr, 'exit') as Promise<[number | null]>;
    const errors = ctr.stderr === null ? '' : await text(ctr.stderr);
    const [code] = await exited;
    if (code !== 0) throw new Error(`ctr does not import the image (${code}): ${errors}`);
    const endsAtMs = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      // The interface learns about an import by an event.
      const known = (await cri.call('ListImages', {}, { signal })).images.flatMap(({ repoTags }) => repoTags);
      if (Object.values(images).every((name) => known.includes(name))) return;
      if (performance.now() > endsAtMs) throw new Error(`images do not appear: ${known.join(', ')}`);
      await sleep(20);
    }
  }

  /** The last lines of containerd's log. */
  async logTail(lines = 20): Promise<string> {
    if (!existsSync(this.#paths.log)) return '(no log)';
    return (await readFile(this.#paths.log, 'utf8')).trimEnd().split('\n').slice(-lines).join('\n');
  }
}
