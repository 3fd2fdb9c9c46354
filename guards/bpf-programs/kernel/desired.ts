/**
 * The node's desired programs in the kernel, and the outcome. The reconcilers turn each per-node object into
 * a {@link DesiredProgram} and pass all of them at once; {@link ProgramHost} brings the kernel to that state.
 */

export type AttachType =
  'fentry' | 'fexit' | 'kprobe' | 'kretprobe' | 'tc' | 'tcx' | 'tracepoint' | 'uprobe' | 'uretprobe' | 'xdp';

/** One program at one place. */
export interface DesiredProgram {
  /** Stable across restarts and unique on the node: the name of the node object, with its namespace if it has one. Names its pins. */
  readonly id: string;
  /** The requesting object, as `rampart bpf list` shows it: `XdpProgram/count`, `XdpNsProgram/web/count`. */
  readonly owner: string;
  /** Name of the parent: breaks ties of priority. */
  readonly name: string;
  /** Undefined: cluster-scoped. Maps are never shared across namespaces. */
  readonly namespace: string | undefined;
  /** Where its object says the bytecode is: `registry.example/team/count:v1`, `/root/count.bpf.o`. */
  readonly source: string;
  /**
   * Digest of the bytecode: `sha256:...`. Two programs with the same digest come from the same object file.
   */
  readonly digest: string;
  /** The object file. Called only if the program is not in the kernel yet. */
  readonly bytecode: () => Promise<Uint8Array>;
  readonly functionName: string;
  /** Its type by the labels of its image, for messages. */
  readonly labelledType?: string | undefined;
  /** Values of global variables by their BTF names; the size must be exact. */
  readonly globals: Readonly<Record<string, Uint8Array>>;
  /**
   * Programs with the same group come from one load of the object file: one map of the file is one map of all of them. The key of the
   * application; undefined: it has maps of its own.
   */
  readonly mapGroup: string | undefined;
  /** For a group: none of this version is loaded if one of them cannot be. */
  readonly allOrNothing: boolean;
  /** `id` of the program whose maps it shares, if it does. */
  readonly mapOwner: string | undefined;
  /** Why it cannot be loaded, known before the kernel is asked: a version that runs already is kept, nothing else is done. */
  readonly blocked: Failure | undefined;
  readonly attach: Attach;
  /** The pod that it is attached in, `NAMESPACE/NAME`, to be shown. */
  readonly pod?: string | undefined;
  /** The container in it; undefined if it is attached for all of them. */
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
      /** Undefined: the offset alone determines where. */
      readonly functionName: string | undefined;
      readonly offset: bigint;
      /** An absolute path, or the bare name of a library. In the container, if there is one. */
      readonly target: string;
      /** Only this process; undefined: all, or those of the container. */
      readonly pid: number | undefined;
      readonly container: ContainerPlace | undefined;
    }
  /** Loaded, with its maps, and attached to nothing. */
  | {
      readonly type: 'nowhere';
      readonly programType: AttachType;
      /** For fentry and fexit, which are loaded for one function. */
      readonly kernelFunction: string | undefined;
    };

/** How a note begins of a program that runs, and that no packet reaches because one before it ends the chain. */
export const unreached = 'no packet reaches it';

/** The type that a program is loaded as. */
export function programTypeOf(attach: Attach): AttachType {
  return attach.type === 'nowhere' ? attach.programType : attach.type;
}

export type Direction = 'egress' | 'ingress';

export interface InterfaceHook {
  readonly interface: string;
  /** Undefined: a network namespace of the node. */
  readonly container: ContainerPlace | undefined;
  /** `/run/netns/blue`: one of the node's with a name. Default: its own. */
  readonly namespacePath?: string | undefined;
}

/** A process of the container: its namespaces and root are those of the container. */
export interface ContainerPlace {
  readonly pid: number;
  readonly containerId: string;
  /** Below the cgroup mount, if it is known: gates a uprobe where PID namespaces cannot. */
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
      /**
       * Remarks for the user about a running program: `generic mode: the MTU of eth0 is above what the driver
       * takes`.
       */
      readonly notes: readonly string[];
      /** Once, when a new version takes the place of another one: which contents of its maps were lost. In complete sentences. */
      readonly lost?: readonly string[];
    }
  /**
   * The requested version does not run; the last running version is still attached, until a new one is. Never
   * a success.
   */
  | {
      readonly state: 'kept';
      /** Id of the running version. */
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
    /** Its place is taken by a program that is not Rampart's, which is left alone. */
    | 'displaced'
    | 'load'
    | 'map-owner-not-found'
    | 'map-owner-not-loaded'
    /** A namespaced program that requires more than it may have: it does not run at all, not even in a previous version. */
    | 'not-allowed'
    | 'target';
  /** In complete sentences: the last lines of the kernel or verifier, and what to do. */
  readonly message: string;
  /** Retrying may help without a change of the object: the interface does not exist yet, for example. */
  readonly mayPass: boolean;
}

/** Something that another program, or a person, has changed. */
export interface Drift {
  /** In complete sentences. */
  readonly what: string;
  /** The objects whose programs do not run as applied: {@link DesiredProgram.owner}. */
  readonly owners: readonly string[];
}

/** The requested version of an object that cannot replace the running one. */
export interface RefusedVersion {
  readonly source: string;
  /** Empty if it is not known yet. */
  readonly digest: string;
  readonly functionName: string;
  /** In complete sentences. */
  readonly why: string;
}

/** One program as the kernel has it, for `rampart bpf list`, `chain` and `stats`. */
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
  /** `NAMESPACE/NAME`; undefined on the node itself. */
  readonly pod: string | undefined;
  /** Undefined even if it is attached for all containers of the pod. */
  readonly container: string | undefined;
  readonly mapIds: readonly number[];
  /** Undefined if the running version is the requested one. */
  readonly refused?: RefusedVersion | undefined;
}

/**
 * The eBPF programs that this agent manages. They are pinned below one directory of the host's bpffs, and stay when the
 * process ends; opening adopts what is there and changes nothing.
 */
export interface ProgramHost extends AsyncDisposable {
  /**
   * Makes the kernel run `desired` and nothing else of ours. A program that cannot run does not affect the
   * others. Programs that stay are not touched, and see every packet meanwhile. Requests of one owner for
   * several containers of one pod, on an interface that they share, run once; each has its outcome. Calls do
   * not overlap: the caller awaits each.
   *
   * @param held - Ids of programs that are unchanged, because their place is unknown at the moment.
   * @returns the outcome of each, by id.
   * @throws {Error} of the system (no descriptors, no memory) if nothing could be inspected: running programs
   * keep running.
   */
  apply(
    desired: readonly DesiredProgram[],
    signal?: AbortSignal,
    held?: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, Outcome>>;
  /** Compares the kernel with what was applied; returns what is missing or changed. The next `apply` repairs it. */
  verify(signal?: AbortSignal): Promise<readonly Drift[]>;
  list(): Promise<readonly RunningProgram[]>;
  /** Removes everything that is ours; returns a line for each thing that was removed. */
  remove(signal?: AbortSignal): Promise<readonly string[]>;
}
