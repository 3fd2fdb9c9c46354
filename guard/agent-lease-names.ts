/** The Lease of an agent: its name, and what it says about the guards on its node. */
import { createHash } from 'node:crypto';

import type { KubeObject } from '../lib/kube/object/object.ts';

/** A label of each agent's Lease: the node's name, or its digest if the name is not valid as a label. */
export const agentLeaseLabel = 'rampart.dev/agent';
/** An annotation of each agent's Lease: the node's full name. */
export const agentNodeAnnotation = 'rampart.dev/node';
/**
 * A label of an agent's Lease: the boot ID of its kernel. Also on the Lease of a kernel, whose holder raises the alerts of all nodes on
 * that kernel.
 */
export const kernelLeaseLabel = 'rampart.dev/kernel';
/**
 * On the Leases of agents and of the operator: all guards that the process runs; those not listed are switched off. JSON:
 * `{"file-access":{"state":"running"},"file-integrity":{"state":"unavailable","reason":"..."}}`; some have `facts`.
 */
export const agentGuardsAnnotation = 'rampart.dev/guards';
/** On the same Leases: losses of the process itself. JSON: `{"lines":3}`. */
export const agentLossesAnnotation = 'rampart.dev/losses';

const guardStates = ['starting', 'running', 'waiting', 'unavailable'] as const;

/** The state of a guard on a node: `waiting` for what it needs, `unavailable` if the node cannot run it. */
export interface AgentGuardState {
  readonly state: (typeof guardStates)[number];
  /** One or two sentences; empty without a reason. */
  readonly reason: string;
  /** What the guard reports about its work on the node, in the form that its status section expects. */
  readonly facts?: GuardFacts;
  readonly coverage?: Coverage;
}

/** How much a guard sees on a node. */
export interface Coverage {
  /** The mechanism that it uses: the sensor's mode, the dataplane. */
  readonly mode: string;
  /** Accesses that it cannot see and actions that it cannot take in this mode, a few words each. */
  readonly blindSpots: readonly string[];
  /** Losses since the process started, as in its metrics. */
  readonly losses: Losses;
}

/** Counts, keyed by what was lost: `accesses`. */
export type Losses = Readonly<Record<string, number>>;

/** A few plain values, under names that the guard chooses. */
export type GuardFacts = Readonly<Record<string, string | number | boolean>>;

export interface AgentLease {
  readonly nodeName: string;
  /** Losses of the process, besides those of its guards. */
  readonly losses?: Losses;
  /** Keyed by the guard's name. */
  readonly guards: ReadonlyMap<string, AgentGuardState>;
}

/** Kubernetes limits annotations to 256 KiB; five guards need some hundred bytes. */
const MAX_GUARDS_LENGTH = 16_384;
const MAX_GUARDS = 64;
const MAX_REASON_LENGTH = 1000;
const MAX_FACTS = 128;
const MAX_BLIND_SPOTS = 16;
/** Limit of one text among the facts, in characters. */
export const MAX_FACT_LENGTH = 200;
/** A DNS subdomain, as the API requires for names of nodes. */
const nodeName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const guardName = /^[a-z][-a-z0-9]{0,62}$/;

/** The name of an agent's Lease, in the system's namespace. */
export function agentLeaseName(node: string): string {
  const digest = createHash('sha256').update(node).digest('hex').slice(0, 16);
  return node.length <= 200 ? `rampart-agent-${node}` : `rampart-agent-${digest}`;
}

/** Whether a Lease belongs to an agent, whatever else is in it: then it is not a lock. */
export function isAgentLease({ metadata }: Pick<KubeObject, 'metadata'>): boolean {
  return metadata.labels?.[agentLeaseLabel] !== undefined;
}

/** Undefined for other Leases, and if the node is missing. Unknown keys are ignored: a newer agent may report more. */
export function readAgentLease(lease: Pick<KubeObject, 'metadata'>): AgentLease | undefined {
  if (!isAgentLease(lease)) return undefined;
  const { annotations = {} } = lease.metadata;
  const name = annotations[agentNodeAnnotation] ?? '';
  if (!nodeName.test(name)) return undefined;
  const losses = lossesOf(parsed(annotations[agentLossesAnnotation] ?? ''));
  return { nodeName: name, losses, guards: readGuardStates(lease) };
}

/** The guards' states in a lease, keyed by the guard's name. */
export function readGuardStates({
  metadata,
}: Pick<KubeObject, 'metadata'>): ReadonlyMap<string, AgentGuardState> {
  return guardsOf(metadata.annotations?.[agentGuardsAnnotation] ?? '');
}

function guardsOf(text: string): Map<string, AgentGuardState> {
  const guards = new Map<string, AgentGuardState>();
  if (text.length > MAX_GUARDS_LENGTH) return guards;
  for (const [name, value] of entriesOf(parsed(text)).slice(0, MAX_GUARDS)) {
    if (!guardName.test(name)) continue;
    const { state: given, reason, facts, coverage } = Object.fromEntries(entriesOf(value));
    const state = guardStates.find((one) => one === given);
    if (state === undefined) continue;
    guards.set(name, {
      state,
      reason: typeof reason === 'string' ? reason.slice(0, MAX_REASON_LENGTH) : '',
      ...(facts !== undefined && { facts: factsOf(facts) }),
      ...(coverage !== undefined && { coverage: coverageOf(coverage) }),
    });
  }
  return guards;
}

function coverageOf(value: unknown): Coverage {
  const { mode, blindSpots, losses } = Object.fromEntries(entriesOf(value));
  const text = (one: unknown): string => (typeof one === 'string' ? one.slice(0, MAX_FACT_LENGTH) : '');
  return {
    mode: text(mode),
    blindSpots: Array.isArray(blindSpots) ? blindSpots.slice(0, MAX_BLIND_SPOTS).map(text) : [],
    losses: lossesOf(losses),
  };
}

function lossesOf(value: unknown): Losses {
  const counts = Object.entries(factsOf(value)).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  );
  return Object.fromEntries(counts);
}

function factsOf(value: unknown): GuardFacts {
  const known = entriesOf(value).flatMap(([name, fact]): [string, GuardFacts[string]][] => {
    if (typeof fact === 'string') return [[name, fact.slice(0, MAX_FACT_LENGTH)]];
    return typeof fact === 'number' || typeof fact === 'boolean' ? [[name, fact]] : [];
  });
  return Object.fromEntries(known.slice(0, MAX_FACTS));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
}
