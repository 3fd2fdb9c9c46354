/**
 * The type that a program is declared as: by its section, and by the labels of its image. A program may run although it is loaded as
 * another type, because sections can have any name; but if the kernel refuses it, the wrong type is the reason, and the verifier's log is
 * misleading.
 */
import { RampartError } from '../../../../lib/errors/errors.ts';
import type { BpfObject, BpfProgram } from '../../../../lib/ebpf/object.ts';
import type { AttachType } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { programTypes } from './program-types.ts';

/** `enum bpf_prog_type` of include/uapi/linux/bpf.h. */
const typeNames: readonly string[] =
  `unspec socket_filter kprobe tc tc tracepoint xdp perf_event cgroup_skb cgroup_sock lwt_in lwt_out lwt_xmit
  sock_ops sk_skb cgroup_device sk_msg raw_tracepoint cgroup_sock_addr lwt_seg6local lirc_mode2 sk_reuseport
  flow_dissector cgroup_sysctl raw_tracepoint cgroup_sockopt tracing struct_ops ext lsm sk_lookup syscall netfilter`.split(
    /\s+/,
  );
const TRACING = 26;
const UNKNOWN = 0;
/** Types whose section names a kernel function: tracing, struct_ops, ext, lsm. */
const ofKernelFunctions: ReadonlySet<number> = new Set([TRACING, 27, 28, 29]);
/** How the sections of further kinds of tracing programs begin. */
const tracingKind = /^(fmod_ret|iter|tp_btf)/;
/** Names in sections and labels of types that the kernel does not distinguish: each has one name that stands for all. */
const sameAs: Readonly<Record<string, string>> = {
  kretprobe: 'kprobe',
  uprobe: 'kprobe',
  uretprobe: 'kprobe',
  tcx: 'tc',
  classifier: 'tc',
  sched_cls: 'tc',
};

/** Matched with any suffix: people write `classifier/stats`, which libbpf does not know. */
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

/** The type that the program's section declares; undefined if it declares none. Call it before the program is set to another type. */
export function sectionType({ type, section }: BpfProgram): string | undefined {
  const known = sections.find(([pattern]) => pattern.test(section))?.[1];
  if (known !== undefined) return known;
  if (type === UNKNOWN) return undefined;
  if (type === TRACING) return tracingKind.exec(section)?.[1] ?? 'tracing';
  return typeNames[type] ?? `type ${type}`;
}

export interface DeclaredType {
  readonly functionName: string;
  readonly section: string;
  readonly bySection: string | undefined;
  readonly byLabel: string | undefined;
  /** The declared types of all programs in the object file, keyed by function. */
  readonly ofTypes: ReadonlyMap<string, string>;
}

/** Call it before the program is set to another type. @param byLabel - Its type in the label `io.ebpf.programs` of its image. */
export function declaredType(
  object: BpfObject,
  program: BpfProgram,
  byLabel: string | undefined,
): DeclaredType {
  const ofTypes = new Map(
    object.programs().flatMap((one) => {
      const type = sectionType(one);
      return type === undefined ? [] : [[one.name, type] as const];
    }),
  );
  const { name: functionName, section } = program;
  return { functionName, section, bySection: sectionType(program), byLabel, ofTypes };
}

/** The failure, with the declared type as its reason if the program is loaded as another type. */
export function asOtherType(
  failure: ProgramFailure,
  type: AttachType,
  declared: DeclaredType,
): ProgramFailure {
  const other = otherType(type, declared);
  const { cause, message, reason, mayPass } = failure;
  if (other === undefined || (reason !== 'load' && reason !== 'not-allowed')) return failure;
  const hasLog = cause instanceof RampartError && cause.detail;
  const answer = String(hasLog ? message.split('\n')[0] : message).replace(/\.$/, '');
  return new ProgramFailure(reason, `${other} As ${type}, it is refused: ${answer}.`, mayPass, failure);
}

/**
 * Refuses a program whose section names a kernel function, unless it is loaded as a tracing program. libbpf would look up that function in
 * kernel types that it has not read, and crash (libbpf_prepare_prog_load of src/libbpf.c).
 *
 * @param typeNumber - enum bpf_prog_type, according to the section.
 * @throws {ProgramFailure} `load`
 */
export function refuseKernelFunctions(typeNumber: number, type: AttachType, declared: DeclaredType): void {
  if (!ofKernelFunctions.has(typeNumber) || programTypes[type].type === TRACING) return;
  throw new ProgramFailure(
    'load',
    otherType(type, declared) ?? 'Its section is for another type of program.',
  );
}

/** The declared type in a sentence; undefined if section and label declare the requested type, or none. */
function otherType(type: AttachType, declared: DeclaredType): string | undefined {
  const { functionName, section, ofTypes, bySection, byLabel } = declared;
  const isOther = (name: string | undefined): boolean =>
    name !== undefined && name !== '' && kernelType(name) !== kernelType(type);
  const says = [
    ...(isOther(bySection) ? [`its section ${section} says ${bySection}`] : []),
    ...(isOther(byLabel) ? [`the label of its image says ${byLabel}`] : []),
  ];
  if (says.length === 0) return undefined;
  const fitting = [...ofTypes]
    .filter(([, one]) => kernelType(one) === kernelType(type))
    .map(([name]) => name);
  const next =
    fitting.length === 0
      ? `Use the kind for its type; the bytecode has no ${type} program.`
      : `Use the kind for its type, or name a program of type ${type}: ${fitting.toSorted().join(', ')}.`;
  return `${functionName} is loaded as ${type}, but ${says.join(', and ')}. ${next}`;
}

function kernelType(name: string): string {
  return sameAs[name] ?? name;
}
