/** Pods as the container runtime of this machine reports them; the input of the mirror. */

export interface MachineContainer {
  /** With the name of the runtime: `containerd://da9e46...`. */
  readonly id: string;
  readonly name: string;
  /** As requested: `docker.io/library/nginx:1`. */
  readonly image: string;
  /** Digest of the image. */
  readonly imageId: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  /** How often a container of this name was created before in this pod. */
  readonly attempt: number;
  /** In ms since 1970; 0 if it has not happened. */
  readonly createdMs: number;
  readonly startedMs: number;
  readonly finishedMs: number;
  /** For a container that has ended; `undefined` if unknown. */
  readonly exitCode: number | undefined;
  /** In CamelCase, as the runtime reports it; '' without a reason. */
  readonly reason: string;
  readonly message: string;
}

/** One sandbox with its containers. */
export interface MachinePod {
  readonly sandboxId: string;
  /** Chosen by whoever started it: a UUID from a kubelet, anything from others. */
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** In ms since 1970. */
  readonly createdMs: number;
  /** Whether its sandbox runs. */
  readonly ready: boolean;
  /** The first is the main one. Empty for a pod in the host's network. */
  readonly ips: readonly string[];
  readonly hostNetwork: boolean;
  readonly containers: readonly MachineContainer[];
  /** Whether the runtime is still being asked how some of its containers ended. */
  readonly isAsked: boolean;
}

/** All pods, or why they are unknown. */
export type MachineState =
  | { readonly pods: readonly MachinePod[]; readonly runtimeVersion: string }
  | { readonly unavailable: string };
