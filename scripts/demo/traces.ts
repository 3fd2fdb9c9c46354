/** The demo's resources on the machine, and those that are left afterwards. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { isSameProcess, processIdentity, type ProcessIdentity } from '../../lib/cri/process.ts';
import { heldBy, leftOf } from '../../lib/ebpf/kernel-objects.fixture.ts';
import { counted } from '../../lib/output/words.ts';
import { cgroupDirectories } from '../../test/lab/obstacle.ts';

/** The kernel frees eBPF objects and namespaces a little after their last process. */
const PATIENCE_MS = 10_000;
const PACE_MS = 100;

const namespaceKinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'uts'] as const;
const objectKinds = ['prog', 'map', 'link'] as const;

/** Told what is started; looks what that has, before it is ended. */
export class Traces {
  readonly #directories = new Set<string>();
  readonly #labs = new Set<string>();
  readonly #processes = new Map<string, ProcessIdentity & { readonly name: string }>();
  readonly #namespaces = new Set<string>();
  /** Lines of mountinfo: the kernel reuses the numbers of namespaces, so those alone prove nothing later. */
  readonly #mounts = new Set<string>();
  readonly #objects = { prog: new Set<number>(), map: new Set<number>(), link: new Set<number>() };

  addDirectory(directory: string): void {
    this.#directories.add(directory);
  }

  /** A lab's cgroup tree has the name of its directory. */
  addLab(directory: string): void {
    this.addDirectory(directory);
    this.#labs.add(basename(directory));
  }

  /** `name` is its name in reports. */
  addProcess(pid: number, name = read(() => readFileSync(`/proc/${pid}/comm`, 'utf8')).trim()): void {
    const identity = processIdentity(pid);
    if (identity === undefined) return;
    const key = `${pid} ${identity.startTicks}`;
    if (!this.#processes.has(key)) this.#processes.set(key, { ...identity, name });
    for (const namespace of namespacesOf(pid)) this.#namespaces.add(namespace);
    const held = heldBy(pid);
    for (const kind of objectKinds) for (const id of held[kind]) this.#objects[kind].add(id);
  }

  /** Records every process of the labs, and every one in the same namespaces: all of it has to be gone later. */
  look(): void {
    // Again for those who are in a namespace of a process that comes later.
    for (let round = 0; round < 2; round++) {
      for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
        const cgroups = read(() => readFileSync(`/proc/${pid}/cgroup`, 'utf8'));
        const isOfLab = [...this.#labs].some((lab) => cgroups.includes(lab));
        if (isOfLab || namespacesOf(pid).some((name) => this.#namespaces.has(name))) this.addProcess(pid);
      }
    }
    const names = [...this.#directories, ...this.#namespaces];
    for (const line of mountLines()) if (names.some((name) => line.includes(name))) this.#mounts.add(line);
  }

  /** A sentence about what {@link remains} checks. */
  get description(): string {
    const names = [...new Set([...this.#processes.values()].map(({ name }) => name))].sort().join(', ');
    const objects = objectKinds.reduce((sum, kind) => sum + this.#objects[kind].size, 0);
    const counts = [
      `${counted(this.#processes.size, 'process', 'processes')} (${names})`,
      counted(this.#namespaces.size, 'namespace'),
      counted(objects, 'eBPF program, map or link', 'eBPF programs, maps and links'),
      `${counted(this.#labs.size, 'cgroup tree')}, mounts`,
      counted(this.#directories.size, 'directory', 'directories'),
    ];
    return counts.filter((count) => !count.startsWith('0 ')).join(', ');
  }

  /** The remains, in words; usually none. Waits a little for what the kernel frees later. */
  async remains(patienceMs = PATIENCE_MS): Promise<readonly string[]> {
    const endsAtMs = performance.now() + patienceMs;
    for (;;) {
      const left = this.#remainsNow();
      if (left.length === 0 || performance.now() > endsAtMs) return left;
      await sleep(PACE_MS);
    }
  }

  #remainsNow(): string[] {
    const processes = [...this.#processes.values()].filter((process) => isSameProcess(process));
    const cgroups = cgroupDirectories().flatMap(({ directory }) =>
      [...this.#labs].map((name) => join(directory, name)),
    );
    return [
      ...processes.map(({ pid, name }) => `process ${pid} (${name})`),
      ...[...cgroups, ...this.#directories].filter((path) => existsSync(path)),
      ...mountLines()
        .filter((line) => this.#mounts.has(line))
        .map((line) => `mount ${line.split(' ')[4]}`),
      ...leftOf(this.#objects).map((name) => `eBPF ${name}`),
    ];
  }
}

/** Those that are not ours too. */
function namespacesOf(pid: number): string[] {
  const of = (who: number | string, kind: string): string =>
    read(() => readlinkSync(`/proc/${who}/ns/${kind}`));
  return namespaceKinds
    .filter((kind) => of(pid, kind) !== of('self', kind))
    .map((kind) => of(pid, kind))
    .filter(Boolean);
}

function mountLines(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter(Boolean);
}

/** Empty when the process has ended. */
function read(look: () => string): string {
  try {
    return look();
  } catch {
    return '';
  }
}
