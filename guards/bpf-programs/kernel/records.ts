/**
 * The host's records of programs and chains, in addition to the pins. On tmpfs, because bpffs is also empty after a reboot. The kernel does
 * not return relocated instructions, so they are kept here for the next composition, with maps replaced by their index in the record.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Instructions } from '../../../lib/ebpf/instructions.ts';
import type { AttachType, Direction, RefusedVersion, RunningProgram } from './desired.ts';
import type { Admitted } from './tenant/admission.ts';

export const RECORD_VERSION = 2;

export interface KeptMap {
  /** The name in C; for a section of global variables, libbpf's name. */
  readonly name: string;
  /** Whether it is a section of global variables, which is never shared. */
  readonly internal: boolean;
  readonly id: number;
  /** The name of its pin in the program's directory `maps/`. */
  readonly pin: string;
  /** LIBBPF_PIN_BY_NAME: maps with the same name in one namespace are one map. */
  readonly byName?: boolean;
  /** Whether it belongs to the program whose maps this program shares. */
  readonly shared?: boolean;
  /** Digest of the places of global variables and their initial values. Undefined: the map is not carried over. */
  readonly initial?: string;
  /** For a namespaced program: how much memory it counts for. */
  readonly bytes?: number;
}

/** A file to which a uprobe is attached. */
export interface ProbedFile {
  /** The pin of its link, in the program's directory. */
  readonly pin: string;
  /** The path in the root where it was resolved. */
  readonly path: string;
  /** Device and inode, in decimal: they cannot be reused while a uprobe is attached to the file. */
  readonly file: string;
  /** Size and time of the last change: they show if the file was written in place. */
  readonly content: string;
  /** State of ld.so.cache, if the path was found with it: its {@link file} and {@link content}. */
  readonly cache: string;
}

export interface ProgramRecord {
  readonly version: typeof RECORD_VERSION;
  readonly id: string;
  /** Names the directory of its pins: derived from the id that it was loaded for, which may differ from `id`. */
  readonly key: string;
  /** Incremented with each load; names the directory below that of the key. */
  readonly generation: number;
  readonly owner: string;
  readonly name: string;
  readonly namespace: string | undefined;
  /** Undefined in the records of earlier versions. */
  readonly source?: string;
  readonly digest: string;
  readonly functionName: string;
  readonly type: AttachType;
  /** Key of all inputs of loading: if it differs, the program has to be loaded again. */
  readonly loadKey: string;
  /** Key of the place where the program is attached individually; '' for members of chains. */
  readonly attachKey: string;
  /** For a uprobe: the file that its target resolves to; undefined if the file does not exist. */
  readonly probed?: ProbedFile | undefined;
  /** Files that the target resolved to earlier, and which processes still use. */
  readonly probedBefore?: readonly ProbedFile[];
  readonly attachPoint: string;
  /** As in {@link DesiredProgram}. */
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
  /** For TCX: the priority that its position results from. */
  readonly priority?: number;
  readonly programId: number;
  readonly gpl: boolean;
  readonly hasFrags: boolean;
  /** The program whose maps it has used since it was loaded. */
  readonly sharedWith: { readonly id: string; readonly programId: number } | undefined;
  readonly maps: readonly KeptMap[];
  /** For a namespaced program: what was found when it was checked against the rules. */
  readonly tenant: Admitted | undefined;
  readonly notes: readonly string[];
  /** The version that was refused in the last pass, see {@link RunningProgram}. */
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
  /** In decimal. */
  readonly namespaceInode: string;
  readonly inContainer: boolean;
  readonly members: readonly KeptMember[];
  /** Next slot of the runs map: slots are not reused, because they contain another member's count. */
  readonly nextSlot: number;
  /** The kernel's ID of the composed program. */
  readonly programId: number;
  readonly notes: readonly string[];
  /** Whether Rampart created the clsact qdisc, which is then removed with the last filter. */
  readonly madeQdisc: boolean;
}

/** A name for files and pins, which must not contain dots: readable, and unique for each id. */
export function keyOf(id: string): string {
  const readable = id.replaceAll(/[^A-Za-z0-9-]+/g, '_').slice(0, 60);
  return `${readable}-${createHash('sha256').update(id).digest('hex').slice(0, 12)}`;
}

/** In the form that `rampart bpf list` shows. */
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

  /** Opens the records for reading; the directory need not exist. */
  constructor(directory: string) {
    this.#programs = join(directory, 'programs');
    this.#chains = join(directory, 'chains');
  }

  /** Opens the records for writing: creates the directory if necessary. @throws {Error} errors of the file system */
  static open(directory: string): Records {
    const records = new Records(directory);
    for (const path of [records.#programs, records.#chains])
      mkdirSync(path, { recursive: true, mode: 0o700 });
    return records;
  }

  /** The readable records; what an interrupted write has left is skipped. */
  programs(): ProgramRecord[] {
    return readAll<ProgramRecord>(this.#programs);
  }

  chains(): ChainRecord[] {
    return readAll<ChainRecord>(this.#chains);
  }

  putProgram(record: ProgramRecord): void {
    replaceFile(join(this.#programs, `${record.key}.json`), JSON.stringify(record));
  }

  /** Call it before the record with this generation is stored. */
  putInstructions(place: Pick<ProgramRecord, 'generation' | 'key'>, instructions: Instructions): void {
    replaceFile(this.#instructionsPath(place), instructions.bytes);
  }

  putChain(record: ChainRecord): void {
    replaceFile(join(this.#chains, `${record.key}.json`), JSON.stringify(record));
  }

  /** The instructions, with maps replaced by their index in the record. @throws {Error} errors of the file system */
  instructions(place: Pick<ProgramRecord, 'generation' | 'key'>): Instructions {
    return new Instructions(readFileSync(this.#instructionsPath(place)));
  }

  /** Drops the records and instructions of all other programs. */
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

/** Replaces a file atomically: a reader sees either the old or the new content. */
function replaceFile(path: string, data: Uint8Array | string): void {
  writeFileSync(`${path}.new`, data, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
