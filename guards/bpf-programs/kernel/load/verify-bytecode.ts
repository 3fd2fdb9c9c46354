/** Checks whether the kernel accepts programs, by loading and unloading them. Nothing is attached. */
import { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import { BpfObject } from '../../../../lib/ebpf/object.ts';
import type { AttachType } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { sectionType } from './declared-type.ts';
import { type LoadRequest, type ProgramRequest, tryLoad } from './load-object.ts';
import { statisticsOf, tryTogether, type UseLoaded } from './try-together.ts';
import { isAttachType, Refusals } from '../refusals.ts';
import { tenantTypes } from '../tenant/allowed.ts';
import { type MapHold, MapRoom } from '../tenant/map-room.ts';
import type { TenantRules } from '../tenant/rules.ts';

export interface VerifyRequest {
  /** Verifies only this program. */
  readonly functionName?: string;
  /** The type to load it as. Default: the type that its section determines. */
  readonly type?: AttachType;
  /** The type of a program whose section does not determine it. */
  readonly otherwise?: (functionName: string) => AttachType | undefined;
  /** Also checks the rules for programs of namespaced kinds. */
  readonly tenants?: TenantRules;
}

/** One program as a Kubernetes object requests it. */
export interface WantedProgram {
  readonly functionName: string;
  readonly type: AttachType;
  /** The function to load fentry and fexit programs for; undefined: the one that the section names. */
  readonly kernelFunction?: string | undefined;
}

export interface VerifiedProgram {
  readonly functionName: string;
  readonly section: string;
  /** May be a type that no resource kind has, such as `lsm`. Undefined if neither the caller nor the section determines it. */
  readonly type: string | undefined;
  readonly loads: boolean;
  /** How many instructions the verifier processed. */
  readonly verifiedInstructions: number;
  /** The verifier's own line: `processed 12 insns (limit 1000000) max_states_per_insn 0 ...`. */
  readonly statistics: string;
  /** Why it is refused, in complete sentences with the verifier's last lines; '' if it loads. */
  readonly message: string;
}

const LOG_BYTES = 64 * 1024;
const NOT_TRIED = 'It was not loaded, as another one of its type was refused.';

/**
 * Verifies the programs of an object file.
 *
 * @throws {ProgramFailure} `bytecode`: it is not an eBPF object file, or has no such program.
 */
export function verifyBytecode(bytes: Uint8Array, request: VerifyRequest = {}): readonly VerifiedProgram[] {
  const programs = sectionsOf(bytes).filter(
    ({ functionName }) => request.functionName === undefined || request.functionName === functionName,
  );
  if (programs.length === 0)
    throw new ProgramFailure('bytecode', `The bytecode has no program ${request.functionName ?? 'at all'}.`);
  const known = programs.map(({ functionName, section, declared }): Known => ({
    ...{ functionName, section },
    type: request.type ?? declared ?? request.otherwise?.(functionName),
  }));
  return verifyAll(bytes, known, { globals: {}, tenants: request.tenants });
}

/**
 * Verifies those programs of an eBPF object file that a Kubernetes object requests, with the types that it gives them.
 *
 * @param use - Called with the programs that were loaded, if any, while the eBPF object is open.
 * @returns results in the order of `wanted`.
 * @throws {ProgramFailure} `bytecode`: it is not an eBPF object file.
 */
export function verifyWanted(
  bytes: Uint8Array,
  wanted: readonly WantedProgram[],
  given: Given,
  use?: UseLoaded<ProgramRequest>,
): readonly VerifiedProgram[] {
  const sections = new Map(sectionsOf(bytes).map((one) => [one.functionName, one.section]));
  const known = wanted.map((one): Known => ({ ...one, section: sections.get(one.functionName) ?? '' }));
  return verifyAll(bytes, known, given, use);
}

/** What all programs of a file have in common. */
interface Given {
  readonly globals: LoadRequest['globals'];
  /** Undefined for cluster-scoped kinds, which no rules apply to. */
  readonly tenants: TenantRules | undefined;
}

interface Known {
  readonly functionName: string;
  readonly section: string;
  readonly type: string | undefined;
  readonly kernelFunction?: string | undefined;
}

interface Section {
  readonly functionName: string;
  readonly section: string;
  readonly declared: string | undefined;
}

function sectionsOf(bytes: Uint8Array): readonly Section[] {
  try {
    using object = BpfObject.open(bytes, 'to be verified');
    return object.programs().map((program) => ({
      functionName: program.name,
      section: program.section,
      declared: sectionType(program),
    }));
  } catch (error) {
    throw failureOf(error, 'bytecode');
  }
}

function verifyAll(
  bytes: Uint8Array,
  programs: readonly Known[],
  given: Given,
  use?: UseLoaded<ProgramRequest>,
): readonly VerifiedProgram[] {
  const requests = programs.map((known) => refusalOf(known, given.tenants) ?? requestOf(known));
  const loads = requests.filter((request) => typeof request !== 'string');
  const firsts = loads.filter(
    ({ functionName }, at) => loads.findIndex((other) => other.functionName === functionName) === at,
  );
  const accepted = tryTogether(loadRequest(bytes, firsts, given), use);
  const refusals = new Refusals();
  const impossible = new Set<ProgramRequest['type']>();
  return programs.map((known, at): VerifiedProgram => {
    const { functionName, section, type } = known;
    const request = requests[at];
    const reported = { functionName, section, type };
    const refused = (message: string): VerifiedProgram => ({
      ...{ ...reported, loads: false, verifiedInstructions: 0, statistics: '', message },
    });
    if (request === undefined || typeof request === 'string') return refused(request ?? '');
    const together = accepted.get(request);
    if (together !== undefined) return { ...reported, loads: true, ...together, message: '' };
    // The kernel has already refused this type of program altogether.
    if (impossible.has(request.type))
      return refused(refusals.explain(new ProgramFailure('load', NOT_TRIED), type ?? '').message);
    const verified = verifyAlone(loadRequest(bytes, [request], given), reported, refusals);
    if (!verified.loads && !refusals.answer(type ?? '').available) impossible.add(request.type);
    return verified;
  });
}

/** Why loading is not even tried. */
function refusalOf({ section, type }: Known, tenants: TenantRules | undefined): string | undefined {
  if (type === undefined)
    return `The section ${section} does not determine the type of the program. In an image, the label io.ebpf.programs does; for rampart bpf verify, --type does.`;
  if (tenants === undefined || tenantTypes.has(type)) return undefined;
  return `There is no namespaced kind for ${type} programs, only for ${[...tenantTypes].join(', ')}.`;
}

function requestOf({ functionName, section, type, kernelFunction }: Known): ProgramRequest {
  const isTracing = type === 'fentry' || type === 'fexit';
  return {
    functionName,
    type: type !== undefined && isAttachType(type) ? type : undefined,
    kernelFunction: isTracing ? (kernelFunction ?? section.split('/')[1]) : undefined,
  };
}

function loadRequest(
  bytes: Uint8Array,
  programs: readonly ProgramRequest[],
  { globals, tenants }: Given,
): LoadRequest {
  const shown = programs.length === 1 ? (programs[0]?.functionName ?? '') : 'to be verified';
  return {
    ...{ shown, bytes, programs, globals },
    admission: tenants && {
      rules: tenants,
      takeRoom: (maps: readonly MapHold[]) => new MapRoom(tenants, []).take(shown, '', maps),
    },
  };
}

function verifyAlone(
  request: LoadRequest,
  reported: Pick<VerifiedProgram, 'functionName' | 'section' | 'type'>,
  refusals: Refusals,
): VerifiedProgram {
  const log = new FixedBuffer(LOG_BYTES);
  try {
    const { verifiedInstructions } = tryLoad(request, {}, log);
    return { ...reported, loads: true, verifiedInstructions, statistics: statisticsOf(log), message: '' };
  } catch {
    // Load it again below, to get the reason.
  }
  try {
    const { verifiedInstructions } = tryLoad(request);
    return { ...reported, loads: true, verifiedInstructions, statistics: '', message: '' };
  } catch (error) {
    const { message } = refusals.explain(failureOf(error, 'load'), reported.type ?? '');
    return { ...reported, loads: false, verifiedInstructions: 0, statistics: statisticsOf(log), message };
  }
}
