/** What this kernel lets this process do with eBPF, and the reason where it does not. */
import { release } from 'node:os';

import { RampartError } from '../../errors/errors.ts';
import { createMap, Descriptor } from '../bpf-call.ts';
import { effectiveCapabilities, inUserNamespace } from './capabilities.ts';
import { attachProbes } from './attach.ts';
import { type BtfOrReason, probeProgram, probeReadKernel } from './programs.ts';
import {
  available,
  explainRefusal,
  isAtLeast,
  memcgAccountingSince,
  type ProbeContext,
  unavailable,
} from './reasons.ts';
import {
  activeLsms,
  cgroupVersions,
  jitEnabled,
  libbpfVersion,
  liftMemlockLimit,
  lockdownMode,
  unprivilegedBpfDisabled,
} from './kernel-facts.ts';
import { VmlinuxBtf, vmlinuxBtfSizeBytes } from './vmlinux-btf.ts';

/** Why something is not available. Stable words, for programs; `detail` is for people. */
export const featureReasons = [
  /** The kernel was built without kprobes. */
  'no_kprobes',
  /** The kernel was built without uprobes. */
  'no_uprobes',
  /** The kernel knows it and still says no, though the process holds the capabilities. */
  'refused',
  /** There is no /sys/kernel/btf/vmlinux, so no kernel function has a type id. */
  'no_btf',
  /** The process lacks a capability; the detail names it. */
  'missing_capability',
  /** Older than the feature, or built without it. */
  'not_in_kernel',
  /** The lockdown LSM forbids it. */
  'lockdown',
  /** `bpf` is not one of the active security modules, so its programs would never run. */
  'lsm_not_enabled',
  /** The tracing file system is not mounted or not readable. */
  'no_tracefs',
  /** RLIMIT_MEMLOCK is too low; kernels before 5.11 charge eBPF memory to it. */
  'memlock_limit',
  /** The caller of the probe did not ask for it. */
  'not_probed',
  /** The kernel's answer fits more than one reason, or a file that would tell is not there. */
  'inconclusive',
] as const;
export type FeatureReason = (typeof featureReasons)[number];

/** One answer. `detail` holds the kernel's own words: the name of the errno, the verifier's last line. */
export type Feature =
  | { readonly available: true }
  | { readonly available: false; readonly reason: FeatureReason; readonly detail: string };

/** Program types, named as in bpf.h; BPF_PROG_TYPE_TRACING appears as its four kinds. */
export const programKinds = [
  'socket_filter',
  'kprobe',
  'sched_cls',
  'tracepoint',
  'xdp',
  'perf_event',
  'cgroup_skb',
  'cgroup_sock',
  'cgroup_sock_addr',
  'raw_tracepoint',
  'fentry',
  'fexit',
  'fmod_ret',
  'iter',
  'lsm',
  'ext',
  'struct_ops',
  'sk_lookup',
  'syscall',
  'netfilter',
] as const;
export type ProgramKind = (typeof programKinds)[number];

/** Ways to attach a program that Rampart's guards use. */
export const attachKinds = [
  'raw_tracepoint',
  'tracepoint',
  'kprobe',
  'kretprobe',
  'kprobe_multi',
  'uprobe',
  'uretprobe',
  'fentry',
  'fexit',
  'lsm',
  'xdp',
  'tcx',
  'tc',
  'cgroup',
  'netns',
  'perf_event',
  'freplace',
] as const;
export type AttachKind = (typeof attachKinds)[number];

/** What {@link probeFeatures} found. A field is `undefined` where this process cannot read the fact. */
export interface KernelFeatures {
  /** `uname -r`. */
  readonly release: string;
  /** As Node names it: `x64`, `arm64`. */
  readonly arch: string;
  /** Version of libbpf.so.1, e.g. `v1.1`; undefined when it is not installed. */
  readonly libbpf: string | undefined;
  /** Type information of the kernel, which fentry, LSM programs and CO-RE need. */
  readonly btf: Feature;
  readonly btfSizeBytes: number | undefined;
  /** net.core.bpf_jit_enable is not 0. */
  readonly jit: boolean | undefined;
  /** kernel.unprivileged_bpf_disabled: 0 allowed, 1 and 2 not. */
  readonly unprivilegedBpfDisabled: number | undefined;
  readonly lockdown: 'none' | 'integrity' | 'confidentiality' | undefined;
  /** Active security modules. */
  readonly lsms: readonly string[] | undefined;
  /** Effective capabilities of this process, e.g. `CAP_BPF`. */
  readonly capabilities: readonly string[];
  /** Whether those capabilities hold only inside a user namespace, where bpf(2) does not honour them. */
  readonly inUserNamespace: boolean;
  /** Versions of the cgroup hierarchies mounted here. */
  readonly cgroupVersions: readonly (1 | 2)[];
  /** BPF_MAP_TYPE_RINGBUF, since 5.8. */
  readonly ringBuffer: Feature;
  /** bpf_probe_read_kernel() in a tracing program: lockdown takes it away while programs still load. */
  readonly probeReadKernel: Feature;
  /** Whether a program of the type can be loaded. */
  readonly programs: Readonly<Record<ProgramKind, Feature>>;
  /** Whether a program can be attached that way. */
  readonly attach: Readonly<Record<AttachKind, Feature>>;
}

const BPF_MAP_TYPE_RINGBUF = 27;
/** A multiple of the page size on every architecture, as ring buffers want it. */
const smallestRingSizeBytes = 64 * 1024;

/**
 * Asks the kernel, by loading and attaching minimal programs, and takes everything back before it
 * returns. It never fails for want of a privilege: what is missing is in the answers.
 *
 * Attaching is done where nothing feels it (an empty program on tracepoints, on test functions, on
 * this process's own entry point). Interfaces, cgroups and namespaces stay untouched. Kernel modules
 * that an attach kind needs (sch_ingress for `tc`) may be loaded by the kernel.
 *
 * All kinds together take some hundred milliseconds, most of it the kernel's grace periods after
 * detaching `tracepoint`, `uprobe` and `uretprobe`; the others are done in a tenth of that.
 *
 * @param attach - The attach kinds to probe; the others answer `not_probed`.
 */
export function probeFeatures(attach: readonly AttachKind[] = attachKinds): KernelFeatures {
  const kernel = release();
  const capabilities = effectiveCapabilities();
  const inOwnUserNamespace = inUserNamespace();
  const lsms = activeLsms();
  const lockdown = lockdownMode(lsms);
  if (!isAtLeast(kernel, memcgAccountingSince)) liftMemlockLimit();

  const btf = openBtf();
  using _btf = 'available' in btf ? undefined : btf;
  const context: ProbeContext = {
    release: kernel,
    capabilities,
    inUserNamespace: inOwnUserNamespace,
    lockdown,
    lsms,
    hasFunction: (name) => ('available' in btf ? undefined : btf.findFunction(name) !== undefined),
  };
  return {
    release: kernel,
    arch: process.arch,
    libbpf: libbpfVersion(),
    btf: 'available' in btf ? btf : available,
    btfSizeBytes: vmlinuxBtfSizeBytes(),
    jit: jitEnabled(),
    unprivilegedBpfDisabled: unprivilegedBpfDisabled(),
    lockdown,
    lsms,
    capabilities,
    inUserNamespace: inOwnUserNamespace,
    cgroupVersions: cgroupVersions(),
    ringBuffer: probeRingBuffer(context),
    probeReadKernel: probeReadKernel(context),
    programs: answers(programKinds, (kind) => probeProgram(kind, btf, context)),
    attach: answers(attachKinds, (kind) =>
      attach.includes(kind) ? attachProbes[kind](btf, context) : unavailable('not_probed', 'Not requested.'),
    ),
  };
}

function answers<K extends string>(kinds: readonly K[], probe: (kind: K) => Feature): Record<K, Feature> {
  return Object.fromEntries(kinds.map((kind) => [kind, probe(kind)])) as Record<K, Feature>;
}

/** The kernel's BTF, or the answer of everything that needs it. */
function openBtf(): BtfOrReason {
  if (vmlinuxBtfSizeBytes() === undefined) {
    return unavailable('no_btf', 'There is no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF).');
  }
  try {
    return new VmlinuxBtf();
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return unavailable('inconclusive', `The kernel's BTF cannot be read: ${error.message}`);
  }
}

function probeRingBuffer(context: ProbeContext): Feature {
  const outcome = createMap(BPF_MAP_TYPE_RINGBUF, smallestRingSizeBytes);
  if (!(outcome instanceof Descriptor)) {
    return explainRefusal(outcome, { since: '5.8', capabilities: ['CAP_BPF'] }, context);
  }
  outcome[Symbol.dispose]();
  return available;
}
