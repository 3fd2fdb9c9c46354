/** Which eBPF objects a process holds and whether the kernel still has them, for tests. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Ids of eBPF objects. The kernel gives an id once only, until it has counted through all of them. */
export interface KernelObjects {
  readonly prog: ReadonlySet<number>;
  readonly map: ReadonlySet<number>;
  readonly link: ReadonlySet<number>;
}

const kinds = ['prog', 'map', 'link'] as const;

/** The eBPF objects that a process holds: each is behind a descriptor of its own. */
export function heldBy(pid: number): KernelObjects {
  const held = { prog: new Set<number>(), map: new Set<number>(), link: new Set<number>() };
  for (const fd of readdirSync(`/proc/${pid}/fdinfo`)) {
    let info = '';
    try {
      info = readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8');
    } catch {
      continue; // closed meanwhile
    }
    for (const kind of kinds) {
      const id = new RegExp(`^${kind}_id:\\s*(\\d+)$`, 'm').exec(info)?.[1];
      if (id !== undefined) held[kind].add(Number(id));
    }
  }
  return held;
}

/** How often bpftool is asked again: it fails when an object goes away while it lists, as others' do at any time. */
const LISTINGS = 10;

function list(kind: (typeof kinds)[number]): readonly { readonly id: number }[] {
  let failure = '';
  for (let attempt = 0; attempt < LISTINGS; attempt++) {
    const { stdout, status, stderr } = spawnSync('bpftool', ['-j', kind, 'show'], {
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    });
    if (status === 0) return JSON.parse(stdout || '[]') as { id: number }[];
    failure = stderr || stdout;
  }
  throw new Error(`bpftool ${kind} show: ${failure}`);
}

/** Those of these objects that the kernel still has, as "prog 4711". */
export function leftOf(objects: KernelObjects): string[] {
  return kinds.flatMap((kind) =>
    list(kind)
      .filter(({ id }) => objects[kind].has(id))
      .map(({ id }) => `${kind} ${id}`),
  );
}

/** Resolves when the kernel has freed all of them, which is a little after their process ended. */
export async function untilGone(objects: KernelObjects): Promise<void> {
  const signal = AbortSignal.timeout(20_000);
  for (let left = leftOf(objects); left.length > 0; left = leftOf(objects)) {
    if (signal.aborted) throw new Error(`still in the kernel: ${left.join(', ')}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
