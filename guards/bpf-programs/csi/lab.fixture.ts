/** A node for tests of volumes: programs in the kernel, and a mount namespace with the directory of a kubelet. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { DescMethod } from '@bufbuild/protobuf';

import { unixClient } from '../../../lib/grpc/unix-client.fixture.ts';
import { descriptorsOf } from '../../../lib/protobuf/descriptors.fixture.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { publicPath, withPublicCheckout } from '../../../lib/testing/public-checkout.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { Lab, NAME } from '../kernel/lab.fixture.ts';
import { CsiDriver } from './run.ts';
import { messages, type MethodName, methods } from './schema.ts';

const descriptors: { readonly method: (name: string) => DescMethod } = descriptorsOf(messages, methods);

/** What a test asks for; the rest is as kubelet has it. */
export interface Asked {
  readonly program: string;
  readonly maps: string;
  readonly namespace?: string;
  readonly pod?: string;
  readonly uid?: string;
  readonly readOnly?: boolean;
  readonly group?: string;
  readonly volumeId?: string;
  readonly targetPath?: string;
}

export class CsiLab implements AsyncDisposable {
  readonly lab = new Lab();
  /** In the namespace of the node; nothing that is mounted there is seen here. */
  readonly kubelet = join(this.lab.directory, 'kubelet');
  readonly #clusterNamespaces: readonly string[];
  readonly #node: ChildProcess;
  #stop = new AbortController();
  #serving: Promise<void> = Promise.resolve();
  driver!: CsiDriver;

  private constructor(clusterNamespaces: readonly string[]) {
    this.#clusterNamespaces = clusterNamespaces;
    for (const name of ['plugins_registry', 'pods']) mkdirSync(join(this.kubelet, name), { recursive: true });
    this.#node = spawn(
      'unshare',
      ['--mount', '--propagation', 'private', 'sh', '-c', 'echo; exec sleep infinity'],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
  }

  static async start(clusterNamespaces: readonly string[] = []): Promise<CsiLab> {
    const lab = new CsiLab(clusterNamespaces);
    const { stdout } = lab.#node;
    if (stdout === null) throw new TypeError('no output');
    await once(stdout, 'data');
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
      kubeletDirectory: this.kubelet,
      clusterNamespaces: this.#clusterNamespaces,
      ...{ nodeName: 'n1', version: '0.0.0', logger: createLogger({ level: 'silent' }) },
    });
    this.#serving = this.driver.run(this.#stop.signal);
    // As kubelet does: with the first file that it sees.
    await until(() => this.onNode('test', ['-S', this.registration]) !== undefined);
    const { endpoint } = await this.call('GetInfo', {}, this.registration);
    this.#endpoint = String(endpoint);
    await this.call('NotifyRegistrationStatus', { pluginRegistered: true }, this.registration);
  }

  #endpoint = '';

  get registration(): string {
    return join(this.kubelet, 'plugins_registry', 'csi.bpfman.io-reg.sock');
  }

  /** Of the driver, by its own word. */
  get endpoint(): string {
    return this.#endpoint;
  }

  /** A call of gRPC, by a client that is not ours. */
  call(
    name: MethodName,
    request: object,
    socket = this.#endpoint,
  ): Promise<Readonly<Record<string, unknown>>> {
    return unixClient(socket)(descriptors.method(name), request);
  }

  /** As kubelet: it makes the directory that the target is in. */
  async publish(asked: Asked): Promise<string> {
    const { program, maps, namespace = 'shop', pod = 'reader', uid = 'uid-1', readOnly = false } = asked;
    const { volumeId = 'csi-1', group = '', targetPath = this.target(uid, volumeId) } = asked;
    mkdirSync(join(this.target(uid, volumeId), '..'), { recursive: true });
    await this.call('NodePublishVolume', {
      ...{ volumeId, targetPath, readonly: readOnly },
      volumeCapability: { mount: { volumeMountGroup: group } },
      volumeContext: {
        'csi.bpfman.io/program': program,
        'csi.bpfman.io/maps': maps,
        'csi.storage.k8s.io/pod.name': pod,
        'csi.storage.k8s.io/pod.namespace': namespace,
        'csi.storage.k8s.io/pod.uid': uid,
        'csi.storage.k8s.io/ephemeral': 'true',
      },
    });
    return targetPath;
  }

  async unpublish(volumeId = 'csi-1', targetPath = this.target('uid-1', volumeId)): Promise<void> {
    await this.call('NodeUnpublishVolume', { volumeId, targetPath });
  }

  target(uid: string, volumeId: string): string {
    return join(this.kubelet, 'pods', uid, 'volumes', 'kubernetes.io~csi', volumeId, 'mount');
  }

  /** What a command prints in the mount namespace of the node; undefined if it fails. */
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
    return Number(this.#inPod(user, `console.log(read(${JSON.stringify(join(target, map))}))`));
  }

  /** Sets it. @throws as {@link read} */
  write(target: string, map: string, value: number): void {
    this.#inPod(0, `write(${JSON.stringify(join(target, map))}, ${value})`);
  }

  /** The kernel's ID of a map in a volume. */
  idOf(target: string, map: string): number {
    return Number(this.#inPod(0, `console.log(idOf(${JSON.stringify(join(target, map))}))`));
  }

  #inPod(user: number, work: string): string {
    const functions = publicPath(join(import.meta.dirname, 'pod.fixture.ts'));
    const program = `import { idOf, read, write } from ${JSON.stringify(functions)}; ${work}`;
    const setpriv = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
    const node = [publicPath(process.execPath), '--input-type=module', '-e', program];
    const command = ['-t', this.#pid, '-m', ...withPublicCheckout, ...setpriv, ...node];
    const result = spawnSync('nsenter', command, { encoding: 'utf8' });
    if (result.status !== 0) throw new Error(result.stderr);
    return result.stdout;
  }

  groupName(group: number): string {
    return this.onNode('getent', ['group', String(group)])?.split(':')[0] ?? String(group);
  }

  /** What is in a volume, as `mode group name`. */
  listed(target: string): readonly string[] {
    const found = this.onNode('find', [target, '-mindepth', '1', '-printf', '%m %g %f\n']) ?? '';
    return found
      .split('\n')
      .filter((line) => line !== '')
      .toSorted();
  }

  get mounts(): readonly string[] {
    const all = this.onNode('cat', ['/proc/self/mounts']) ?? '';
    return all.split('\n').filter((line) => line.includes(` ${this.kubelet}/`));
  }

  get #pid(): string {
    return String(this.#node.pid);
  }

  async #end(): Promise<void> {
    this.#stop.abort();
    await this.#serving;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    const ended = once(this.#node, 'exit');
    this.#node.kill('SIGKILL');
    await ended;
    await this.lab[Symbol.asyncDispose]();
  }
}
