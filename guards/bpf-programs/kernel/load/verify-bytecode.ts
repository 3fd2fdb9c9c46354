/** Checks whether the kernel accepts programs: each is loaded on its own and unloaded again. Nothing is attached. */
import { cString } from '../../../../lib/ebpf/bpf-call.ts';
import { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import { BpfObject } from '../../../../lib/ebpf/object.ts';
import type { AttachType } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { sectionType } from './declared-type.ts';
import { tryLoad } from './load-object.ts';
import { isAttachType, Refusals } from '../refusals.ts';
import { tenantTypes } from '../tenant/allowed.ts';
import { type MapHold, MapRoom } from '../tenant/map-room.ts';
import type { TenantRules } from '../tenant/rules.ts';

export interface VerifyRequest {
  /** Only this program. */
  readonly functionName?: string;
  /** The type to load it as; by default, that of its section. */
  readonly type?: AttachType;
  /** By the rules for programs of namespaced kinds, too. */
  readonly tenants?: TenantRules;
}

export interface VerifiedProgram {
  readonly functionName: string;
  readonly section: string;
  /** Also one that no kind of object names, such as `lsm`. Undefined if neither the caller nor the section determines it. */
  readonly type: string | undefined;
  readonly loads: boolean;
  /** How many instructions the verifier processed. */
  readonly verifiedInstructions: number;
  /** The verifier's own line: `processed 12 insns (limit 1000000) max_states_per_insn 0 ...`. */
  readonly statistics: string;
  /** Why not, in complete sentences with the verifier's last lines; '' if it loads. */
  readonly message: string;
}

const LOG_BYTES = 64 * 1024;

/**
 * Loads each program of an object file, one after the other.
 *
 * @throws {ProgramFailure} `bytecode`: it is not an eBPF object file, or has no such program.
 */
export function verifyBytecode(bytes: Uint8Array, request: VerifyRequest = {}): readonly VerifiedProgram[] {
  const refusals = new Refusals();
  const programs = sectionsOf(bytes).filter(
    ({ functionName }) => request.functionName === undefined || request.functionName === functionName,
  );
  if (programs.length === 0)
    throw new ProgramFailure('bytecode', `The bytecode has no program ${request.functionName ?? 'at all'}.`);
  return programs.map((program) => verifyOne(bytes, program, request, refusals));
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

function verifyOne(
  bytes: Uint8Array,
  { functionName, section, declared }: Section,
  request: VerifyRequest,
  refusals: Refusals,
): VerifiedProgram {
  const type = request.type ?? declared;
  const known = { functionName, section, type };
  const refused = (message: string): VerifiedProgram => ({
    ...known,
    ...{ loads: false, verifiedInstructions: 0, statistics: '', message },
  });
  if (type === undefined) {
    return refused(
      `The section ${section} does not determine the type of the program. In an image, the label io.ebpf.programs does.`,
    );
  }
  const { tenants } = request;
  if (tenants !== undefined && !tenantTypes.has(type)) {
    const kinds = [...tenantTypes].join(', ');
    return refused(`There is no namespaced kind for ${type} programs, only for ${kinds}.`);
  }
  const log = new FixedBuffer(LOG_BYTES);
  const tracing = type === 'fentry' || type === 'fexit';
  const kernelFunction = tracing ? section.split('/')[1] : undefined;
  const load = {
    shown: functionName,
    bytes,
    programs: [{ functionName, type: isAttachType(type) ? type : undefined, kernelFunction }],
    globals: {},
    admission: tenants && {
      rules: tenants,
      takeRoom: (maps: readonly MapHold[]) => new MapRoom(tenants, []).take(functionName, '', maps),
    },
  };
  try {
    const { verifiedInstructions } = tryLoad(load, {}, log);
    return { ...known, loads: true, verifiedInstructions, statistics: statisticsOf(log), message: '' };
  } catch {
    // Once more, for the reason.
  }
  try {
    const { verifiedInstructions } = tryLoad(load);
    return { ...known, loads: true, verifiedInstructions, statistics: '', message: '' };
  } catch (error) {
    const { message } = refusals.explain(failureOf(error, 'load'), type);
    return { ...refused(message), statistics: statisticsOf(log) };
  }
}

function statisticsOf({ bytes }: FixedBuffer): string {
  const lines = cString(bytes).split('\n');
  return lines.find((line) => line.startsWith('processed ')) ?? '';
}
