/**
 * The contract between a guard and the program that runs it.
 *
 * A guard is one folder of `guards/` and one line of `apps/guards.ts`. Its {@link Guard} descriptor is the
 * only interface to the rest of the program: commands, flags, status, alert lines, health, metrics,
 * documentation and the manifests in deploy/ follow from the list of descriptors.
 *
 * The rules for a part, as for a controller-runtime `Reconciler`:
 *
 * - It runs until `context.signal` aborts, then ends what it opened and resolves. Resolving earlier is a
 *   fault.
 * - It is level-triggered: its actions follow from the state of the API and of the machine, so a restart at
 *   any moment is harmless, and nothing that it guards opens when it stops.
 * - An unreachable API is not a failure: it continues with the last known state.
 * - If this machine or cluster lacks something, throw a `RampartError`. The guard is then reported as
 *   unavailable, with the message, and the others continue. Any other error is a fault of the program, and
 *   ends the process.
 */
import type { Command } from 'commander';

import type { Resource } from '../lib/kube/crd/resource.ts';
import type { ResourceType } from '../lib/kube/object/object.ts';
import type { Metrics } from '../lib/telemetry/metrics.ts';
import type { AlertingRule } from './alerting-rule.ts';
import type { ClusterContext, NodeContext } from './context.ts';
import type { Leftovers } from './leftovers.ts';
import type { LineKind } from './line-kind.ts';
import type { ExamineMachine } from './machine.ts';
import type { PictureSource } from './picture.ts';
import type { StatusSection } from './status-section.ts';
import type { OcsfMapping } from './stream/ocsf.ts';
import type { WriteLimits } from './write-limits.ts';

/**
 * A guard's description, without loading its code. Whatever loads modules is a function, so that `--help` is
 * quick and a guard that is off costs no memory.
 *
 * @example
 * // guards/door-watch/guard.ts
 * export const doorWatch = defineGuard<DoorWatchOptions>({
 *   name: 'door-watch',
 *   summary: 'reports who opens the doors that a DoorPolicy names',
 *   resources: [doorPolicies],
 *   guarded: [doorPolicyType],
 *   commands: [{ create: doorCommand, example: ['door list', 'list the doors that are watched'] }],
 *   options: [
 *     { flags: '--door-interval <s>', description: 'how often doors are looked at', on: ['agent'], parse: Number, default: 60 },
 *   ],
 *   parse: (values) => ({ intervalS: number(values, 'doorInterval') }),
 *   rights: {
 *     agent: [right('doors.example.com', ['doorpolicies'], ['list', 'watch'])],
 *     viewer: [right('doors.example.com', ['doorpolicies'], ['get', 'list', 'watch'])],
 *   },
 *   health: [{ on: 'node', name: 'doorpolicies', what: 'DoorPolicies are listed' }],
 *   metrics: async () => (await import('./metrics.ts')).doorMetrics,
 *   node: async () => (await import('./node/run.ts')).doorWatchNode,
 *   status: async () => (await import('./status/section.ts')).doorStatus,
 * });
 *
 * // guards/door-watch/node/run.ts
 * export const doorWatchNode: NodePart<DoorWatchOptions> = async (context, { intervalS }) => {
 *   const policies = context.cache({ type: doorPolicyType });
 *   await runController({ reconcile: ..., signal: context.signal });
 * };
 */
export interface Guard<Options = unknown> {
  /** Its folder in `guards/`, and its name in `--guards`, logs, health, metrics labels, status and docs: `file-access`. */
  readonly name: string;
  /** A description for help texts, after its name: without a capital letter or a full stop. */
  readonly summary: string;
  /** The CustomResourceDefinitions that it brings. Its parts start once the API serves them; until then the guard reports that it waits. */
  readonly resources: readonly Resource[];
  /**
   * A name in `resources` that another version of the guard's API uses for a different resource: an API server can serve only one of the
   * two.
   */
  readonly variants?: ResourceVariants;
  /**
   * Its parts run once the API has answered, even if it does not serve `resources`: they also act on objects of other projects. Default:
   * false.
   */
  readonly worksWithoutResources?: true;
  /**
   * Kinds written by users that have `status.conditions`: if a node cannot serve the guard, condition
   * `Served` says so.
   */
  readonly guarded?: readonly ResourceType[];
  /** Kubernetes' own kinds through which users request the guard. */
  readonly builtinKinds?: readonly ResourceType[];
  readonly commands?: readonly OwnCommand[];
  readonly options?: readonly GuardOption[];
  /**
   * Converts a command's option values for the guard's parts; `option-values.ts` reads values with their types. Options that a command
   * lacks have their defaults. It is called before anything has started, and again for each part: it must have no side effects.
   *
   * @throws {RampartError} `INPUT` for values that cannot work
   */
  readonly parse: (values: OptionValues) => Options;
  /** Where its node part keeps data that outlives a restart. */
  readonly directory?: GuardDirectory;
  /** Whether its node part uses the container runtime; if no guard does, it is not opened. `needed`: readiness waits for the runtime. */
  readonly containers?: 'needed' | 'used';
  readonly rights: GuardRights;
  /** What its node part needs in the agent's pod, besides the base. */
  readonly pod?: PodNeeds;
  /** The parts of /healthz and /readyz that it has. Only parts named here can be registered. */
  readonly health?: readonly HealthPart[];
  /** Registers its metrics without values: for the tables in docs/. */
  readonly metrics?: () => Promise<GuardMetrics>;
  /** Prometheus' alerting rules for these metrics. */
  readonly alertingRules?: () => Promise<readonly AlertingRule[]>;
  /** Paths under which the operator's metrics are served in addition to /metrics: those of the product that the guard replaces. */
  readonly metricsPaths?: readonly string[];
  /** The part that the agent runs on each node. */
  readonly node?: () => Promise<NodePart<Options>>;
  /** Whether its cluster part may refuse writes, if the API is in the same process (`context.admission`): writes wait until it is ready. */
  readonly admits?: true;
  /** The part that the operator runs once per cluster. */
  readonly cluster?: () => Promise<ClusterPart<Options>>;
  /** Whether it works on this machine, for `rampart doctor`. */
  readonly examine?: () => Promise<ExamineMachine>;
  readonly status?: () => Promise<StatusSection>;
  /** The picture behind the guard's card in `rampart ui`. */
  readonly picture?: () => Promise<PictureSource>;
  /** The kinds of lines that it emits, for `rampart alerts`. */
  readonly lines?: () => Promise<readonly LineKind[]>;
  /** Maps its findings to OCSF, for OTLP. */
  readonly ocsf?: () => Promise<OcsfMapping>;
  /** Objects and kernel state that remain in a cluster and on nodes when its processes end. */
  readonly leftovers?: () => Promise<Leftovers>;
  /** Separate from {@link leftovers}, which loads more code: every agent without the guard loads this at its start. */
  readonly switchedOff?: () => Promise<CleanSwitchedOff<Options>>;
}

/**
 * Removes the guard's remains that still have an effect on this node although the guard is switched off. An agent or standalone without the
 * guard calls it at its start, with whatever rights it has.
 *
 * @returns a line for each thing removed
 * @example
 * export const openLocks: CleanSwitchedOff = async () => {
 *   const locks = await locksOfRampart();
 *   for (const lock of locks) await lock.open();
 *   return locks.map(({ name }) => `opened the lock ${name}`);
 * };
 */
export type CleanSwitchedOff<Options = unknown> = (
  options: Options,
  signal: AbortSignal,
) => Promise<readonly string[]>;

/**
 * Resources that share one name, so that the API can serve only one of them.
 *
 * @example
 * resources: [bpfApplications],
 * variants: { option: 'bpfmanApi', resources: { 'v0.6': bpfApplications, 'v0.5': earlierApplications } },
 */
export interface ResourceVariants {
  /** The option that chooses the variant where the API is our own; its name as commander derives it from the flag: `bpfmanApi`. */
  readonly option: string;
  /**
   * Keyed by the option's values. The first is the variant listed in {@link Guard.resources}; it is the
   * default unless the API already holds objects of another variant.
   */
  readonly resources: Readonly<Record<string, Resource>>;
}

/**
 * @example
 * export const doorNode: NodePart<{ intervalS: number }> = async (context, { intervalS }) => {
 *   using _ready = context.health.ready('door', () => (isDoorFound() ? undefined : 'no door was found'));
 *   while (!context.signal.aborted) {
 *     if (isDoorOpen()) context.sink(findingLine(openDoor(context.nodeName)));
 *     await sleep(intervalS * 1000, undefined, { signal: context.signal }).catch(() => undefined);
 *   }
 * };
 */
export type NodePart<Options = unknown> = (context: NodeContext, options: Options) => Promise<void>;
/**
 * @example
 * export const doorCluster: ClusterPart = async (context) => {
 *   const policies = context.cache({ type: doorPolicyType }, 'doorpolicies');
 *   await context.lead(async (term) => {
 *     using queue = keyQueue();
 *     using _changes = policies.subscribe(({ key }) => queue.add(key));
 *     await runController({ name: 'doors', queue, signal: term.signal, reconcile: writeStatus });
 *   });
 * };
 */
export type ClusterPart<Options = unknown> = (context: ClusterContext, options: Options) => Promise<void>;

/**
 * A guard as an element of a list, in which each guard has a different type of options.
 *
 * The cast drops that type. It is safe because only `run-guards.ts` calls the parts of a guard, with the result of the same guard's
 * `parse`.
 */
export function defineGuard<Options>(guard: Guard<Options>): Guard {
  return guard as Guard;
}

/** The namespace that Rampart is deployed in. It has Rampart's leases, and objects that belong to no user's namespace. */
export const systemNamespace = 'rampart-system';

export type GuardCommand = 'agent' | 'operator' | 'standalone';

/**
 * A command that belongs to one guard, such as `rampart network`.
 *
 * @example
 * const door: OwnCommand = {
 *   create: () =>
 *     new Command('door')
 *       .description('shows the doors that are watched')
 *       .action(async () => (await import('./commands/run.ts')).showDoors()),
 *   example: ['door', 'show the doors that are watched'],
 * };
 */
export interface OwnCommand {
  /** Declares options and subcommands only: their actions load the implementation, so that `--help` is quick. */
  readonly create: (guard: Guard) => Command;
  /** One of the examples of `rampart --help`: what follows `rampart`, and what it does. */
  readonly example?: readonly [command: string, what: string];
}

/**
 * A flag. If two guards list the same object, they share the flag.
 *
 * @example
 * const interval: GuardOption = {
 *   flags: '--door-interval <s>',
 *   description: 'how often doors are looked at, in seconds',
 *   on: ['agent', 'standalone'],
 *   default: 60,
 *   parse: Number,
 * };
 */
export interface GuardOption {
  /** In commander's syntax: `--mode <mode>`. */
  readonly flags: string;
  readonly description: string;
  readonly on: readonly GuardCommand[];
  readonly default?: unknown;
  /** The default as shown in the help, if a user would write it differently. */
  readonly defaultText?: string;
  readonly choices?: readonly string[];
  /** May be given several times; the value is a list of strings. */
  readonly repeatable?: boolean;
  /** @throws commander's InvalidArgumentError, or an Error whose message says what is needed */
  readonly parse?: (text: string) => unknown;
  readonly env?: string;
}

/** Keyed by the camel-case names that commander derives from flags. */
export type OptionValues = Readonly<Record<string, unknown>>;

/**
 * @example
 * directory: { name: 'door-watch', flags: '--door-directory <dir>', description: 'where open doors are remembered' },
 */
interface GuardDirectory {
  /** The directory's name, in the data directories of standalone and of the agent. */
  readonly name: string;
  /** The agent's flag for it: `--spool <dir>`. */
  readonly flags: string;
  readonly description: string;
}

/** An RBAC rule; `why` becomes a comment in the manifest. */
export interface Right {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly why?: string;
  /** Only in {@link systemNamespace}: a Role instead of a ClusterRole. */
  readonly inSystem?: true;
}

/**
 * @param group - The API group; '' is the core group.
 *
 * @example
 * const rights: GuardRights = {
 *   agent: [right('doors.example.com', ['doorpolicies'], ['list', 'watch'])],
 *   operator: [right('', ['secrets'], ['get'], { resourceNames: ['door-key'], inSystem: true, why: 'To sign reports.' })],
 * };
 */
export function right(
  group: string,
  resources: readonly string[],
  verbs: readonly string[],
  limits: Pick<Right, 'resourceNames' | 'why' | 'inSystem'> = {},
): Right {
  return { apiGroups: [group], resources, verbs, ...limits };
}

/**
 * @example
 * const rights: GuardRights = {
 *   agent: [right('doors.example.com', ['doorstates'], ['create', 'patch'])],
 *   viewer: [right('doors.example.com', ['doorpolicies'], ['get', 'list', 'watch'])],
 *   limits: {
 *     agent: [
 *       { group: 'doors.example.com', resources: ['doorstates'], allows: (it) => `${nameOf(it)} == ${node}`, what: 'that of its node' },
 *     ],
 *   },
 * };
 */
export interface GuardRights {
  readonly agent?: readonly Right[];
  readonly operator?: readonly Right[];
  readonly viewer?: readonly Right[];
  /** ClusterRoles for users to bind. */
  readonly roles?: readonly {
    readonly name: string;
    readonly why: string;
    readonly rules: readonly Right[];
    /** Labels: the rules of every ClusterRole that has one of them, with the value `true`, are added to this one (aggregation). */
    readonly aggregates?: readonly string[];
    /** The account that is bound to it in the whole cluster. Default: none. */
    readonly boundTo?: 'operator';
  }[];
  /** What the permitted writes may contain, beyond RBAC. */
  readonly limits?: WriteLimits;
}

/**
 * Additions to the agent's DaemonSet for a guard.
 *
 * @example
 * const pod: PodNeeds = {
 *   capabilities: [{ name: 'DAC_READ_SEARCH', why: 'Doors that root could not open otherwise.' }],
 *   mounts: [
 *     { name: 'doors', hostPath: '/dev/doors', mountPath: '/dev/doors', type: 'Directory', readOnly: true, why: 'The doors of the node.' },
 *   ],
 * };
 */
export interface PodNeeds {
  readonly capabilities?: readonly { readonly name: string; readonly why: string }[];
  readonly hostPID?: string;
  readonly hostNetwork?: string;
  /** AppArmor's `Unconfined`, and why. */
  readonly appArmorUnconfined?: string;
  readonly mounts?: readonly PodMount[];
  /** Arguments for the agent, in addition to `--guards`. */
  readonly args?: readonly string[];
}

export interface PodMount {
  readonly name: string;
  readonly hostPath: string;
  readonly mountPath: string;
  readonly type: 'Directory' | 'DirectoryOrCreate';
  readonly readOnly?: boolean;
  readonly propagation?: 'HostToContainer' | 'Bidirectional';
  readonly why: string;
}

/**
 * @example
 * const health: readonly HealthPart[] = [
 *   { on: 'node', name: 'doors', what: 'all doors were found' },
 *   { on: 'node', name: 'loop', what: 'doors were looked at within the last minute', alive: true },
 * ];
 */
export interface HealthPart {
  readonly on: 'node' | 'cluster';
  /** The part's name after that of the guard, and `node` if it is on a node: `file-access-node-pods`. */
  readonly name: string;
  /** What is true while it is healthy. */
  readonly what: string;
  /** Whether it is a part of /healthz, because only a restart helps. Default: a part of /readyz. */
  readonly alive?: boolean;
}

export type MetricsRegistry = Pick<Metrics, 'counter' | 'gauge' | 'histogram'>;

interface GuardMetrics {
  readonly node?: (metrics: MetricsRegistry) => void;
  readonly cluster?: (metrics: MetricsRegistry) => void;
}
