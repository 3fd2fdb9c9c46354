/**
 * Loads programs of one object file together and unloads them again. Opening a large file and relocating it for this kernel takes much
 * longer than verifying one program, and would be repeated for each program that is tried alone.
 */
import { cString } from '../../../../lib/ebpf/bpf-call.ts';
import { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import { ProgramFailure } from '../failure.ts';
import { programInfo } from '../info.ts';
import {
  checked,
  load,
  type LoadRequest,
  type Opened,
  openObject,
  type ProgramRequest,
} from './load-object.ts';

/** A program that this kernel accepts. */
export interface Accepted {
  readonly verifiedInstructions: number;
  /** The verifier's own line: `processed 12 insns (limit 1000000) max_states_per_insn 0 ...`. */
  readonly statistics: string;
}

/** Receives the programs that are loaded, while their eBPF object is open. */
export type UseLoaded<P extends ProgramRequest> = (loaded: Opened<P>, accepted: ReadonlySet<P>) => void;

const LOG_BYTES = 64 * 1024;
/**
 * libbpf stops at the first refused program and unloads all. The others are then tried without it, in at most this many attempts
 * altogether.
 */
const ATTEMPTS = 4;

/**
 * @param use - Called at most once.
 * @returns the accepted programs. `tryLoad` determines whether the others are refused, and why.
 */
export function tryTogether<P extends ProgramRequest>(
  request: LoadRequest<P>,
  use?: UseLoaded<P>,
): ReadonlyMap<P, Accepted> {
  let { programs } = request;
  for (let attempt = 0; attempt < ATTEMPTS && programs.length > 0; attempt++) {
    const accepted = loadOnce({ ...request, programs }, use);
    if (!(accepted instanceof ProgramFailure)) return accepted;
    const culprit = culpritOf(accepted);
    const left = programs.filter(({ functionName }) => functionName !== culprit);
    if (left.length === programs.length) break;
    programs = left;
  }
  return new Map();
}

/** Loads all programs once. Returns the failure if the kernel refuses one of them. */
function loadOnce<P extends ProgramRequest>(
  request: LoadRequest<P>,
  use: UseLoaded<P> | undefined,
): ReadonlyMap<P, Accepted> | ProgramFailure {
  try {
    using opened = openObject(request);
    const logs = new Map<P, FixedBuffer>();
    for (const [wanted, { program }] of opened.programs) {
      const log = new FixedBuffer(LOG_BYTES);
      // BPF_LOG_STATS: the log has only the verifier's statistics.
      program.logTo(log, 4);
      logs.set(wanted, log);
    }
    load(request, opened, new Map(), true);
    const accepted = new Map<P, Accepted>();
    for (const [wanted, prepared] of opened.programs) {
      if (!isAllowed(() => checked(request, opened, wanted, prepared))) continue;
      const { verifiedInstructions } = programInfo(prepared.program.fd);
      accepted.set(wanted, { verifiedInstructions, statistics: statisticsOf(logs.get(wanted)) });
    }
    use?.(opened, new Set(accepted.keys()));
    return accepted;
  } catch (error) {
    if (error instanceof ProgramFailure) return error;
    throw error;
  }
}

function isAllowed(check: () => unknown): boolean {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof ProgramFailure) return false;
    throw error;
  }
}

/** The program that libbpf names in its message: `prog 'xdp_count': failed to load: -13`. */
function culpritOf({ message }: ProgramFailure): string | undefined {
  return /prog '(.+)': failed to load/.exec(message)?.[1];
}

export function statisticsOf(log: FixedBuffer | undefined): string {
  const lines = log === undefined ? [] : cString(log.bytes).split('\n');
  return lines.find((line) => line.startsWith('processed ')) ?? '';
}
