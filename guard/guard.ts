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
  /** The CustomResourceDefinitions that it brings. They are waited for: without them it does not run, and says so. */
  readonly resources: readonly Resource[];
  /** A name of `resources` that other versions of its API use for something else: the API serves only one of them. */
  readonly variants?: ResourceVariants;
  /** It runs once the API has answered, with or without its resources, for what it does about others. Default: false. */
  readonly worksWithoutResources?: true;
  /**
   * Kinds written by users that have `status.conditions`: if a node cannot serve the guard, condition
   * `Served` says so.
   */
  readonly guarded?: readonly ResourceType[];
  /** Kubernetes' own kinds with which users request it. */
  readonly builtinKinds?: readonly ResourceType[];
  readonly commands?: readonly OwnCommand[];
  readonly options?: readonly GuardOption[];
  /**
   * Converts the values of the command line for its parts; `option-values.ts` reads values with their types.
   * Options that a command lacks have their defaults. It is called before anything has begun, and again for
   * each part: it must have no effects.
   *
   * @throws {RampartError} `INPUT` for values that cannot work
   */
  readonly parse: (values: OptionValues) => Options;
  /** Where its node part keeps what outlives a restart. */
  readonly directory?: GuardDirectory;
  /** Whether its node part uses the container runtime; otherwise none is looked for. `needed`: readiness waits for it. */
  readonly containers?: 'needed' | 'used';
  readonly rights: GuardRights;
  /** The node part's requirements for the agent's pod, besides the base. */
  readonly pod?: PodNeeds;
  /** The parts of /healthz and /readyz that it has. A part that is not named here cannot be registered. */
  readonly health?: readonly HealthPart[];
  /** Registers its metrics, with readings of nothing: for the tables in docs/. */
  readonly metrics?: () => Promise<GuardMetrics>;
  /** Prometheus' alerting rules for these metrics. */
  readonly alertingRules?: () => Promise<readonly AlertingRule[]>;
  /** Where the operator's metrics are beside /metrics: where the product whose place it takes has them. */
  readonly metricsPaths?: readonly string[];
  /** The part that the agent runs on each node. */
  readonly node?: () => Promise<NodePart<Options>>;
  /** Its cluster part objects to writes if the API is in the same process (`context.admission`): until it is ready, they wait. */
  readonly admits?: true;
  /** The part that the operator runs once per cluster. */
  readonly cluster?: () => Promise<ClusterPart<Options>>;
  /** Whether it works on this machine, for `rampart doctor`. */
  readonly examine?: () => Promise<ExamineMachine>;
  readonly status?: () => Promise<StatusSection>;
  /** The picture behind its card of `rampart ui`. */
  readonly picture?: () => Promise<PictureSource>;
  /** The kinds of lines that its node part gives to the sink, for `rampart alerts`. */
  readonly lines?: () => Promise<readonly LineKind[]>;
  /** Its findings in the words of OCSF, for OTLP. */
  readonly ocsf?: () => Promise<OcsfMapping>;
  /** Objects and kernel state that stay in a cluster and on nodes when its processes end. */
  readonly leftovers?: () => Promise<Leftovers>;
  /** Apart from {@link leftovers}, which load more: each agent without the guard loads this at its start. */
  readonly switchedOff?: () => Promise<CleanSwitchedOff<Options>>;
}

/**
 * Removes what has an effect on this node although the guard is switched off. An agent or standalone without the guard calls it at its
 * start, with whatever rights it has.
 *
 * @returns a line for each thing that was removed
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
 * Resources that share one name, of which the API has one.
 *
 * @example
 * resources: [bpfApplications],
 * variants: { option: 'bpfmanApi', resources: { 'v0.6': bpfApplications, 'v0.5': earlierApplications } },
 */
export interface ResourceVariants {
  /** The option that chooses where the API is our own, by the name that commander makes of its flag: `bpfmanApi`. */
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
 * A guard as one of a list, in which the type of the options differs from guard to guard.
 *
 * The cast drops that type. It is safe because only `run-guards.ts` calls the parts of a guard, with the
 * result of the same guard's `parse`.
 */
export function defineGuard<Options>(guard: Guard<Options>): Guard {
  return guard as Guard;
}

/** Where Rampart is deployed: its leases, and what belongs to no namespace of a user. */
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
  /** Declares options and subcommands only: their actions load what does the work, so that `--help` is quick. */
  readonly create: (guard: Guard) => Command;
  /** One of the examples of `rampart --help`: what follows `rampart`, and what it does. */
  readonly example?: readonly [command: string, what: string];
}

/**
 * A flag. Two guards that name the same object share the flag.
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
  /** As commander has it: `--mode <mode>`. */
  readonly flags: string;
  readonly description: string;
  readonly on: readonly GuardCommand[];
  readonly default?: unknown;
  /** How the default is shown, where a person would type something else. */
  readonly defaultText?: string;
  readonly choices?: readonly string[];
  /** May be given several times; the value is a list of strings. */
  readonly repeatable?: boolean;
  /** @throws commander's InvalidArgumentError, or an Error whose message says what is needed */
  readonly parse?: (text: string) => unknown;
  readonly env?: string;
}

/** Keyed by the camel-case names that commander makes of flags. */
export type OptionValues = Readonly<Record<string, unknown>>;

/**
 * @example
 * directory: { name: 'door-watch', flags: '--door-directory <dir>', description: 'where open doors are remembered' },
 */
interface GuardDirectory {
  /** Below the directory of standalone, and of the agent's data. */
  readonly name: string;
  /** Flags of the agent: `--spool <dir>`. */
  readonly flags: string;
  readonly description: string;
}

/** A rule as RBAC has it, with the reason as a comment in the manifest. */
export interface Right {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly why?: string;
  /** In {@link systemNamespace} only: a Role in place of a ClusterRole. */
  readonly inSystem?: true;
}

/**
 * @param group - Of the API; '' is the core group.
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
  /** ClusterRoles that others bind: name, why, rules. */
  readonly roles?: readonly {
    readonly name: string;
    readonly why: string;
    readonly rules: readonly Right[];
    /** It has also the rules of all ClusterRoles with one of these labels, with the value `true`. */
    readonly aggregates?: readonly string[];
    /** The account that has it in the whole cluster. Default: none. */
    readonly boundTo?: 'operator';
  }[];
  /** Limits of the writes that the rights allow. */
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
  /** For the agent, beside `--guards`. */
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
  /** After the guard's name, and `node` if it is on a node: `file-access-node-pods`. */
  readonly name: string;
  /** What it means to be healthy, in words. */
  readonly what: string;
  /** Part of /healthz: only a new process helps. Default: of /readyz. */
  readonly alive?: boolean;
}

export type MetricsRegistry = Pick<Metrics, 'counter' | 'gauge' | 'histogram'>;

interface GuardMetrics {
  readonly node?: (metrics: MetricsRegistry) => void;
  readonly cluster?: (metrics: MetricsRegistry) => void;
}
