/** Which traps match which containers, and which the node itself. */
import { type AlertVersion, alertVersions } from '../alert/alert.ts';
import { accessFilter, accessWords, everyAccess } from '../../../lib/sensor/access.ts';
import type { KiveMatch, KivePolicy, KiveTrap } from '../api.ts';
import { defaultModeBits, parseFileMode } from './file-mode.ts';
import { canonicalIp } from './ip-address.ts';
import { compileNamePattern, type NamePattern } from './name-pattern.ts';
import { defaultScope, type PolicyScope } from './policy-scope.ts';
import type { NamedPrograms } from '../process-filter.ts';
import { containerNameOf } from './spellings.ts';
import { trapId } from './trap-id.ts';
import { hasItem, matchesHost, type PolicyProblem, validatePolicy } from './validation.ts';

/** The fields of a pod that are read here; a Pod of the API has them. */
export interface PodView {
  readonly metadata: {
    readonly name?: string | undefined;
    readonly namespace?: string | undefined;
    readonly uid?: string | undefined;
    readonly labels?: Readonly<Record<string, string>> | undefined;
  };
  readonly spec?: { readonly nodeName?: string | undefined } | undefined;
  readonly status?:
    | {
        readonly phase?: string | undefined;
        readonly podIP?: string | undefined;
        readonly podIPs?: readonly { readonly ip?: string | undefined }[] | undefined;
      }
    | undefined;
}

/** A trap of a policy, ready to be matched. */
export interface CompiledTrap {
  readonly policyNamespace: string;
  readonly policyName: string;
  /** `namespace/name` of the policy. */
  readonly policyKey: string;
  /** Index in the policy: `spec.traps[index]`. */
  readonly index: number;
  /** See DataSubject in trap-id.ts. */
  readonly slot: string;
  /** The label `trap-id`. */
  readonly id: string;
  readonly alertVersion: AlertVersion;
  readonly path: string;
  readonly create: boolean;
  readonly modeBits: number;
  /** Empty if the trap has none. */
  readonly callback: string;
  /** `namespace/name` of a Secret in the namespace of the policy; empty if the trap has none. */
  readonly callbackSecret: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** See accessFilter. */
  readonly filter: number;
  /** Undefined if all processes raise alerts. */
  readonly processes: NamedPrograms | undefined;
  /** Whether the trap is for the node itself. */
  readonly host: boolean;
  /** The blocks that match containers. */
  readonly blocks: readonly MatchBlock[];
}

/** A block of `matchAny`. Items that were left empty are undefined, and match everything. */
interface MatchBlock {
  readonly pod: string | undefined;
  readonly namespace: string | undefined;
  readonly ip: string | undefined;
  readonly labels: readonly (readonly [string, string])[];
  readonly containerName: NamePattern | undefined;
}

/** A policy, ready to be matched: its valid traps, and the problems of the others. */
export interface CompiledPolicy {
  /** `namespace/name`. */
  readonly key: string;
  readonly traps: readonly CompiledTrap[];
  readonly problems: readonly PolicyProblem[];
}

/** An unknown or empty version means `v1`, as in Kive. */
export function alertVersionOf(asked: string | undefined): AlertVersion {
  return alertVersions.find((version) => version === asked) ?? 'v1';
}

/**
 * Compiles a policy. Never throws: invalid traps are reported in `problems`.
 *
 * @param scope - Default: only policies of the system namespaces match pods in other namespaces.
 */
export function compilePolicy(policy: KivePolicy, scope: PolicyScope = defaultScope): CompiledPolicy {
  const { namespace: policyNamespace = '', name: policyName = '' } = policy.metadata;
  const policyKey = `${policyNamespace}/${policyName}`;
  const confinedTo = scope.isWide(policyNamespace) ? undefined : policyNamespace;
  const problems = validatePolicy(policy, scope);
  const withPath = new Map<string, number>();
  const traps: CompiledTrap[] = [];
  const alertVersion = alertVersionOf(policy.spec.alertVersion);
  policy.spec.traps.forEach((trap, index) => {
    if (problems.has(index)) return;
    const number = withPath.get(trap.path) ?? 0;
    withPath.set(trap.path, number + 1);
    const mode = parseFileMode(trap.mode ?? defaultModeBits.toString(8));
    traps.push({
      policyNamespace,
      policyName,
      policyKey,
      index,
      slot: `${number}:${trap.path}`,
      id: trapId(trap, alertVersion),
      alertVersion,
      path: trap.path,
      create: trap.create === true,
      modeBits: 'bits' in mode ? mode.bits : defaultModeBits,
      callback: trap.callback ?? '',
      callbackSecret: trap.callbackSecret === undefined ? '' : `${policyNamespace}/${trap.callbackSecret}`,
      metadata: trap.metadata ?? {},
      filter: filterOf(trap.operations),
      processes: namedPrograms(trap),
      host: matchesHost(trap),
      blocks: compileBlocks(trap, confinedTo),
    });
  });
  return { key: policyKey, traps, problems: [...problems.values()].flat() };
}

/** Undefined if all processes raise alerts. */
function namedPrograms({ processes }: KiveTrap): NamedPrograms | undefined {
  if (processes?.except !== undefined) return { kind: 'except', paths: processes.except };
  return processes?.only && { kind: 'only', paths: processes.only };
}

/** Ignores unknown operations, which the API refuses anyway: they must not reduce what is watched. */
function filterOf(operations: KiveTrap['operations'] = []): number {
  const known = operations.filter((word) => accessWords.some((one) => one === word));
  return known.length === 0 ? everyAccess : accessFilter(known);
}

/** @param confinedTo - The only namespace that the policy may match; undefined if it may match all. */
function compileBlocks(trap: KiveTrap, confinedTo: string | undefined): MatchBlock[] {
  // Blocks are valid here: validation refuses traps with a block that has no items (it would match everything) or that
  // names a namespace which the policy may not match.
  const blocks = (trap.matchAny ?? []).filter((match) => hasItem(match) && match.host !== true);
  return blocks.map((match: KiveMatch) => {
    const name = containerNameOf(match);
    const pattern = name === '' ? undefined : compileNamePattern(name);
    return {
      pod: match.pod || undefined,
      namespace: confinedTo ?? (match.namespace || undefined),
      ip: match.ip ? (canonicalIp(match.ip) ?? match.ip) : undefined,
      labels: Object.entries(match.matchLabels ?? {}),
      containerName: pattern !== undefined && 'why' in pattern ? undefined : pattern,
    };
  });
}

/** Fields of a pod for comparisons: read once for all traps. */
interface PodFacts {
  readonly name: string;
  readonly namespace: string;
  readonly ips: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

function factsOf({ metadata, status }: PodView): PodFacts {
  const ips = new Set<string>();
  for (const ip of [status?.podIP, ...(status?.podIPs ?? []).map((entry) => entry.ip)]) {
    const canonical = ip && canonicalIp(ip);
    if (canonical) ips.add(canonical);
  }
  return {
    name: metadata.name ?? '',
    namespace: metadata.namespace ?? '',
    ips: [...ips],
    labels: metadata.labels ?? {},
  };
}

/** Whether all items of the block that concern the pod hold. */
function podHolds(block: MatchBlock, pod: PodFacts): boolean {
  return (
    (block.pod === undefined || block.pod === pod.name) &&
    (block.namespace === undefined || block.namespace === pod.namespace) &&
    (block.ip === undefined || pod.ips.includes(block.ip)) &&
    block.labels.every(([key, value]) => Object.hasOwn(pod.labels, key) && pod.labels[key] === value)
  );
}

/** The traps that match some containers of one pod. */
class PodTraps {
  readonly #blocks: readonly (readonly [CompiledTrap, readonly MatchBlock[]])[];

  constructor(blocks: readonly (readonly [CompiledTrap, readonly MatchBlock[]])[]) {
    this.#blocks = blocks;
  }

  /** The traps for the container with this name, each once, in no particular order. */
  for(containerName: string): CompiledTrap[] {
    const traps: CompiledTrap[] = [];
    for (const [trap, blocks] of this.#blocks) {
      if (blocks.some((block) => block.containerName?.test(containerName) ?? true)) traps.push(trap);
    }
    return traps;
  }
}

type IndexEntry = readonly [CompiledTrap, MatchBlock];

/**
 * All traps of a cluster. Each block is indexed by its most specific item (pod, address, label, namespace), so that a
 * pod is compared only with the few blocks that may match it.
 */
export class TrapIndex {
  readonly #entries = new Map<string, Set<IndexEntry>>();
  readonly #placed = new Map<string, (readonly [string, IndexEntry])[]>();
  /** Traps for the node itself, keyed by policy. */
  readonly #ofHost = new Map<string, readonly CompiledTrap[]>();

  /** Adds a policy; it replaces the one with the same key. */
  set(policy: CompiledPolicy): void {
    this.delete(policy.key);
    const placed: (readonly [string, IndexEntry])[] = [];
    for (const trap of policy.traps) {
      for (const block of trap.blocks) {
        const place = this.#placeOf(block);
        const entry: IndexEntry = [trap, block];
        let entries = this.#entries.get(place);
        if (entries === undefined) this.#entries.set(place, (entries = new Set()));
        entries.add(entry);
        placed.push([place, entry]);
      }
    }
    this.#placed.set(policy.key, placed);
    const ofHost = policy.traps.filter(({ host }) => host);
    if (ofHost.length > 0) this.#ofHost.set(policy.key, ofHost);
  }

  /** @param key - `namespace/name`. */
  delete(key: string): void {
    for (const [place, entry] of this.#placed.get(key) ?? []) {
      const entries = this.#entries.get(place);
      entries?.delete(entry);
      if (entries?.size === 0) this.#entries.delete(place);
    }
    this.#placed.delete(key);
    this.#ofHost.delete(key);
  }

  /** The traps for the node itself. */
  forHost(): CompiledTrap[] {
    return [...this.#ofHost.values()].flat();
  }

  /** The traps that match containers of this pod. */
  forPod(pod: PodView): PodTraps {
    const facts = factsOf(pod);
    const found = new Map<CompiledTrap, MatchBlock[]>();
    for (const place of placesOf(facts)) {
      for (const [trap, block] of this.#entries.get(place) ?? []) {
        if (!podHolds(block, facts)) continue;
        const blocks = found.get(trap);
        if (blocks === undefined) found.set(trap, [block]);
        else blocks.push(block);
      }
    }
    return new PodTraps([...found]);
  }

  #placeOf({ pod, ip, labels, namespace }: MatchBlock): string {
    if (pod !== undefined) return `pod ${pod}`;
    if (ip !== undefined) return `ip ${ip}`;
    let [best, fewest] = [namespace === undefined ? '*' : `namespace ${namespace}`, Infinity];
    for (const [key, value] of labels) {
      const place = `label ${key}=${value}`;
      const count = this.#entries.get(place)?.size ?? 0;
      if (count < fewest) [best, fewest] = [place, count];
    }
    return best;
  }
}

function* placesOf({ name, namespace, ips, labels }: PodFacts): Iterable<string> {
  yield `pod ${name}`;
  for (const ip of ips) yield `ip ${ip}`;
  for (const key of Object.keys(labels)) yield `label ${key}=${labels[key]}`;
  yield `namespace ${namespace}`;
  yield '*';
}
