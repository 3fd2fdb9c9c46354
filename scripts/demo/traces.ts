/** The demo's resources on the machine, and those that are left afterwards. */
import { existsSync, globSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { constants } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { isSameProcess, processIdentity, type ProcessIdentity } from '../../lib/cri/process.ts';
import { errno, libc, syscallNumbers } from '../../lib/ebpf/ffi.ts';
import { heldBy } from '../../lib/ebpf/kernel-objects.fixture.ts';
import { cgroupDirectories } from '../../test/lab/obstacle.ts';

/** The kernel frees eBPF objects and namespaces a little after their last process. */
const PATIENCE_MS = 10_000;
const PACE_MS = 100;

const namespaceKinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'uts'] as const;
/** BPF_PROG_GET_FD_BY_ID and so on, of enum bpf_cmd. */
const openById = { prog: 13, map: 14, link: 30 } as const;
type ObjectKind = keyof typeof openById;

interface NamedProcess extends ProcessIdentity {
  readonly name: string;
}

/** Told what is started; looks what that has, before it is ended. */
export class Traces {
  readonly #directories = new Set<string>();
  readonly #labs = new Set<string>();
  readonly #processes = new Map<string, NamedProcess>();
  readonly #namespaces = new Set<string>();
  /**
   * Processes in them, ours or not. The kernel reuses namespace numbers, so they alone prove nothing later.
   */
  readonly #residents = new Map<string, NamedProcess & { readonly namespace: string }>();
  readonly #mounts = new Set<string>();
  readonly #objects = new Map<string, readonly [ObjectKind, number]>();

  addDirectory(directory: string): void {
    this.#directories.add(directory);
  }

  /** A lab's cgroup tree has the name of its directory. */
  addLab(directory: string): void {
    this.addDirectory(directory);
    this.#labs.add(basename(directory));
  }

  /** `name` is its name in reports. */
  addProcess(pid: number, name = readText(`/proc/${pid}/comm`).trim()): void {
    const identity = processIdentity(pid);
    if (identity === undefined) return;
    this.#processes.set(`${pid} ${identity.startTicks}`, { ...identity, name });
    for (const kind of namespaceKinds) {
      const namespace = readLink(`/proc/${pid}/ns/${kind}`);
      if (namespace !== '' && namespace !== readLink(`/proc/self/ns/${kind}`))
        this.#namespaces.add(namespace);
    }
    if (!existsSync(`/proc/${pid}/fdinfo`)) return;
    const held = heldBy(pid);
    for (const kind of ['prog', 'map', 'link'] as const) {
      for (const id of held[kind]) this.#objects.set(`${kind} ${id}`, [kind, id]);
    }
  }

  /**
   * Records every process of the labs, and everything in the same namespaces: all of it has to be gone later.
   */
  look(): void {
    for (const cgroup of this.#cgroups()) {
      for (const file of globSync(join(cgroup, '**/cgroup.procs'))) {
        for (const pid of readText(file).split('\n').filter(Boolean)) this.addProcess(Number(pid));
      }
    }
    this.#lookIntoNamespaces();
  }

  #lookIntoNamespaces(): void {
    for (const pid of readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)) {
      for (const kind of namespaceKinds) {
        const namespace = readLink(`/proc/${pid}/ns/${kind}`);
        const identity = this.#namespaces.has(namespace) ? processIdentity(pid) : undefined;
        if (identity === undefined) continue;
        const name = readText(`/proc/${pid}/comm`).trim();
        this.#residents.set(`${pid} ${namespace}`, { ...identity, name, namespace });
      }
    }
    for (const line of mountLines()) {
      if ([...this.#namespaces].some((namespace) => line.includes(namespace))) this.#mounts.add(line);
    }
  }

  /** A sentence about what {@link remains} checks. */
  get description(): string {
    const names = [...new Set([...this.#processes.values()].map(({ name }) => name))].sort().join(', ');
    const counts = [
      [this.#processes.size, 'process', 'processes', ` (${names})`],
      [this.#namespaces.size, 'namespace', 'namespaces', ''],
      [this.#objects.size, 'eBPF program, map or link', 'eBPF programs, maps and links', ''],
      [this.#labs.size, 'cgroup tree', 'cgroup trees', ', mounts'],
      [this.#directories.size, 'directory', 'directories', ''],
    ] as const;
    return counts
      .filter(([count]) => count > 0)
      .map(([count, one, several, also]) => `${count} ${count === 1 ? one : several}${also}`)
      .join(', ');
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
    const mounts = mountLines().filter((line) =>
      [...this.#directories].some((directory) => line.includes(directory)),
    );
    return [
      ...processes.map(({ pid, name }) => `process ${pid} (${name})`),
      ...this.#cgroups(),
      ...[...this.#directories].filter((directory) => existsSync(directory)),
      ...mounts.map((line) => `mount ${line.split(' ')[4]}`),
      ...this.#namespacesInUse(),
      ...[...this.#objects].filter(([, [kind, id]]) => isInKernel(kind, id)).map(([name]) => `eBPF ${name}`),
    ];
  }

  #cgroups(): string[] {
    return cgroupDirectories()
      .flatMap(({ directory }) => [...this.#labs].map((name) => join(directory, name)))
      .filter((cgroup) => existsSync(cgroup));
  }

  /** A namespace lasts as long as a process in it, or a mount of it. */
  #namespacesInUse(): string[] {
    const residents = [...this.#residents.values()].filter((resident) => {
      const kind = resident.namespace.split(':')[0] ?? '';
      return isSameProcess(resident) && readLink(`/proc/${resident.pid}/ns/${kind}`) === resident.namespace;
    });
    return [
      ...residents.map(({ pid, name, namespace }) => `${namespace} of process ${pid} (${name})`),
      ...mountLines()
        .filter((line) => this.#mounts.has(line))
        .map((line) => `mount ${line.split(' ')[4]}`),
    ];
  }
}

function mountLines(): string[] {
  return readText('/proc/self/mountinfo').split('\n').filter(Boolean);
}

/** Asks the kernel for the object itself: it may be held without any process, by a pin. */
function isInKernel(kind: ObjectKind, id: number): boolean {
  const attributes = new Uint8Array(128);
  new DataView(attributes.buffer).setUint32(0, id, true);
  const fd = libc.bpf(syscallNumbers.bpf, openById[kind], attributes, attributes.byteLength);
  if (fd < 0) return errno() !== constants.errno.ENOENT;
  libc.close(fd);
  return true;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
