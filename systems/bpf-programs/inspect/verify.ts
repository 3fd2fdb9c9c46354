/**
 * Loads each program of an object file alone and lets go of it: what would become of it on this kernel.
 *
 * @module
 */
import { FixedBuffer } from '../../../shared/ebpf/libc.ts';
import { BpfObject } from '../../../shared/ebpf/object.ts';
import type { AttachType } from '../kernel/desired.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { tryAlone } from '../kernel/load-alone.ts';

export interface Verified {
  readonly functionName: string;
  readonly section: string;
  readonly type: AttachType | null;
  readonly ok: boolean;
  /** How many instructions the verifier looked at; 0 before 5.16. */
  readonly verifiedInstructions: number | null;
  /** The verifier's statistics, or why it was refused. */
  readonly log: string;
}

const LOG_BYTES = 1 << 20;

/** By the first part of the section, as libbpf's conventions are; types of bpfman that libbpf has no name for besides. */
const types: readonly (readonly [RegExp, AttachType])[] = [
  [/^xdp/, 'xdp'],
  [/^tcx/, 'tcx'],
  [/^(tc|classifier|action)/, 'tc'],
  [/^(kretprobe|ksyscall)/, 'kretprobe'],
  [/^kprobe/, 'kprobe'],
  [/^uretprobe/, 'uretprobe'],
  [/^uprobe/, 'uprobe'],
  [/^(tracepoint|tp)\b/, 'tracepoint'],
  [/^fentry/, 'fentry'],
  [/^fexit/, 'fexit'],
];

/**
 * @param typesByName - What an image says of its programs, which a section may not.
 * @param kernelFunction - Of fentry and fexit; default: that of the section.
 */
export function verifyObject(
  bytes: Uint8Array,
  shown: string,
  typesByName: Readonly<Record<string, string>> = {},
  only?: string,
): Verified[] {
  const programs = programsIn(bytes, shown).filter(({ name }) => only === undefined || name === only);
  return programs.map(({ name, section }): Verified => {
    const type = typeOf(typesByName[name] ?? section) ?? typeOf(section);
    const base = { functionName: name, section, type: type ?? null };
    if (type === undefined) {
      const log = `Section ${section} has no type that Rampart attaches.`;
      return { ...base, ok: false, verifiedInstructions: null, log };
    }
    const log = new FixedBuffer(LOG_BYTES);
    const kernelFunction = type === 'fentry' || type === 'fexit' ? section.split('/')[1] : undefined;
    try {
      const { verifiedInstructions } = tryAlone(
        { shown, bytes, functionName: name, type, kernelFunction, globals: {} },
        log,
      );
      return { ...base, ok: true, verifiedInstructions, log: textOf(log) };
    } catch (error) {
      if (!(error instanceof ProgramFailure)) throw error;
      return { ...base, ok: false, verifiedInstructions: null, log: error.message };
    }
  });
}

function programsIn(bytes: Uint8Array, shown: string): { readonly name: string; readonly section: string }[] {
  using object = BpfObject.open(bytes, shown);
  return [...object.programs()].map(({ name, section }) => ({ name, section }));
}

function typeOf(text: string): AttachType | undefined {
  return types.find(([pattern]) => pattern.test(text))?.[1];
}

function textOf({ bytes }: FixedBuffer): string {
  return bytes.toString('utf8', 0, Math.max(0, bytes.indexOf(0))).trim();
}
