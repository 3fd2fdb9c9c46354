/**
 * The desired programs in the node's kernel, and their outcomes. The reconcilers turn each per-node object into a {@link DesiredProgram}
 * and pass all of them together; {@link ProgramHost} brings the kernel to that state.
 */

export type AttachType =
  'fentry' | 'fexit' | 'kprobe' | 'kretprobe' | 'tc' | 'tcx' | 'tracepoint' | 'uprobe' | 'uretprobe' | 'xdp';

/** One program at one place. */
export interface DesiredProgram {
  /**
   * Stable across restarts and unique on the node: the name of the per-node object, with its namespace if it has one. Pins are named after
   * it.
   */
  readonly id: string;
  /** The requesting object, as `rampart bpf list` shows it: `XdpProgram/count`, `XdpNsProgram/web/count`. */
  readonly owner: string;
  /** Name of the parent, which decides between equal priorities. */
  readonly name: string;
  /** Undefined for a cluster-scoped program. Maps are never shared across namespaces. */
  readonly namespace: string | undefined;
  /** Where the bytecode comes from, according to its object: `registry.example/team/count:v1`, `/root/count.bpf.o`. */
  readonly source: string;
  /**
   * Digest of the bytecode: `sha256:...`. Two programs with the same digest come from the same object file.
   */
  readonly digest: string;
  /** Returns the object file. Called only if the program is not in the kernel yet. */
  readonly bytecode: () => Promise<Uint8Array>;
  readonly functionName: string;
  /** The type according to the labels of its image, for messages. */
  readonly labelledType?: string | undefined;
  /** Values of global variables by their BTF names; the size must be exact. */
  readonly globals: Readonly<Record<string, Uint8Array>>;
  /**
   * The key of the application: programs with the same group come from one load of the object file, and share each map of the file.
   * Undefined: the program has maps of its own.
   */
  readonly mapGroup: string | undefined;
  /** Whether no program of the group is loaded in this version if one of them cannot be. */
  readonly allOrNothing: boolean;
  /** The `id` of the program whose maps it shares; undefined if it shares none. */
  readonly mapOwner: string | undefined;
  /**
   * Why it cannot be loaded, if that is known before the kernel is asked: then a version that already runs is kept, and nothing else is
   * done.
   */
  readonly blocked: Failure | undefined;
  readonly attach: Attach;
  /** The pod in which it is attached, `NAMESPACE/NAME`, for display. */
  readonly pod?: string | undefined;
  /** The container in the pod; undefined if it is attached for all containers. */
  readonly container?: string | undefined;
}

export type Attach =
  | { readonly type: 'xdp'; readonly hook: InterfaceHook; readonly order: ChainOrder }
  | {
      readonly type: 'tc';
      readonly hook: InterfaceHook;
      readonly direction: Direction;
      readonly order: ChainOrder;
    }
  | {
      readonly type: 'tcx';
      readonly hook: InterfaceHook;
      readonly direction: Direction;
      readonly priority: number;
    }
  | { readonly type: 'kprobe' | 'kretprobe'; readonly functionName: string; readonly offset: bigint }
  | { readonly type: 'fentry' | 'fexit'; readonly functionName: string }
  /** `syscalls/sys_enter_openat` */
  | { readonly type: 'tracepoint'; readonly tracepoint: string }
  | {
      readonly type: 'uprobe' | 'uretprobe';
      /** Undefined: the offset alone determines the place. */
      readonly functionName: string | undefined;
      readonly offset: bigint;
      /** An absolute path, or the bare name of a library. Resolved in the container, if there is one. */
      readonly target: string;
      /** Only this process is probed; undefined: all processes, or all of the container. */
      readonly pid: number | undefined;
      readonly container: ContainerPlace | undefined;
    }
  /** Loaded with its maps, but not attached. */
  | {
      readonly type: 'nowhere';
      readonly programType: AttachType;
      /** The function that fentry and fexit programs are loaded for; undefined for other types. */
      readonly kernelFunction: string | undefined;
    };

/** How the note about a running program begins that no packet reaches, because an earlier program ends the chain. */
export const unreached = 'no packet reaches it';

/** The type that a program is loaded as. */
export function programTypeOf(attach: Attach): AttachType {
  return attach.type === 'nowhere' ? attach.programType : attach.type;
}

export type Direction = 'egress' | 'ingress';

export interface InterfaceHook {
  readonly interface: string;
  /** Undefined for a network namespace of the node. */
  readonly container: ContainerPlace | undefined;
  /** A named network namespace of the node: `/run/netns/blue`. Default: the node's own. */
  readonly namespacePath?: string | undefined;
}

/** A process of the container, which gives access to the container's namespaces and root. */
export interface ContainerPlace {
  readonly pid: number;
  readonly containerId: string;
  /** Path below the cgroup mount, if known: used to gate a uprobe if the PID namespace cannot be. */
  readonly cgroupPath: string | undefined;
}

export interface ChainOrder {
  /** 0 to 1000, lowest first. */
  readonly priority: number;
  /** Return codes after which the next program runs: bit 1 << action for XDP, 1 << (action + 1) for TC. */
  readonly proceedOn: number;
}

export type Outcome =
  | {
      readonly state: 'loaded';
      /** The kernel's id of the program. */
      readonly programId: number;
      /** Notes for the user about a running program: `generic mode: the MTU of eth0 is above what the driver takes`. */
      readonly notes: readonly string[];
      /** Reported once, when a new version replaces another: which contents of its maps were lost, in complete sentences. */
      readonly lost?: readonly string[];
    }
  /** The requested version does not run; the previous one stays attached until a new one can be. Never a success. */
  | {
      readonly state: 'kept';
      /** The kernel's ID of the running version. */
      readonly programId: number;
      /** Digest of the running version's bytecode. */
      readonly digest: string;
      readonly notes: readonly string[];
      /** Why the new version does not run. */
      readonly failure: Failure;
    }
  | Failure;

/** Why the requested version of a program does not run. */
export interface Failure {
  readonly state: 'failed';
  readonly reason:
    | 'attach'
    | 'bytecode'
    /** Its attach point is occupied by a program that is not Rampart's, which is left alone. */
    | 'displaced'
    | 'load'
    | 'map-owner-not-found'
    | 'map-owner-not-loaded'
    /** A namespaced program that requires more than it is allowed: it does not run at all, not even in a previous version. */
    | 'not-allowed'
    | 'target';
  /** In complete sentences: the last lines of the kernel's or verifier's answer, and what to do. */
  readonly message: string;
  /** Whether a retry may succeed without a change of the Kubernetes object, for example because the interface does not exist yet. */
  readonly mayPass: boolean;
}

/** A change that another program, or a person, has made. */
export interface Drift {
  /** What has changed, in complete sentences. */
  readonly what: string;
  /** The {@link DesiredProgram.owner}s whose programs do not run as applied. */
  readonly owners: readonly string[];
}

/** The version of a program that a Kubernetes object requests now, but that cannot replace the running version. */
export interface RefusedVersion {
  readonly source: string;
  /** Empty if not yet known. */
  readonly digest: string;
  readonly functionName: string;
  /** The reason, in complete sentences. */
  readonly why: string;
}

/** One program in the kernel, as shown by `rampart bpf list`, `chain` and `stats`. */
export interface RunningProgram {
  readonly id: string;
  readonly owner: string;
  readonly programId: number;
  readonly type: AttachType;
  readonly functionName: string;
  readonly source: string;
  readonly digest: string;
  /** `eth0`, `eth0 ingress`, `/usr/lib/libc.so.6:malloc` */
  readonly attachPoint: string;
  /** `NAMESPACE/NAME`; undefined if it is attached on the node itself. */
  readonly pod: string | undefined;
  /** Undefined also if it is attached for all containers of the pod. */
  readonly container: string | undefined;
  readonly mapIds: readonly number[];
  /** Undefined if the running version is the requested one. */
  readonly refused?: RefusedVersion | undefined;
}

/**
 * The eBPF programs that this agent manages. They are pinned below one directory of the host's bpffs, and stay when the process ends;
 * opening adopts existing ones and changes nothing.
 */
export interface ProgramHost extends AsyncDisposable {
  /**
   * Makes the kernel run `desired` and no other programs of Rampart. A program that cannot run does not affect the others. Programs that
   * stay are not touched, and miss no packet. If one owner requests a program for several containers of a pod, on an interface that they
   * share, it runs once; each request has its own outcome. Calls must not overlap: the caller awaits each.
   *
   * @param held - Ids of programs that stay as they are, because their places are currently unknown.
   * @returns the outcome of each, by id.
   * @throws {Error} of the system (no descriptors, no memory) if nothing could be inspected: running programs keep running.
   */
  apply(
    desired: readonly DesiredProgram[],
    signal?: AbortSignal,
    held?: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, Outcome>>;
  /** Compares the kernel with what was applied; returns what is missing or changed. The next `apply` repairs it. */
  verify(signal?: AbortSignal): Promise<readonly Drift[]>;
  list(): Promise<readonly RunningProgram[]>;
  /** Removes everything of Rampart; returns a line for each thing removed. */
  remove(signal?: AbortSignal): Promise<readonly string[]>;
}
