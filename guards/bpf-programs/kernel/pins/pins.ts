/**
 * Where everything is pinned, in one directory of the host's bpffs:
 *
 *     programs/KEY/GENERATION/program         loaded alone
 *     programs/KEY/GENERATION/maps/NAME
 *     programs/KEY/GENERATION/gated           attached in its place, for one container only
 *     programs/KEY/GENERATION/link
 *     chains/KEY/program                      composed
 *     chains/KEY/runs                         how often each member ran, per CPU
 *     chains/KEY/link                         for XDP
 */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { type Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { linkInfo, programInfo } from '../info.ts';
import { detach } from '../link/xdp.ts';
import { openPin, removePinDirectory, unpin } from './pin.ts';
import type { ProgramRecord } from '../records.ts';

export class Pins {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  program({ key, generation }: Pick<ProgramRecord, 'generation' | 'key'>): string {
    return join(this.root, 'programs', key, String(generation));
  }

  chain(key: string): string {
    return join(this.root, 'chains', key);
  }

  /** Existing generations of programs, whether or not there are records of them. */
  programs(): readonly { readonly key: string; readonly generation: string }[] {
    return listed(join(this.root, 'programs')).flatMap((key) =>
      this.generations(key).map((generation) => ({ key, generation })),
    );
  }

  /** The generations of one key. */
  generations(key: string): readonly string[] {
    return listed(join(this.root, 'programs', key));
  }

  chains(): readonly string[] {
    return listed(join(this.root, 'chains'));
  }

  removeProgram({ key, generation }: { readonly key: string; readonly generation: string }): void {
    const directory = join(this.root, 'programs', key);
    detachOwn(join(directory, generation));
    removeTree(join(directory, generation));
    removePinDirectory(directory);
  }

  removeChain(key: string): void {
    removeTree(this.chain(key));
  }

  /** Removes the directories that are empty. */
  removeEmpty(): void {
    for (const name of ['programs', 'chains']) removePinDirectory(join(this.root, name));
    removePinDirectory(this.root);
  }
}

/** The program pinned at a path, if it has this ID; the caller disposes of it. */
export function openProgram(path: string, programId: number): Descriptor | undefined {
  const found = openPin(path);
  if (found === undefined) return undefined;
  if (programInfo(found.fd).id === programId) return found;
  found[Symbol.dispose]();
  return undefined;
}

/**
 * Detaches a link before it is unpinned: otherwise the kernel would release it some milliseconds later, and its program would see packets
 * until then. A link that has been switched to another program stays attached.
 */
function detachOwn(directory: string): void {
  using link = openPin(join(directory, 'link'));
  using program = openPin(join(directory, 'program'));
  if (link === undefined || program === undefined) return;
  if (linkInfo(link.fd).programId === programInfo(program.fd).id) detach(link);
}

/** Removes links first, so that no program runs with parts missing. */
function removeTree(path: string): void {
  const names = listed(path).toSorted((a, b) => Number(b === 'link') - Number(a === 'link'));
  for (const name of names) {
    const below = join(path, name);
    if (lstatSync(below).isDirectory()) removeTree(below);
    else unpin(below);
  }
  removePinDirectory(path);
}

function listed(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
