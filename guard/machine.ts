/** Whether a guard works on this machine, for `rampart doctor`. */
import type { KernelFeatures } from '../lib/ebpf/features/feature.ts';

export interface Machine {
  /** The kernel's features, as probed. */
  readonly kernel: KernelFeatures;
  readonly isRoot: boolean;
  /** Why no container runtime answers; undefined if one does. */
  readonly noRuntime: string | undefined;
  /** Where agents and standalone keep their data. */
  readonly dataDirectory: string;
  /** Free space for this user on the file system of the data directory. */
  readonly freeBytes: number;
  /** fs.inotify.max_user_watches and max_user_instances; undefined if this process may not read them. */
  readonly inotify: { readonly watches: number; readonly instances: number } | undefined;
  readonly signal: AbortSignal;
}

export interface Diagnosis {
  /** Which of its mechanisms it would use: a mode of the sensor, a backend. */
  readonly mode?: string | undefined;
  /** Why it does not work here, and what to do: a clause each. Empty: it works. */
  readonly obstacles: readonly string[];
  /** What it cannot do on this machine: a clause each. */
  readonly limits: readonly string[];
  /** Further facts about the machine, each under its own key of `rampart doctor -o json`. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/**
 * Must not change anything permanently.
 *
 * @example
 * export const examineDoors: ExamineMachine = async (machine) => ({
 *   obstacles: machine.isRoot ? [] : ['it needs root; run it as root'],
 *   limits: diskLimits(machine),
 * });
 */
export type ExamineMachine = (machine: Machine) => Promise<Diagnosis>;

/** With less free space, baselines, bytecode and queued alerts may not fit. */
const LITTLE_BYTES = 256 * 1024 * 1024;

/** A limit for guards that keep data; empty with enough space. */
export function diskLimits({ dataDirectory, freeBytes }: Machine): readonly string[] {
  if (freeBytes >= LITTLE_BYTES) return [];
  return [`${dataDirectory} has only ${Math.floor(freeBytes / 2 ** 20)} MiB left`];
}
