/**
 * Network policies by iptables and ipset, with the chains and marks that are known from kube-router.
 *
 * @module
 */
import { KeptNamespace } from '../../../../shared/netlink/namespace.ts';
import { errorCodes, RampartError } from '../../../../shared/observe/errors.ts';
import {
  type Address,
  type ByFamily,
  type Direction,
  directions,
  type NodeRules,
  type PodKey,
  type PolicyKey,
  policyRulesKey,
  type PolicyRules,
  type RulesChange,
} from '../../engine/rules.ts';
import {
  type Dataplane,
  type DataplaneOptions,
  defaultDataplaneOptions,
  type Drift,
  type Programmed,
  type Refused,
} from '../dataplane.ts';
import { compileBase } from './base.ts';
import { refusedCounts } from './counters.ts';
import { driftBetween } from './drift.ts';
import { familyEdits, setEdits } from './edits.ts';
import { IptablesKernel, type KernelRules, RefusedEdits } from './kernel.ts';
import { families, logPrefix, podChain, policyChain, unknownPodsChain } from './names.ts';
import { compilePod } from './pod.ts';
import {
  type CompiledPolicy,
  compilePolicy,
  peerSetName,
  type SetKey,
  type Slot,
  targetSet,
} from './policy.ts';
import { Refusals } from './refusals.ts';
import { type IptablesRules, isNothing, merged, noRules, sameLines, sameMembers } from './rules.ts';
import { Trial } from './trial.ts';
import { type Iptables, iptablesInUse, type Variant } from './variant.ts';

/** What the rules are of: `base`, `pod KEY`, or the key of a policy's rules. */
type Owned = Map<string, IptablesRules>;

interface ChainOwner {
  readonly kind: 'pod' | 'policy';
  readonly key: string;
}

type Targets = ReadonlyMap<string, ByFamily<readonly Address[]>>;

export interface IptablesOptions extends DataplaneOptions {
  /** Default: the one that this node uses. */
  readonly variant?: Variant;
}

/**
 * Works in the network namespace that the calling thread has now. Which iptables is in use is looked up at the first call.
 */
export function openIptablesDataplane(options: Partial<IptablesOptions> = {}): Dataplane {
  return new IptablesDataplane(new KeptNamespace(), { ...defaultDataplaneOptions, ...options });
}

class IptablesDataplane implements Dataplane {
  readonly #namespace: KeptNamespace;
  readonly #options: IptablesOptions;
  #iptables: Iptables | undefined;
  /** What the kernel has, as of the last change. */
  #owned: Owned = new Map();
  #targets: Targets = new Map();
  /** Sets that have the second of their two names. */
  readonly #second = new Set<SetKey>();
  readonly #refusals = new Refusals();
  /** By chain. */
  readonly #owners = new Map<string, ChainOwner>();

  constructor(namespace: KeptNamespace, options: IptablesOptions) {
    this.#namespace = namespace;
    this.#options = options;
  }

  async sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed> {
    this.#refusals.forget();
    for (;;) {
      const { owned, run } = await this.#planSync(rules, signal);
      try {
        const commands = await run();
        this.#owned = owned;
        this.#targets = targetsOf(rules);
        this.#remember(rules);
        return { commands, ...this.#refused() };
      } catch (error) {
        if (!(error instanceof RefusedEdits)) throw error;
        // One rule that is not taken is not to keep all others out. Which one it is, is learnt: at some point there is nothing new.
        const wanted = merged(owned.values());
        const trial = new Trial(await this.#find(signal), this.#namespace, signal);
        const isNew = await this.#refusals.learn(
          error,
          wanted,
          (chain) => this.#owners.get(chain)?.kind === 'policy',
          (family, lines) => trial.rules(family, lines),
        );
        if (!isNew) throw error;
      }
    }
  }

  async #planSync(rules: NodeRules, signal: AbortSignal | undefined) {
    const actual = await (await this.#open(signal)).read(signal);
    const targets = targetsOf(rules);
    this.#adoptNames(rules, actual);
    const owned: Owned = new Map([['base', compileBase(rules, this.#options)]]);
    for (const pod of rules.pods.values()) owned.set(podOwner(pod.pod), compilePod(pod, this.#options));
    for (const key of rules.policies.keys()) owned.set(key, this.#policy(rules, key, targets, actual));
    this.#remember(rules);
    return { owned, run: () => this.#program(actual, merged(owned.values()), signal) };
  }

  #refused(): Pick<Programmed, 'refused'> {
    const refused = this.#refusals.problems();
    return refused.length === 0 ? {} : { refused };
  }

  async apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed> {
    if (change.podCidrs || !this.#owned.has('base')) return await this.sync(rules, signal);
    const targets = targetsOf(rules);
    const policies = new Set(change.policies);
    for (const key of new Set([...targets.keys(), ...this.#targets.keys()])) {
      if (!sameTargets(targets.get(key), this.#targets.get(key))) policies.add(key);
    }
    const changed: Owned = new Map([['base', compileBase(rules, this.#options)]]);
    for (const key of change.pods) {
      const pod = rules.pods.get(key);
      changed.set(podOwner(key), pod === undefined ? noRules : compilePod(pod, this.#options));
    }
    for (const key of policies) {
      changed.set(key, this.#policy(rules, key, targets, this.#owned.get(key) ?? noRules));
    }
    const before = merged([...changed.keys()].map((owner) => this.#owned.get(owner) ?? noRules));
    let commands: number;
    try {
      commands = await this.#program(before, merged(changed.values()), signal);
    } catch (error) {
      // Somebody has changed what is ours.
      if (!(error instanceof RefusedEdits)) throw error;
      return { replacedBecause: error.message, ...(await this.sync(rules, signal)) };
    }
    for (const [owner, part] of changed) {
      if (isNothing(part)) this.#owned.delete(owner);
      else this.#owned.set(owner, part);
    }
    this.#targets = targets;
    this.#rememberChange(rules, change);
    return { commands, ...this.#refused() };
  }

  async verify(signal?: AbortSignal): Promise<readonly Drift[]> {
    const actual = await (await this.#open(signal)).read(signal);
    return driftBetween(merged(this.#owned.values()), actual, (chain) => this.#owners.get(chain)?.key);
  }

  /** The kernel tells nobody of changes by legacy iptables, nor of those of a set. */
  async disturbed(signal: AbortSignal): Promise<boolean> {
    if (!signal.aborted)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return false;
  }

  async counters(signal?: AbortSignal): Promise<readonly Refused[]> {
    const kernel = await this.#open(signal);
    const listings = await Promise.all(kernel.families.map((family) => kernel.save(family, ['-c'], signal)));
    return refusedCounts(listings, (chain) =>
      chain === unknownPodsChain ? { pod: undefined } : this.#podOf(chain),
    );
  }

  async remove(signal?: AbortSignal): Promise<readonly string[]> {
    const actual = await (await this.#open(signal)).read(signal);
    await this.#program(actual, noRules, signal);
    this.#owned = new Map();
    this.#targets = new Map();
    this.#second.clear();
    return [
      ...families.flatMap((family) => {
        const { hooks, tops, chains } = actual.families[family];
        const program = family === 4 ? 'iptables' : 'ip6tables';
        return [
          ...[...hooks].flatMap(([chain, lines]) =>
            lines.map((line) => `${program} rule in ${chain}: ${line}`),
          ),
          ...[...tops.keys(), ...chains.keys()].map((chain) => `${program} chain ${chain}`),
        ];
      }),
      ...[...actual.sets.keys()].map((name) => `ipset ${name}`),
    ];
  }

  whoseLog(prefix: string): { readonly pod: PodKey | undefined; readonly direction: Direction } | undefined {
    const [, chain = ''] = prefix.trim().split(' ');
    const direction = directions.find((each) => logPrefix(chain, each) === prefix.trim());
    if (direction === undefined) return undefined;
    if (chain === unknownPodsChain) return { pod: undefined, direction };
    const owner = this.#podOf(chain);
    return owner === undefined ? undefined : { ...owner, direction };
  }

  #podOf(chain: string): { readonly pod: PodKey } | undefined {
    const owner = this.#owners.get(chain);
    return owner?.kind === 'pod' ? { pod: owner.key } : undefined;
  }

  [Symbol.dispose](): void {
    this.#namespace[Symbol.dispose]();
  }

  async #open(signal: AbortSignal | undefined): Promise<IptablesKernel> {
    return new IptablesKernel(await this.#find(signal), this.#namespace);
  }

  async #find(signal: AbortSignal | undefined): Promise<Iptables> {
    this.#iptables ??= await iptablesInUse(this.#namespace, this.#options.variant, signal);
    return this.#iptables;
  }

  /**
   * In three steps: sets and members that come; the rules, at one moment; sets and members that are not needed any more. So
   * between them each rule allows what it did, or will, or both: see {@link #policy} for where that is not enough.
   */
  async #program(
    before: IptablesRules,
    after: IptablesRules,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    const kernel = await this.#open(signal);
    const sets = setEdits(before.sets, after.sets);
    const of = (family: 4 | 6): readonly string[] => {
      const edits = familyEdits(before.families[family], after.families[family]);
      if (edits !== undefined) return edits;
      throw new RampartError(errorCodes.SYSTEM, { what: 'cannot compare the rules of iptables' });
    };
    const edits = { 4: of(4), 6: of(6) };
    if (edits[4].length === 0 && edits[6].length === 0) {
      await kernel.restoreSets([...sets.before, ...sets.after], signal);
    } else {
      await kernel.restoreSets(sets.before, signal);
      await kernel.restoreRules(edits, signal);
      await kernel.restoreSets(sets.after, signal);
    }
    return sets.before.length + sets.after.length + edits[4].length + edits[6].length;
  }

  /**
   * Where members and rules of a policy change, or members and those whom it is for, sets that have other members get their
   * other name, so that all changes with the rules: else a pod that is new in the policy would for a moment be reached by those who
   * were allowed before.
   */
  #policy(rules: NodeRules, key: string, targets: Targets, before: IptablesRules): IptablesRules {
    const policy = rules.policies.get(key);
    const addresses = targets.get(key);
    if (policy === undefined || addresses === undefined) {
      this.#refusals.drop(key);
      return noRules;
    }
    const compile = (): CompiledPolicy =>
      this.#refusals.without(
        key,
        policy.policy,
        compilePolicy(policy, addresses, (each) => this.#slot(each)),
      );
    let compiled = compile();
    let isOther = false;
    for (const family of families) {
      const chain = policyChain(policy.direction, policy.policy, family);
      const target = targetSet(policy.direction, policy.policy, family);
      const [lines, linesBefore] = [compiled, before].map((each) => each.families[family].chains.get(chain));
      const [members, membersBefore] = [compiled, before].map(({ sets }) => sets.get(target)?.members);
      if (lines === undefined || linesBefore === undefined) continue;
      if (
        sameLines(lines, linesBefore) &&
        members !== undefined &&
        membersBefore !== undefined &&
        sameMembers(members, membersBefore)
      ) {
        continue;
      }
      for (const [name, set] of compiled.peerSets) {
        const [old, next] = [before.sets.get(name), compiled.sets.get(name)];
        if (old === undefined || next === undefined || old.family !== family) continue;
        if (sameMembers(old.members, next.members)) continue;
        if (!this.#second.delete(set)) this.#second.add(set);
        isOther = true;
      }
    }
    if (isOther) compiled = compile();
    return compiled;
  }

  #slot(key: SetKey): Slot {
    return this.#second.has(key) ? 1 : 0;
  }

  /** Of the two names of a set the one that rules look into. */
  #adoptNames(rules: NodeRules, { used }: KernelRules): void {
    this.#second.clear();
    const targets = { 4: ['0.0.0.0'], 6: ['::'] };
    for (const policy of rules.policies.values()) {
      for (const [, key] of compilePolicy(policy, targets, () => 0).peerSets) {
        const family = key.endsWith(' 6') ? 6 : 4;
        if (used.has(peerSetName(key, family, 1)) && !used.has(peerSetName(key, family, 0))) {
          this.#second.add(key);
        }
      }
    }
  }

  /** Which names tell people of whom. */
  #remember(rules: NodeRules): void {
    this.#owners.clear();
    for (const key of rules.pods.keys()) this.#rememberPod(key);
    for (const policy of rules.policies.values()) this.#rememberPolicy(policy);
  }

  #rememberChange({ pods, policies }: NodeRules, change: RulesChange): void {
    for (const key of change.pods) {
      if (pods.has(key)) this.#rememberPod(key);
      else this.#owners.delete(podChain(key));
    }
    for (const key of change.policies) {
      const policy = policies.get(key);
      if (policy !== undefined) {
        this.#rememberPolicy(policy);
        continue;
      }
      const [direction, name] = key.split(' ', 2) as [Direction, PolicyKey];
      for (const family of families) this.#owners.delete(policyChain(direction, name, family));
    }
  }

  #rememberPod(key: PodKey): void {
    this.#owners.set(podChain(key), { kind: 'pod', key });
  }

  #rememberPolicy({ direction, policy: key }: PolicyRules): void {
    for (const family of families) {
      this.#owners.set(policyChain(direction, key, family), { kind: 'policy', key });
    }
  }
}

function podOwner(pod: PodKey): string {
  return `pod ${pod}`;
}

/** Of each policy the addresses of the pods that it is for, by the key of its rules. */
function targetsOf(rules: NodeRules): Targets {
  const targets = new Map<string, Record<4 | 6, Address[]>>();
  for (const pod of rules.pods.values()) {
    for (const direction of directions) {
      for (const policy of pod[direction] ?? []) {
        const key = policyRulesKey(direction, policy);
        let own = targets.get(key);
        if (own === undefined) targets.set(key, (own = { 4: [], 6: [] }));
        own[4].push(...pod.addresses[4]);
        own[6].push(...pod.addresses[6]);
      }
    }
  }
  return targets;
}

function sameTargets(
  a: ByFamily<readonly Address[]> | undefined,
  b: ByFamily<readonly Address[]> | undefined,
): boolean {
  return families.every((family) => sameLines(a?.[family] ?? [], b?.[family] ?? []));
}
