/**
 * Loads the requested programs of an object file together: each with its own licence, verifier log and id, and with the maps of the
 * file. Members of chains are loaded like this as well: a composition takes their instructions from here.
 */
import { join } from 'node:path';

import { setGlobals } from '../btf/globals.ts';
import { mapInfo, programInfo } from '../info.ts';
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import type { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import type { BpfMap } from '../../../../lib/ebpf/map.ts';
import { BpfObject, type BpfProgram } from '../../../../lib/ebpf/object.ts';
import { pin } from '../pins/pin.ts';
import type { Pins } from '../pins/pins.ts';
import type { AttachType } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { asOtherType, declaredType, type DeclaredType, refuseKernelFunctions } from './declared-type.ts';
import { fitSizes, shrinkHashTables } from './map-sizes.ts';
import { programTypes } from './program-types.ts';
import type { KeptMap } from '../records.ts';
import {
  type Admission,
  admitMaps,
  admitProgram,
  type Admitted,
  checkLoaded,
  checkNames,
  harmless,
} from '../tenant/admission.ts';
import { ObjectFile } from '../tenant/object-file.ts';
import { type ChosenMap, chooseMaps, type FileMap, mapsOfFile, type MapSources } from './existing-maps.ts';

/** A program to load from an object file. */
export interface ProgramRequest {
  readonly functionName: string;
  /** Undefined: the type that libbpf derives from the section, which not every section has. */
  readonly type: AttachType | undefined;
  /** The type according to the labels of its image. */
  readonly labelledType?: string | undefined;
  /** The function that fentry and fexit programs are loaded for. */
  readonly kernelFunction: string | undefined;
}

export interface LoadRequest<P extends ProgramRequest = ProgramRequest> {
  /** The owner, for messages. */
  readonly shown: string;
  readonly bytes: Uint8Array;
  /** No two of them have the same function. */
  readonly programs: readonly P[];
  readonly globals: Readonly<Record<string, Uint8Array>>;
  /** The rules for a namespaced program; undefined for a cluster-scoped one, which may do everything. */
  readonly admission: Admission | undefined;
}

export interface LoadedObject<P> {
  readonly programs: ReadonlyMap<P, LoadedFunction>;
  /** Programs that could not be loaded, although others were. */
  readonly failures: ReadonlyMap<P, ProgramFailure>;
}

export interface LoadedFunction {
  readonly programId: number;
  readonly gpl: boolean;
  readonly hasFrags: boolean;
  /** The instructions, with maps replaced by their index in `maps`. */
  readonly instructions: Instructions;
  readonly maps: readonly KeptMap[];
  readonly admitted: Admitted | undefined;
}

export interface Prepared {
  readonly program: BpfProgram;
  readonly declared: DeclaredType;
  /** Undefined if no rules apply. */
  readonly admitted: Admitted | undefined;
}

/** An open object file in which only the requested programs will be loaded, and variables are set. */
export interface Opened<P> extends Disposable {
  readonly object: BpfObject;
  readonly files: readonly FileMap[];
  readonly programs: ReadonlyMap<P, Prepared>;
  readonly failures: ReadonlyMap<P, ProgramFailure>;
}

/** The caller disposes of it. @throws {ProgramFailure} `bytecode`, `load`: the file as a whole is at fault. */
export function openObject<P extends ProgramRequest>(request: LoadRequest<P>): Opened<P> {
  const { admission, shown } = request;
  const bytes =
    admission === undefined
      ? request.bytes
      : failing('bytecode', () => harmless(request.bytes, admission.rules));
  const file = admission && failing('bytecode', () => new ObjectFile(bytes));
  const object = failing('bytecode', () => BpfObject.open(bytes, shown));
  try {
    const all = object.programs();
    const failures = new Map<P, ProgramFailure>();
    const found = new Map<P, readonly [BpfProgram, DeclaredType]>();
    const each = (wanted: P, work: () => void): void => {
      try {
        work();
      } catch (error) {
        failures.set(wanted, failureOf(error, 'load'));
      }
    };
    for (const wanted of request.programs)
      each(wanted, () => {
        const program = programOf(all, wanted);
        found.set(wanted, [program, declaredType(object, program, wanted.labelledType)]);
      });
    const programs = new Map<P, Prepared>();
    for (const [wanted, [program, declared]] of found)
      each(wanted, () => {
        prepare(program, wanted, declared);
        const { type } = wanted;
        const { section } = program;
        const admitted =
          file &&
          declaring(declared, type, () =>
            failing('bytecode', () => admitProgram(admission, file, { section, type: typeOfRules(type) })),
          );
        programs.set(wanted, { program, declared, admitted });
      });
    // Static functions may have the same name: only the chosen one is loaded.
    const chosen = new Set([...programs.values()].map(({ program }) => program));
    for (const program of all) if (!chosen.has(program)) program.autoload = false;
    failing('load', () => setGlobals(object, request.globals));
    const files = mapsOfFile(object);
    if (admission !== undefined) checkNames(files.map(({ map }) => map));
    for (const { map } of files) map.neverPin();
    fitSizes(files.map(({ map }) => map));
    return { object, files, programs, failures, [Symbol.dispose]: () => object[Symbol.dispose]() };
  } catch (error) {
    object[Symbol.dispose]();
    throw error;
  }
}

/** @throws {ProgramFailure} `bytecode` */
function programOf(all: readonly BpfProgram[], { functionName }: ProgramRequest): BpfProgram {
  const found = all.find(({ name }) => name === functionName);
  if (found === undefined) {
    const names = all.map(({ name }) => name).join(', ');
    throw new ProgramFailure(
      'bytecode',
      `The bytecode has no program ${functionName}. Name one of its programs: ${names || 'it has none'}.`,
    );
  }
  return found;
}

/** @throws {ProgramFailure} `load` */
function prepare(
  program: BpfProgram,
  { type: attachType, kernelFunction }: ProgramRequest,
  declared: DeclaredType,
): void {
  if (attachType !== undefined) {
    refuseKernelFunctions(program.type, attachType, declared);
    const { type, expectedAttachType } = programTypes[attachType];
    program.setType(type, expectedAttachType);
  }
  if (kernelFunction !== undefined) failing('load', () => program.setAttachTarget(kernelFunction));
}

function typeOfRules(type: AttachType | undefined): AttachType {
  if (type === undefined) throw new TypeError('rules are for programs of a type');
  return type;
}

/** Runs `work`. If the program is refused, its declared type may be the reason: the failure then says so. */
function declaring<T>(declared: DeclaredType, type: AttachType | undefined, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (type === undefined || !(error instanceof ProgramFailure)) throw error;
    throw asOtherType(error, type, declared);
  }
}

export interface LoadOptions<P> {
  readonly pins: Pins;
  readonly sources: MapSources;
  /** A directory in a bpffs, which must not exist yet: the program is pinned there as `program`, and its maps in `maps/`. */
  readonly directoryOf: (program: P) => string;
  /** Whether no program is loaded if one of them cannot be. */
  readonly allOrNothing: boolean;
}

/**
 * Loads and pins the programs. If the kernel does not accept all of them, each is tried alone, and those that it accepts are loaded.
 *
 * @throws {ProgramFailure} `bytecode`, `not-allowed`, `load`: the file as a whole is at fault. Pins may be left behind, including those of
 * programs that failed.
 */
export function loadObject<P extends ProgramRequest>(
  request: LoadRequest<P>,
  options: LoadOptions<P>,
): LoadedObject<P> {
  try {
    return loadOnce(request, options);
  } catch (error) {
    const isOfOne = error instanceof ProgramFailure && error.reason === 'load' && !error.mayPass;
    if (!isOfOne || request.programs.length < 2) throw error;
    const refused = new Map<P, ProgramFailure>();
    for (const program of request.programs) {
      try {
        tryLoad({ ...request, programs: [program] }, options);
      } catch (reason) {
        refused.set(program, failureOf(reason, 'load'));
      }
    }
    const accepted = request.programs.filter((program) => !refused.has(program));
    if (refused.size === 0) throw error;
    if (accepted.length === 0) return { programs: new Map(), failures: refused };
    if (options.allOrNothing) return nothing(request, refused);
    const { programs, failures } = loadOnce({ ...request, programs: accepted }, options);
    return { programs, failures: new Map([...refused, ...failures]) };
  }
}

function loadOnce<P extends ProgramRequest>(
  request: LoadRequest<P>,
  { pins, sources, directoryOf, allOrNothing }: LoadOptions<P>,
): LoadedObject<P> {
  using opened = openObject(request);
  const { files } = opened;
  const failures = new Map(opened.failures);
  if (opened.programs.size === 0) return { programs: new Map(), failures };
  if (allOrNothing && failures.size > 0) return nothing(request, failures);
  const chosen = chooseMaps(pins, request.shown, files, sources);
  const bytes = load(request, opened, chosen);
  const programs = new Map<P, LoadedFunction>();
  for (const [wanted, prepared] of opened.programs) {
    try {
      failing('load', () => {
        const admitted = checked(request, opened, wanted, prepared);
        const { program } = prepared;
        const instructions = program.instructions();
        const directory = directoryOf(wanted);
        const maps = keep({ files, chosen, bytes }, instructions, directory);
        pin(program.fd, join(directory, 'program'));
        const { id: programId, gplCompatible: gpl } = programInfo(program.fd);
        const hasFrags = program.section.startsWith('xdp.frags');
        programs.set(wanted, { programId, gpl, hasFrags, instructions, maps, admitted });
      });
    } catch (error) {
      failures.set(wanted, failureOf(error, 'load'));
    }
  }
  if (allOrNothing && failures.size > 0) return nothing(request, failures);
  return { programs, failures };
}

/**
 * @param isTrial - Whether the programs will be unloaded again, without anything reading their maps.
 * @returns the memory of each map, if rules apply.
 * @throws {ProgramFailure} `not-allowed`, `load`: then no program is loaded.
 */
export function load<P extends ProgramRequest>(
  request: LoadRequest<P>,
  { object, files, programs }: Opened<P>,
  chosen: ReadonlyMap<BpfMap, ChosenMap>,
  isTrial = false,
): ReadonlyMap<BpfMap, number> | undefined {
  const bytes = mapBytes(request, files, chosen);
  if (isTrial) shrinkHashTables(files.map(({ map }) => map).filter((map) => !chosen.has(map)));
  const [only, ...others] = programs;
  const work = (): void => failing('load', () => object.load());
  if (only === undefined || others.length > 0) work();
  else declaring(only[1].declared, only[0].type, work);
  return bytes;
}

/** Checks the instructions that the kernel received against the rules. @throws {ProgramFailure} `not-allowed` */
export function checked<P extends ProgramRequest>(
  { admission }: LoadRequest<P>,
  { files }: Opened<P>,
  { type }: P,
  { program, declared, admitted }: Prepared,
): Admitted | undefined {
  if (admission === undefined || admitted === undefined) return undefined;
  const ownMaps = new Set(files.map(({ map }) => map.fd));
  return declaring(declared, type, () =>
    failing('load', () =>
      checkLoaded(admission, admitted, typeOfRules(type), program.instructions(), ownMaps),
    ),
  );
}

/** The memory of each map of a namespaced program; undefined if no rules apply. */
function mapBytes(
  { admission }: LoadRequest,
  files: readonly FileMap[],
  chosen: ReadonlyMap<BpfMap, ChosenMap>,
): ReadonlyMap<BpfMap, number> | undefined {
  const takenOver = new Map([...chosen].map(([map, { id, ofOthers }]) => [map, { id, shared: ofOthers }]));
  const all = files.map(({ map }) => map);
  return admission && failing('bytecode', () => admitMaps(admission, all, takenOver));
}

function nothing<P extends ProgramRequest>(
  { programs }: LoadRequest<P>,
  failures: ReadonlyMap<P, ProgramFailure>,
): LoadedObject<P> {
  const [[first, failure]] = [...failures] as [[P, ProgramFailure]];
  const all = programs.map(
    (program) => [program, failures.get(program) ?? failedTogether(first, failure)] as const,
  );
  return { programs: new Map(), failures: new Map(all) };
}

/**
 * The failure of a program that is not loaded because another one was refused. It does not have the reason `not-allowed`, which applies
 * only to the other program.
 */
export function failedTogether(
  { functionName }: Pick<ProgramRequest, 'functionName'>,
  { reason, message, mayPass }: ProgramFailure,
): ProgramFailure {
  const why = `${functionName}, which belongs to the same application, cannot be loaded: ${message}`;
  return new ProgramFailure(reason === 'not-allowed' ? 'load' : reason, why, mayPass);
}

/**
 * Loads one program and unloads it again.
 *
 * @param log - For the verifier's statistics. If the program is refused, the log does not say why: load it again without `log`.
 * @throws {ProgramFailure} `bytecode`, `not-allowed`, `load`.
 */
export function tryLoad(
  request: LoadRequest,
  { pins, sources }: Partial<Pick<LoadOptions<ProgramRequest>, 'pins' | 'sources'>> = {},
  log?: FixedBuffer,
): { readonly verifiedInstructions: number } {
  using opened = openObject(request);
  for (const failure of opened.failures.values()) throw failure;
  const [first] = opened.programs;
  if (first === undefined) throw new TypeError('nothing to load');
  const [wanted, prepared] = first;
  const takesMaps = pins !== undefined && sources !== undefined;
  const chosen = takesMaps
    ? chooseMaps(pins, request.shown, opened.files, sources)
    : new Map<BpfMap, ChosenMap>();
  // BPF_LOG_STATS: the log has only the verifier's statistics.
  if (log !== undefined) prepared.program.logTo(log, 4);
  load(request, opened, chosen, true);
  checked(request, opened, wanted, prepared);
  return programInfo(prepared.program.fd);
}

function failing<T>(reason: 'bytecode' | 'load', work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw failureOf(error, reason);
  }
}

/** Pins the maps that the program uses or may share, and replaces them in the instructions by their index. */
function keep(
  {
    files,
    chosen,
    bytes,
  }: {
    readonly files: readonly FileMap[];
    readonly chosen: ReadonlyMap<BpfMap, ChosenMap>;
    readonly bytes: ReadonlyMap<BpfMap, number> | undefined;
  },
  instructions: Instructions,
  directory: string,
): readonly KeptMap[] {
  const used = new Set(Array.from(instructions.mapReferences(), ({ immediate }) => immediate));
  const places = new Map<number, number>();
  const kept: KeptMap[] = [];
  for (const { map, byName, initial } of files) {
    const { fd, name, internal } = map;
    if (fd < 0 || (internal && !used.has(fd))) continue;
    // The name comes from the object file, which is untrusted. `data-` and `map-` cannot collide with it: no C name contains a hyphen.
    const pinName = internal ? `data-${kept.length}` : /^\w+$/.test(name) ? name : `map-${kept.length}`;
    pin(fd, join(directory, 'maps', pinName));
    places.set(fd, kept.length);
    const size = bytes?.get(map);
    kept.push({
      ...{ name, internal, id: mapInfo(fd).id, pin: pinName },
      ...(byName && { byName }),
      ...(chosen.get(map)?.shared === true && { shared: true }),
      ...(internal && initial !== undefined && { initial }),
      ...(size !== undefined && { bytes: size }),
    });
  }
  for (const { index, immediate } of instructions.copy().mapReferences())
    instructions.setImmediate(index, places.get(immediate) ?? -1);
  return kept;
}
