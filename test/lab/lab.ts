/**
 * Real pods: containerd, runc and network plugins in directories and namespaces of their own, with an image made on the spot.
 * Nothing else of the machine is used or changed, and its own container runtime, if it has one, is not spoken to.
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Cri } from '../../lib/cri/cri.ts';
import { openCri } from '../../lib/cri/lab-schema.fixture.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { labPaths, type Snapshotter, writeConfiguration } from './configuration.ts';
import { imageArchive } from './image.ts';
import { createHome, removeHome, sweepLabs } from './leftovers.ts';
import { createNamespaces, type Namespaces } from './namespaces.ts';
import { labObstacle } from './obstacle.ts';
import {
  containerConfig,
  type ContainerSpec,
  type PodSpec,
  sandboxConfig,
  type SandboxConfig,
} from './pod-config.ts';
import { Runtime } from './runtime.ts';

export interface LabOptions {
  /** IPv4 network of the pods. Default `192.168.0.0/24`. */
  readonly subnet?: string;
  /** The first pod's address; those after it have the next ones. Default `192.168.0.3`. */
  readonly firstIp?: string;
  /** A directory with another containerd, its shim and ctr. Default: those in PATH. */
  readonly programs?: string;
  /** Ends the start; a lab that has started is ended by disposing it. */
  readonly signal?: AbortSignal;
}

/** A container of a lab's pod. */
export interface LabContainer {
  readonly id: string;
  readonly name: string;
  readonly attempt: number;
  /**
   * Pid of its first process, in the machine's namespace. 0 if it had ended before it could be determined.
   */
  readonly pid: number;
}

export interface LabPod {
  /** Id of the sandbox. */
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Empty in the host's network. */
  readonly ip: string;
  /** Keyed by name; a restarted container replaces its predecessor. */
  readonly containers: ReadonlyMap<string, LabContainer>;
  readonly initContainers: ReadonlyMap<string, LabContainer>;
}

export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The kept facts about a pod, for more containers. */
interface Made {
  readonly spec: PodSpec;
  readonly config: SandboxConfig;
  readonly containers: Map<string, LabContainer>;
  readonly specs: Map<string, ContainerSpec>;
}

const POD_TIMEOUT_MS = 60_000;
const timeout = { timeoutMs: POD_TIMEOUT_MS };

export class Lab implements AsyncDisposable {
  /** All files of the lab are below it. */
  readonly directory: string;
  readonly snapshotter: Snapshotter;
  /** A client of its containerd; disposed with the lab. */
  readonly cri: Cri;
  readonly #namespaces: Namespaces;
  readonly #runtime: Runtime;
  readonly #pods = new Map<string, Made>();

  constructor(directory: string, namespaces: Namespaces, runtime: Runtime, cri: Cri) {
    this.directory = directory;
    this.snapshotter = namespaces.snapshotter;
    this.cri = cri;
    this.#namespaces = namespaces;
    this.#runtime = runtime;
  }

  /** The value for `openCri` or `--cri-socket`. */
  get socketPath(): string {
    return this.cri.socketPath;
  }

  /** containerd's pid; undefined while it is stopped. */
  get runtimePid(): number | undefined {
    return this.#runtime.pid;
  }

  /** Makes a pod and waits until its containers run; the init containers have ended well by then. */
  async runPod(spec: PodSpec): Promise<LabPod> {
    const uid = spec.uid ?? randomUUID();
    const { podLogs } = labPaths(this.directory);
    const config = sandboxConfig(spec, uid, podLogs, basename(this.directory));
    const { podSandboxId: id } = await this.cri.call('RunPodSandbox', { config }, timeout);
    const made: Made = { spec, config, containers: new Map(), specs: new Map() };
    this.#pods.set(id, made);
    const initContainers = new Map<string, LabContainer>();
    for (const container of spec.initContainers ?? []) {
      const started = await this.#startContainer(id, made, container, 0);
      initContainers.set(container.name, started);
      await this.#waitForSuccess(started);
    }
    for (const container of spec.containers ?? [{ name: 'nginx' }]) {
      made.containers.set(container.name, await this.#startContainer(id, made, container, 0));
    }
    const [ip = ''] = (await this.cri.podNetwork(id))?.ips ?? [];
    const { name, namespace } = config.metadata;
    return { id, name, namespace, uid, ip, containers: made.containers, initContainers };
  }

  /** Adds a container to a pod that runs, as `kubectl debug` adds an ephemeral one. */
  async addContainer(pod: LabPod, spec: ContainerSpec): Promise<LabContainer> {
    const made = this.#made(pod);
    const started = await this.#startContainer(pod.id, made, spec, 0);
    made.containers.set(spec.name, started);
    return started;
  }

  /** Runs a command in a container to its end. */
  async exec(container: LabContainer, command: readonly string[]): Promise<ExecResult> {
    const answer = await this.cri.call('ExecSync', { containerId: container.id, cmd: command }, timeout);
    const [stdout, stderr] = [answer.stdout, answer.stderr].map((bytes) => Buffer.from(bytes).toString());
    return { exitCode: answer.exitCode, stdout: stdout ?? '', stderr: stderr ?? '' };
  }

  /** Ends a container at once. It stays in the runtime's list, as exited. */
  async stopContainer(container: LabContainer): Promise<void> {
    await this.cri.call('StopContainer', { containerId: container.id, timeout: 0n }, timeout);
  }

  /**
   * Kubelet's action when a container has ended: a new one with another id, of the same name. The old one
   * stays in the runtime's list, as exited, until its successor is restarted.
   */
  async restartContainer(pod: LabPod, name: string): Promise<LabContainer> {
    const made = this.#made(pod);
    const [old, spec] = [made.containers.get(name), made.specs.get(name)];
    if (old === undefined || spec === undefined) throw new Error(`pod ${pod.name} has no container ${name}`);
    await this.stopContainer(old);
    const { containers } = await this.cri.call('ListContainers', { filter: { podSandboxId: pod.id } });
    for (const { id, metadata } of containers) {
      if (metadata?.name === name && id !== old.id)
        await this.cri.call('RemoveContainer', { containerId: id }, timeout);
    }
    const started = await this.#startContainer(pod.id, made, spec, old.attempt + 1);
    made.containers.set(name, started);
    return started;
  }

  /** Ends a pod's containers and its network. It stays in the runtime's list, as not ready. */
  async stopPod(pod: LabPod): Promise<void> {
    await this.cri.call('StopPodSandbox', { podSandboxId: pod.id }, timeout);
  }

  /** Ends a pod and removes all there is of it. */
  async removePod(pod: LabPod): Promise<void> {
    await this.stopPod(pod);
    await this.cri.call('RemovePodSandbox', { podSandboxId: pod.id }, timeout);
    this.#pods.delete(pod.id);
  }

  /** Ends containerd; its containers go on. */
  async stopRuntime(killSignal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    await this.#runtime.stop(killSignal);
  }

  /** Starts containerd again and waits until it answers. */
  async startRuntime(): Promise<void> {
    await this.#runtime.start(this.cri, undefined);
  }

  /** Starts a program on the lab's "node": in its network, where the pods can be reached, and with its mounts. */
  spawn(...parameters: Parameters<Namespaces['spawn']>): ReturnType<Namespaces['spawn']> {
    return this.#namespaces.spawn(...parameters);
  }

  /** The last lines of containerd's log. */
  async log(lines?: number): Promise<string> {
    return await this.#runtime.logTail(lines);
  }

  /** Ends everything that the lab started and removes its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.cri[Symbol.dispose]();
    await removeHome(this.directory);
  }

  /** Removes what labs left whose process was killed; {@link startLab} does it too. Returns their directories. */
  static async sweep(): Promise<readonly string[]> {
    return await sweepLabs();
  }

  #made(pod: LabPod): Made {
    const made = this.#pods.get(pod.id);
    if (made === undefined) throw new Error(`no pod ${pod.name} in this lab (any more)`);
    return made;
  }

  async #startContainer(
    podSandboxId: string,
    made: Made,
    spec: ContainerSpec,
    attempt: number,
  ): Promise<LabContainer> {
    const { containerId } = await this.cri.call(
      'CreateContainer',
      {
        podSandboxId,
        sandboxConfig: made.config,
        config: containerConfig(made.spec, made.config, spec, attempt),
      },
      timeout,
    );
    await this.cri.call('StartContainer', { containerId }, timeout);
    made.specs.set(spec.name, spec);
    const pid = (await this.cri.containerPid(containerId)) ?? 0;
    return { id: containerId, name: spec.name, attempt, pid };
  }

  async #waitForSuccess({ id, name }: LabContainer): Promise<void> {
    const endsAtMs = performance.now() + POD_TIMEOUT_MS;
    for (;;) {
      const { status } = await this.cri.call('ContainerStatus', { containerId: id });
      if (status?.state === 2) {
        if (status.exitCode === 0) return;
        throw new Error(`init container ${name} has ended with ${status.exitCode}`);
      }
      if (performance.now() > endsAtMs) throw new Error(`init container ${name} does not end`);
      await sleep(20);
    }
  }
}

/**
 * Starts a lab; the caller disposes it. First removes what earlier ones left whose process was killed.
 *
 * @throws {RampartError} `UNSUPPORTED` where {@link labObstacle} has a reason. Rejects with the signal's reason when aborted.
 *
 * @example
 * await using lab = await startLab();
 * const pod = await lab.runPod({ name: 'nginx-pod', labels: { 'security-level': 'high' } });
 * await lab.exec(pod.containers.get('nginx')!, ['cat', '/etc/passwd']);
 */
export async function startLab(options: LabOptions = {}): Promise<Lab> {
  const { subnet = '192.168.0.0/24', firstIp = '192.168.0.3', programs, signal } = options;
  const obstacle = labObstacle();
  if (obstacle !== undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, { what: 'cannot run pods here', why: obstacle });
  }
  signal?.throwIfAborted();
  await sweepLabs();
  const { directory, cgroup } = await createHome();
  try {
    const namespaces = await createNamespaces(cgroup, directory);
    await writeConfiguration(directory, namespaces.snapshotter, { subnet, firstIp });
    const paths = labPaths(directory);
    const runtime = new Runtime(namespaces, directory, programs);
    const lab = new Lab(directory, namespaces, runtime, openCri({ socketPath: paths.socket }));
    // Not in parallel: if one fails, the other would continue while everything is removed below.
    await writeFile(paths.image, imageArchive());
    await runtime.start(lab.cri, signal);
    await runtime.importImages(lab.cri, signal);
    return lab;
  } catch (error) {
    await removeHome(directory);
    throw error;
  }
}
