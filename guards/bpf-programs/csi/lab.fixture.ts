/** A node for tests of volumes: programs in the kernel, and a mount namespace with the directory of a kubelet. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { createLogger } from '../../../lib/telemetry/log.ts';
import { Lab, NAME } from '../kernel/lab.fixture.ts';
import { FixtureKubelet } from './kubelet.fixture.ts';
import { podProgram } from './pod.fixture.ts';
import { CsiDriver } from './run.ts';

/** A place on the node. */
export interface Place {
  /** Pid of a process in its mount namespace. */
  readonly pid: number;
  /** Where kubelet has its directory, seen by both. */
  readonly directory: string;
}

export interface CsiLabOptions {
  readonly clusterNamespaces?: readonly string[];
  /** Default: a mount namespace of its own, which ends with the lab. */
  readonly place?: Place;
}

export class CsiLab extends FixtureKubelet implements AsyncDisposable {
  readonly lab: Lab;
  readonly #clusterNamespaces: readonly string[];
  readonly #node: ChildProcess | undefined;
  readonly #pid: string;
  #stop = new AbortController();
  #serving: Promise<void> = Promise.resolve();
  driver!: CsiDriver;

  private constructor(lab: Lab, { clusterNamespaces = [], place }: CsiLabOptions) {
    super(join(place?.directory ?? lab.directory, 'kubelet'));
    this.lab = lab;
    this.#clusterNamespaces = clusterNamespaces;
    this.#node = place === undefined ? ownMounts() : undefined;
    this.#pid = String(place?.pid ?? this.#node?.pid);
  }

  static async start(options: CsiLabOptions = {}): Promise<CsiLab> {
    const lab = new CsiLab(new Lab(), options);
    const { stdout } = lab.#node ?? {};
    // Its namespace is there.
    if (stdout) await once(stdout, 'data');
    await lab.restart();
    return lab;
  }

  /** As a process that was started later has it. */
  async restart(): Promise<void> {
    await this.#end();
    this.#stop = new AbortController();
    this.driver = new CsiDriver({
      place: { bpffs: this.lab.bpffs, name: NAME, stateDirectory: this.lab.state },
      directory: join(this.lab.directory, 'volumes'),
      mountNamespacePath: `/proc/${this.#pid}/ns/mnt`,
      kubeletDirectory: this.directory,
      clusterNamespaces: this.#clusterNamespaces,
      ...{ nodeName: 'n1', version: '0.0.0', logger: createLogger({ level: 'silent' }) },
    });
    this.#serving = this.driver.run(this.#stop.signal);
    await this.register((socket) => this.onNode('test', ['-S', socket]) !== undefined);
  }

  /** The output of a command in the mount namespace of the node; undefined if it fails. */
  onNode(command: string, args: readonly string[]): string | undefined {
    try {
      return execFileSync('nsenter', ['-t', this.#pid, '-m', command, ...args], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch {
      return undefined;
    }
  }

  /** The first u64 of a map in a volume, as a process of a user sees it. @throws {Error} with the name of the errno */
  read(target: string, map: string, user = 0): number {
    return Number(this.#inPod(user, 'read', join(target, map)));
  }

  /** Sets it. @throws as {@link read} */
  write(target: string, map: string, value: number): void {
    this.#inPod(0, 'write', join(target, map), String(value));
  }

  /** The kernel's ID of a map in a volume. */
  idOf(target: string, map: string): number {
    return Number(this.#inPod(0, 'id', join(target, map)));
  }

  #inPod(user: number, ...words: readonly string[]): string {
    const setpriv = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
    const perl = ['perl', ...podProgram, ...words];
    const result = spawnSync('nsenter', ['-t', this.#pid, '-m', ...setpriv, ...perl], { encoding: 'utf8' });
    if (result.status !== 0) throw new Error(result.stderr);
    return result.stdout;
  }

  groupName(group: number): string {
    return this.onNode('getent', ['group', String(group)])?.split(':')[0] ?? String(group);
  }

  /** The files of a volume, as `mode group name`. */
  listed(target: string): readonly string[] {
    const found = this.onNode('find', [target, '-mindepth', '1', '-printf', '%m %g %f\n']) ?? '';
    return found
      .split('\n')
      .filter((line) => line !== '')
      .toSorted();
  }

  get mounts(): readonly string[] {
    const all = this.onNode('cat', ['/proc/self/mounts']) ?? '';
    return all.split('\n').filter((line) => line.includes(` ${this.directory}/`));
  }

  async #end(): Promise<void> {
    this.#stop.abort();
    await this.#serving;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    if (this.#node !== undefined) {
      const ended = once(this.#node, 'exit');
      this.#node.kill('SIGKILL');
      await ended;
    }
    await this.lab[Symbol.asyncDispose]();
  }
}

/** A process in a mount namespace of its own, which has written something when it is there. */
function ownMounts(): ChildProcess {
  return spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', 'echo; exec sleep infinity'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
