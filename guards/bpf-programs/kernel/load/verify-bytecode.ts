/** Checks whether the kernel accepts programs: each is loaded on its own and unloaded again. Nothing is attached. */
import { cString } from '../../../../lib/ebpf/bpf-call.ts';
import { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import { BpfObject } from '../../../../lib/ebpf/object.ts';
import type { AttachType } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { tryAlone } from './load-alone.ts';
import { Refusals } from '../refusals.ts';

export interface VerifyRequest {
  /** Only this program. */
  readonly functionName?: string;
  /** The type to load it as; by default, that of its section. */
  readonly type?: AttachType;
}

export interface VerifiedProgram {
  readonly functionName: string;
  readonly section: string;
  /** Undefined if neither the caller nor the section determines it. */
  readonly type: AttachType | undefined;
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

function sectionsOf(
  bytes: Uint8Array,
): readonly { readonly functionName: string; readonly section: string }[] {
  try {
    using object = BpfObject.open(bytes, 'to be verified');
    return object.programs().map(({ name, section }) => ({ functionName: name, section }));
  } catch (error) {
    throw failureOf(error, 'bytecode');
  }
}

function verifyOne(
  bytes: Uint8Array,
  { functionName, section }: { readonly functionName: string; readonly section: string },
  request: VerifyRequest,
  refusals: Refusals,
): VerifiedProgram {
  const type = request.type ?? typeOf(section);
  const known = { functionName, section, type };
  if (type === undefined) {
    const message = `The section ${section} does not determine the type of the program. In an image, the label io.ebpf.programs does.`;
    return { ...known, loads: false, verifiedInstructions: 0, statistics: '', message };
  }
  const log = new FixedBuffer(LOG_BYTES);
  const tracing = type === 'fentry' || type === 'fexit';
  const kernelFunction = tracing ? section.split('/')[1] : undefined;
  const load = {
    shown: functionName,
    bytes,
    functionName,
    type,
    kernelFunction,
    globals: {},
    admission: undefined,
  };
  try {
    const { verifiedInstructions } = tryAlone(load, log);
    return { ...known, loads: true, verifiedInstructions, statistics: statisticsOf(log), message: '' };
  } catch {
    // Once more, for the reason.
  }
  try {
    const { verifiedInstructions } = tryAlone(load);
    return { ...known, loads: true, verifiedInstructions, statistics: '', message: '' };
  } catch (error) {
    const { message } = refusals.explain(failureOf(error, 'load'), type);
    return { ...known, loads: false, verifiedInstructions: 0, statistics: statisticsOf(log), message };
  }
}

const sections: readonly (readonly [RegExp, AttachType])[] = [
  [/^xdp([./]|$)/, 'xdp'],
  [/^tcx\//, 'tcx'],
  [/^(tc|classifier|action)([./]|$)/, 'tc'],
  [/^kretprobe/, 'kretprobe'],
  [/^(kprobe|ksyscall)/, 'kprobe'],
  [/^uretprobe/, 'uretprobe'],
  [/^(uprobe|usdt)/, 'uprobe'],
  [/^(tracepoint|tp)\//, 'tracepoint'],
  [/^fentry/, 'fentry'],
  [/^fexit/, 'fexit'],
];

function typeOf(section: string): AttachType | undefined {
  return sections.find(([pattern]) => pattern.test(section))?.[1];
}

function statisticsOf({ bytes }: FixedBuffer): string {
  const lines = cString(bytes).split('\n');
  return lines.find((line) => line.startsWith('processed ')) ?? '';
}
