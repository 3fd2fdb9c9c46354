/** Whether a guard works on a machine as it is: what `rampart doctor` asks each of them. */
import type { KernelFeatures } from '../lib/ebpf/features/feature.ts';

export interface Machine {
  /** What the kernel answers to probes. */
  readonly kernel: KernelFeatures;
  readonly isRoot: boolean;
  /** Why no container runtime answers; undefined where one does. */
  readonly noRuntime: string | undefined;
  /** Where agents and standalone keep their data. */
  readonly dataDirectory: string;
  /** Free for this user on the file system of the data directory. */
  readonly freeBytes: number;
  /** fs.inotify.max_user_watches and max_user_instances; undefined where this process may not read them. */
  readonly inotify: { readonly watches: number; readonly instances: number } | undefined;
  readonly signal: AbortSignal;
}

export interface Diagnosis {
  /** By which of several means it works: a mode of the sensor, a backend. */
  readonly mode?: string | undefined;
  /** Why it does not work here, and what to do: a clause each. Empty: it works. */
  readonly obstacles: readonly string[];
  /** What it cannot do or see here: a clause each. */
  readonly limits: readonly string[];
  /** What else it knows of the machine, for programs: a key of the report. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/** Changes nothing that stays. */
export type ExamineMachine = (machine: Machine) => Promise<Diagnosis>;

/** Less is no room for baselines, bytecode and what waits to be sent. */
const LITTLE_BYTES = 256 * 1024 * 1024;

/** A limit for guards that keep data; empty where there is room. */
export function diskLimits({ dataDirectory, freeBytes }: Machine): readonly string[] {
  if (freeBytes >= LITTLE_BYTES) return [];
  return [`${dataDirectory} has only ${Math.floor(freeBytes / 2 ** 20)} MiB left`];
}
