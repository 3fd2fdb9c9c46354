/** Which eBPF objects a process holds and whether the kernel still has them, for tests and the demo. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

import { until } from '../testing/until.fixture.ts';
import { bpf, command, Descriptor, Structure } from './bpf-call.ts';

/** Ids of eBPF objects. The kernel gives an id once only, until it has counted through all of them. */
export interface KernelObjects {
  readonly prog: ReadonlySet<number>;
  readonly map: ReadonlySet<number>;
  readonly link: ReadonlySet<number>;
}

const openById = {
  prog: command.PROG_GET_FD_BY_ID,
  map: command.MAP_GET_FD_BY_ID,
  link: command.LINK_GET_FD_BY_ID,
} as const;
const kinds = ['prog', 'map', 'link'] as const;

/** The eBPF objects that a process holds: each is behind a descriptor of its own. None if it has ended. */
export function heldBy(pid: number): KernelObjects {
  const held = { prog: new Set<number>(), map: new Set<number>(), link: new Set<number>() };
  const directory = `/proc/${pid}/fdinfo`;
  for (const fd of existsSync(directory) ? readdirSync(directory) : []) {
    let info = '';
    try {
      info = readFileSync(join(directory, fd), 'utf8');
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

/** The kernel is asked for the object itself: it may be held without any process, by a pin. */
function exists(kind: (typeof kinds)[number], id: number): boolean {
  const opened = bpf(openById[kind], new Structure(12).u32(0, id));
  if (!(opened instanceof Descriptor)) return opened.errno !== constants.errno.ENOENT;
  opened[Symbol.dispose]();
  return true;
}

/** Those of these objects that the kernel still has, as "prog 4711". */
export function leftOf(objects: KernelObjects): string[] {
  return kinds.flatMap((kind) =>
    [...objects[kind]].filter((id) => exists(kind, id)).map((id) => `${kind} ${id}`),
  );
}

/** Resolves when the kernel has freed all of them, which is a little after their process ended. */
export async function untilGone(objects: KernelObjects): Promise<void> {
  await until('the eBPF objects to be gone', () => leftOf(objects).length === 0);
}
