/** The names of features that a kernel may have, and the results of probes. */

/** Why a feature is not available. These names are stable, for programs; `detail` is for people. */
export const featureReasons = [
  /** The kernel was built without kprobes. */
  'no_kprobes',
  /** The kernel was built without uprobes. */
  'no_uprobes',
  /** The kernel has the feature but refuses it, although the process has the capabilities. */
  'refused',
  /** There is no /sys/kernel/btf/vmlinux, so that no kernel function has a type ID. */
  'no_btf',
  /** The process lacks a capability; the detail names it. */
  'missing_capability',
  /** The kernel is older than the feature, or built without it. */
  'not_in_kernel',
  /** The lockdown LSM forbids it. */
  'lockdown',
  /** `bpf` is not one of the active security modules, so its programs would never run. */
  'lsm_not_enabled',
  /** The tracing file system is not mounted or not readable. */
  'no_tracefs',
  /** RLIMIT_MEMLOCK is too low; kernels before 5.11 charge eBPF memory to it. */
  'memlock_limit',
  /** The caller did not request this probe. */
  'not_probed',
  /** The kernel's answer fits more than one reason, or a file that would decide it is missing. */
  'inconclusive',
] as const;

export type FeatureReason = (typeof featureReasons)[number];

/** The result of one probe. `detail` has the kernel's answer: the name of the errno, the verifier's last line. */
export type Feature =
  | { readonly available: true }
  | { readonly available: false; readonly reason: FeatureReason; readonly detail: string };

/** Program types, named as in bpf.h, except for BPF_PROG_TYPE_TRACING, which appears as its four kinds. */
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

/** Ways to attach a program. */
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

/** The result of {@link probeFeatures}. A field is `undefined` if this process cannot read the fact. */
export interface KernelFeatures {
  /** `uname -r`. */
  readonly release: string;
  /** The architecture as named by Node.js: `x64`, `arm64`. */
  readonly arch: string;
  /** Version of libbpf.so.1, e.g. `v1.1`; undefined when it is not installed. */
  readonly libbpf: string | undefined;
  /** Type information of the kernel, which fentry, LSM programs and CO-RE need. */
  readonly btf: Feature;
  readonly btfSizeBytes: number | undefined;
  /** Whether net.core.bpf_jit_enable is not 0. */
  readonly jit: boolean | undefined;
  /** kernel.unprivileged_bpf_disabled: 0 means allowed, 1 and 2 mean disabled. */
  readonly unprivilegedBpfDisabled: number | undefined;
  readonly lockdown: 'none' | 'integrity' | 'confidentiality' | undefined;
  /** Active security modules. */
  readonly lsms: readonly string[] | undefined;
  /** Effective capabilities of this process, e.g. `CAP_BPF`. */
  readonly capabilities: readonly string[];
  /** Whether those capabilities are valid only in a user namespace, so that bpf(2) ignores them. */
  readonly inUserNamespace: boolean;
  /** Versions of the cgroup hierarchies mounted here. */
  readonly cgroupVersions: readonly (1 | 2)[];
  /** BPF_MAP_TYPE_RINGBUF, since 5.8. */
  readonly ringBuffer: Feature;
  /** bpf_probe_read_kernel() in a tracing program: lockdown forbids it, while programs without it still load. */
  readonly probeReadKernel: Feature;
  readonly programs: Readonly<Record<ProgramKind, Feature>>;
  readonly attach: Readonly<Record<AttachKind, Feature>>;
}
