/**
 * The host's records of each program and chain besides the pins: on tmpfs, because bpffs is also empty after
 * a reboot of the machine. The kernel does not return relocated instructions, so they are kept for the next
 * composition, with maps by their index in the record.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Instructions } from '../../../lib/ebpf/instructions.ts';
import type { AttachType, Direction, RefusedVersion, RunningProgram } from './desired.ts';
import type { Admitted } from './tenant/admission.ts';

export const RECORD_VERSION = 2;

export interface KeptMap {
  /** In C; of a section of global variables libbpf's name for it. */
  readonly name: string;
  /** Global variables: never shared. */
  readonly internal: boolean;
  readonly id: number;
  /** Its file below `maps/` of the program. */
  readonly pin: string;
  /** LIBBPF_PIN_BY_NAME: one map with those of the same name in its namespace. */
  readonly byName?: boolean;
  /** Whether it is the map of the program whose maps this one shares. */
  readonly shared?: boolean;
  /**
   * Places of global variables, and their values before the program ran. Undefined: not carried over.
   */
  readonly initial?: string;
  /** For a namespaced program: the memory that it counts for. */
  readonly bytes?: number;
}

/** A file that a uprobe is in. */
export interface ProbedFile {
  /** Pin of its link, in the directory of the program. */
  readonly pin: string;
  /** In its root. */
  readonly path: string;
  /** Device and inode, decimal: the file stays the same while a uprobe is in it. */
  readonly file: string;
  /** Size and time of the last change: of a file that was written in place, they differ. */
  readonly content: string;
  /** State of ld.so.cache, if it decides about the path: {@link file} and {@link content}. */
  readonly cache: string;
}

export interface ProgramRecord {
  readonly version: typeof RECORD_VERSION;
  readonly id: string;
  /** Names the directory of its pins: that of the id it was loaded for, which may differ by now. */
  readonly key: string;
  /** Counted up with each load; names the directory in it. */
  readonly generation: number;
  readonly owner: string;
  readonly name: string;
  readonly namespace: string | undefined;
  /** Undefined in the records of earlier versions. */
  readonly source?: string;
  readonly digest: string;
  readonly functionName: string;
  readonly type: AttachType;
  /** Key of all inputs of loading: a different key requires loading again. */
  readonly loadKey: string;
  /** Key of the place where it is attached individually; '' for members of chains. */
  readonly attachKey: string;
  /** For a uprobe: the file that its target resolves to; undefined without a file. */
  readonly probed?: ProbedFile | undefined;
  /** Files that it resolved to before, and which processes still use. */
  readonly probedBefore?: readonly ProbedFile[];
  readonly attachPoint: string;
  /** As in {@link DesiredProgram}. */
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
  /** For TCX, as of the time when it was ordered. */
  readonly priority?: number;
  readonly programId: number;
  readonly gpl: boolean;
  readonly hasFrags: boolean;
  /** Whose maps it uses, as of when it was loaded. */
  readonly sharedWith: { readonly id: string; readonly programId: number } | undefined;
  readonly maps: readonly KeptMap[];
  /** For a namespaced program: the inputs of the rules. */
  readonly tenant: Admitted | undefined;
  readonly notes: readonly string[];
  /** The result of the last pass, see {@link RunningProgram}. */
  readonly refused?: RefusedVersion | undefined;
}

export interface KeptMember {
  readonly id: string;
  readonly programId: number;
  readonly priority: number;
  readonly proceedOn: number;
  readonly slot: number;
}

/** The chain of one hook. */
export interface ChainRecord {
  readonly version: typeof RECORD_VERSION;
  readonly key: string;
  readonly kind: 'tc' | 'xdp';
  readonly interface: string;
  readonly interfaceIndex: number;
  readonly direction: Direction | undefined;
  /** Decimal. */
  readonly namespaceInode: string;
  readonly inContainer: boolean;
  readonly members: readonly KeptMember[];
  /** Next slot of the runs map: slots are not reused, because they contain another member's count. */
  readonly nextSlot: number;
  /** Id of the composed program. */
  readonly programId: number;
  readonly notes: readonly string[];
  /** Whether the clsact qdisc is ours, to be taken away with the last filter. */
  readonly madeQdisc: boolean;
}

/** A name for files and pins, which must not contain dots: readable, and unique for each id. */
export function keyOf(id: string): string {
  const readable = id.replaceAll(/[^A-Za-z0-9-]+/g, '_').slice(0, 60);
  return `${readable}-${createHash('sha256').update(id).digest('hex').slice(0, 12)}`;
}

/** As `rampart bpf list` shows it. */
export function runningProgram(record: ProgramRecord): RunningProgram {
  const { id, owner, programId, type, functionName, source = '', digest, maps, refused } = record;
  const place = { attachPoint: record.attachPoint, pod: record.pod, container: record.container };
  const mapIds = maps.map((map) => map.id);
  return {
    ...{ id, owner, programId, type, functionName, source, digest, ...place, mapIds },
    ...(refused && { refused }),
  };
}

/** The records in a directory. One process at a time writes them. */
export class Records {
  readonly #programs: string;
  readonly #chains: string;

  /** Opens it for reading; the directory may be missing. */
  constructor(directory: string) {
    this.#programs = join(directory, 'programs');
    this.#chains = join(directory, 'chains');
  }

  /** For writing: creates the directory. @throws {Error} of the file system */
  static open(directory: string): Records {
    const records = new Records(directory);
    for (const path of [records.#programs, records.#chains])
      mkdirSync(path, { recursive: true, mode: 0o700 });
    return records;
  }

  /** The readable records; leftovers of an interrupted write are skipped. */
  programs(): ProgramRecord[] {
    return readAll<ProgramRecord>(this.#programs);
  }

  chains(): ChainRecord[] {
    return readAll<ChainRecord>(this.#chains);
  }

  putProgram(record: ProgramRecord): void {
    replaceFile(join(this.#programs, `${record.key}.json`), JSON.stringify(record));
  }

  /** Before the record that has that generation. */
  putInstructions(place: Pick<ProgramRecord, 'generation' | 'key'>, instructions: Instructions): void {
    replaceFile(this.#instructionsPath(place), instructions.bytes);
  }

  putChain(record: ChainRecord): void {
    replaceFile(join(this.#chains, `${record.key}.json`), JSON.stringify(record));
  }

  /** With maps by their index in the record. @throws {Error} of the file system */
  instructions(place: Pick<ProgramRecord, 'generation' | 'key'>): Instructions {
    return new Instructions(readFileSync(this.#instructionsPath(place)));
  }

  /** Drops the records and instructions of all programs but these. */
  keepPrograms(programs: Iterable<ProgramRecord>): void {
    const kept = new Set<string>();
    for (const record of programs) {
      kept.add(`${record.key}.json`);
      kept.add(`${record.key}.${record.generation}.insns`);
    }
    for (const name of readdirSync(this.#programs))
      if (!kept.has(name)) rmSync(join(this.#programs, name), { force: true });
  }

  dropChain(key: string): void {
    rmSync(join(this.#chains, `${key}.json`), { force: true });
  }

  #instructionsPath({ key, generation }: Pick<ProgramRecord, 'generation' | 'key'>): string {
    return join(this.#programs, `${key}.${generation}.insns`);
  }
}

function readAll<T extends { readonly version: number }>(directory: string): T[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => name.endsWith('.json'))
    .toSorted()
    .flatMap((name) => {
      try {
        const record = JSON.parse(readFileSync(join(directory, name), 'utf8')) as T;
        return record.version === RECORD_VERSION ? [record] : [];
      } catch {
        return [];
      }
    });
}

/** A reader sees either the old or the new one. */
function replaceFile(path: string, data: Uint8Array | string): void {
  writeFileSync(`${path}.new`, data, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
