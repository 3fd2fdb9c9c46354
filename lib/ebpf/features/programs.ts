/** Program types: each is probed by loading a program of two instructions. */
import {
  Descriptor,
  type Instruction,
  instructions,
  loadBtf,
  loadProgram,
  type Outcome,
  type ProgramRequest,
} from '../bpf-call.ts';
import type { EbpfCapability } from './capabilities.ts';
import { available, explainRefusal, type Needs, type ProbeContext, unavailable } from './reasons.ts';
import type { VmlinuxBtf } from './vmlinux-btf.ts';
import type { Feature, ProgramKind } from './feature.ts';
import { btfOf } from '../kernel-types.ts';

/**
 * A kernel function that exists for tests (net/bpf/test_run.c): only BPF_PROG_TEST_RUN calls it, so a program on it slows
 * nothing down.
 */
export const testFunction = 'bpf_fentry_test1';
/**
 * An LSM hook that is called only when the kernel log is read. fmod_ret programs are probed on its security_* function, which
 * every kernel allows; a test function for them exists only in kernels built for error injection.
 */
const quietLsmHook = 'bpf_lsm_syslog';
const quietSecurityFunction = 'security_syslog';

/** enum bpf_attach_type. */
export const attachTypes = {
  CGROUP_INET_SOCK_CREATE: 2,
  CGROUP_INET4_CONNECT: 10,
  TRACE_FENTRY: 24,
  TRACE_FEXIT: 25,
  MODIFY_RETURN: 26,
  LSM_MAC: 27,
  TRACE_ITER: 28,
  SK_LOOKUP: 36,
  XDP: 37,
  TRACE_KPROBE_MULTI: 42,
  NETFILTER: 45,
  TCX_INGRESS: 46,
} as const;

const BPF_F_SLEEPABLE = 16;
const BPF_PROG_TYPE_RAW_TRACEPOINT = 17;
const BPF_FUNC_probe_read_kernel = 113;

interface ProgramProbe extends Needs {
  /** enum bpf_prog_type. */
  readonly type: number;
  readonly expectedAttachType?: number;
  readonly flags?: number;
  /** A kernel function whose BTF type id the program is loaded for. */
  readonly attachFunction?: string;
  /** For struct_ops: a structure of function pointers, and the member that the program implements. */
  readonly implements?: { readonly struct: string; readonly member: string };
  /** The program's return value; 0 by default. */
  readonly returns?: number;
}

const bpf: readonly EbpfCapability[] = ['CAP_BPF'];
const perfmon: readonly EbpfCapability[] = ['CAP_BPF', 'CAP_PERFMON'];
const netAdmin: readonly EbpfCapability[] = ['CAP_BPF', 'CAP_NET_ADMIN'];
const tracing = { type: 26, capabilities: perfmon, builtWith: 'bpf_trampoline_link_prog' } as const;

/**
 * Capabilities as in is_net_admin_prog_type and is_perfmon_prog_type of kernel/bpf/syscall.c. `since` is the first kernel
 * with the program type or, for the kinds of BPF_PROG_TYPE_TRACING, with the attach type.
 */
export const programProbes: Readonly<Record<ProgramKind, ProgramProbe>> = {
  socket_filter: { type: 1, since: '3.19', capabilities: bpf },
  kprobe: { type: 2, since: '4.1', capabilities: perfmon },
  sched_cls: { type: 3, since: '4.1', capabilities: netAdmin },
  tracepoint: { type: 5, since: '4.7', capabilities: perfmon },
  // Returns XDP_PASS (2): with 0, the program would drop every packet of an interface to which it was attached.
  xdp: {
    type: 6,
    since: '4.8',
    capabilities: netAdmin,
    expectedAttachType: attachTypes.XDP,
    returns: 2,
  },
  perf_event: { type: 7, since: '4.9', capabilities: perfmon },
  cgroup_skb: { type: 8, since: '4.10', capabilities: bpf, returns: 1 },
  cgroup_sock: {
    type: 9,
    since: '4.10',
    capabilities: netAdmin,
    expectedAttachType: attachTypes.CGROUP_INET_SOCK_CREATE,
    returns: 1,
  },
  cgroup_sock_addr: {
    type: 18,
    since: '4.17',
    capabilities: netAdmin,
    expectedAttachType: attachTypes.CGROUP_INET4_CONNECT,
    returns: 1,
  },
  raw_tracepoint: { type: BPF_PROG_TYPE_RAW_TRACEPOINT, since: '4.17', capabilities: perfmon },
  fentry: {
    ...tracing,
    since: '5.5',
    expectedAttachType: attachTypes.TRACE_FENTRY,
    attachFunction: testFunction,
  },
  fexit: {
    ...tracing,
    since: '5.5',
    expectedAttachType: attachTypes.TRACE_FEXIT,
    attachFunction: testFunction,
  },
  fmod_ret: {
    ...tracing,
    since: '5.7',
    expectedAttachType: attachTypes.MODIFY_RETURN,
    attachFunction: quietSecurityFunction,
  },
  iter: {
    ...tracing,
    since: '5.8',
    expectedAttachType: attachTypes.TRACE_ITER,
    attachFunction: 'bpf_iter_task',
    builtWith: 'bpf_iter_task',
  },
  lsm: {
    type: 29,
    since: '5.7',
    capabilities: perfmon,
    expectedAttachType: attachTypes.LSM_MAC,
    attachFunction: quietLsmHook,
    builtWith: quietLsmHook,
  },
  ext: { type: 28, since: '5.6', capabilities: ['CAP_BPF', 'CAP_PERFMON', 'CAP_NET_ADMIN'] },
  struct_ops: {
    type: 27,
    since: '5.6',
    capabilities: perfmon,
    implements: { struct: 'tcp_congestion_ops', member: 'init' },
  },
  sk_lookup: {
    type: 30,
    since: '5.9',
    capabilities: bpf,
    expectedAttachType: attachTypes.SK_LOOKUP,
    returns: 1,
  },
  syscall: { type: 31, since: '5.14', capabilities: bpf, flags: BPF_F_SLEEPABLE },
  netfilter: {
    type: 32,
    since: '6.4',
    capabilities: netAdmin,
    expectedAttachType: attachTypes.NETFILTER,
    returns: 1,
    builtWith: 'bpf_nf_link_attach',
  },
};

function returning(value: number): readonly Instruction[] {
  return [instructions.setRegister(0, value), instructions.exit()];
}

/** BTF and type IDs of the kernel, or the result for all kinds that depend on them. */
export type BtfOrReason = VmlinuxBtf | Feature;

/**
 * Loads a minimal program of `kind`.
 *
 * @param overrides - Fields of the request that differ from the usual, such as the attach type.
 * @returns the program, which the caller disposes, or the reason for the refusal.
 */
export function loadMinimal(
  kind: ProgramKind,
  btf: BtfOrReason,
  context: ProbeContext,
  overrides: Partial<ProgramRequest> = {},
): Descriptor | Feature {
  const probe = programProbes[kind];
  if (kind === 'ext') {
    const extension = loadExtension();
    return extension instanceof Descriptor ? extension : explainRefusal(extension, probe, context);
  }
  const target = attachTarget(probe, btf);
  if ('available' in target) return target;
  const outcome = loadProgram({
    type: probe.type,
    expectedAttachType: probe.expectedAttachType ?? 0,
    flags: probe.flags ?? 0,
    instructions: returning(probe.returns ?? 0),
    ...target,
    ...overrides,
  });
  return outcome instanceof Descriptor ? outcome : explainRefusal(outcome, probe, context);
}

export function probeProgram(kind: ProgramKind, btf: BtfOrReason, context: ProbeContext): Feature {
  const program = loadMinimal(kind, btf, context);
  if (!(program instanceof Descriptor)) return program;
  program[Symbol.dispose]();
  return available;
}

/** Whether tracing programs may read kernel memory, which lockdown and some kernels forbid while they allow the programs. */
export function probeReadKernel(context: ProbeContext): Feature {
  const outcome = loadProgram({
    type: BPF_PROG_TYPE_RAW_TRACEPOINT,
    instructions: [
      instructions.copyRegister(1, 10),
      instructions.addToRegister(1, -8),
      instructions.setRegister(2, 8),
      instructions.setRegister(3, 0),
      instructions.call(BPF_FUNC_probe_read_kernel),
      ...returning(0),
    ],
  });
  if (!(outcome instanceof Descriptor)) {
    return explainRefusal(outcome, { since: '5.5', capabilities: perfmon }, context);
  }
  outcome[Symbol.dispose]();
  return available;
}

function attachTarget(probe: ProgramProbe, btf: BtfOrReason): Partial<ProgramRequest> | Feature {
  const { attachFunction, implements: implementation } = probe;
  if (attachFunction === undefined && implementation === undefined) return {};
  if ('available' in btf) return btf;
  if (attachFunction !== undefined) {
    const id = btf.findFunction(attachFunction);
    return id === undefined ? notInBtf(attachFunction) : { attachBtfId: id };
  }
  if (implementation === undefined) return {};
  const structId = btf.findStruct(implementation.struct);
  if (structId === undefined) return notInBtf(`struct ${implementation.struct}`);
  const member = btf.findMember(structId, implementation.member);
  if (member === undefined) return notInBtf(`${implementation.struct}.${implementation.member}`);
  return { attachBtfId: structId, expectedAttachType: member };
}

function notInBtf(name: string): Feature {
  return unavailable('not_in_kernel', `The kernel's BTF has no ${name}.`);
}

/** Constants for a freplace program, which can only be loaded together with a target program. */
const BPF_PROG_TYPE_XDP = 6;
const BPF_PROG_TYPE_EXT = 28;
const XDP_PASS = 2;

/**
 * Loads an XDP program, and a freplace program of the same signature for it. The XDP program's descriptor is closed here: the
 * freplace program keeps it loaded.
 *
 * @returns the freplace program, which the caller disposes, or the first refusal.
 */
function loadExtension(): Outcome {
  const btf = loadBtf(extensionBtf());
  if (!(btf instanceof Descriptor)) return btf;
  using descriptor = btf;
  const common = {
    instructions: [instructions.setRegister(0, XDP_PASS), instructions.exit()],
    btf: { descriptor, functionId: extensionFunctionId },
  };
  const target = loadProgram({ type: BPF_PROG_TYPE_XDP, ...common });
  if (!(target instanceof Descriptor)) return target;
  using attachProgram = target;
  return loadProgram({ type: BPF_PROG_TYPE_EXT, ...common, attachProgram, attachBtfId: extensionFunctionId });
}

const extensionFunctionId = 5;

/** BTF of `int f(struct xdp_md *ctx)` (Documentation/bpf/btf.rst): five types and their names. */
function extensionBtf(): Uint8Array {
  const strings = Buffer.from('\0int\0xdp_md\0ctx\0f\0');
  const nameOf = (name: string) => strings.indexOf(`\0${name}\0`) + 1;
  const kind = { INT: 1 << 24, PTR: 2 << 24, STRUCT: 4 << 24, FUNC: 12 << 24, FUNC_PROTO: 13 << 24 };
  const signed32 = (1 << 24) | 32;
  const globalLinkage = 1;
  const types = new Uint32Array(
    [
      [nameOf('int'), kind.INT, 4, signed32],
      [nameOf('xdp_md'), kind.STRUCT, 0],
      [0, kind.PTR, 2],
      [0, kind.FUNC_PROTO | 1, 1, nameOf('ctx'), 3],
      [nameOf('f'), kind.FUNC | globalLinkage, 4],
    ].flat(),
  );
  return btfOf([Buffer.from(types.buffer)], [strings]);
}
