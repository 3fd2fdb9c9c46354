/** Network policies with iptables and ipset, using the chains and marks known from kube-router. */
import { KeptNamespace } from '../namespace.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { type NodeRules, type PodKey, policiesNaming, type RulesChange } from '../../engine/rules.ts';
import {
  type ChainOwner,
  type Dataplane,
  defaultDataplaneOptions,
  type Drift,
  type Programmed,
  type Refused,
} from '../dataplane.ts';
import { aborted } from '../../../../lib/time/abort.ts';
import { type BaseOptions, compileBase, trackingRules } from './base.ts';
import { ChainOwners } from './chain-owners.ts';
import { refusedCounts } from './counters.ts';
import { driftBetween } from './drift.ts';
import { familyEdits } from './edits.ts';
import { setEdits } from './ipset.ts';
import { IptablesKernel, RefusedEdits } from './kernel.ts';
import { parseLogPrefix } from '../log-prefix.ts';
import { families, isTopChain, unknownPodsChain } from './names.ts';
import { compilePod } from './pod.ts';
import { Policies } from './policies.ts';
import { Refusals } from './refusals.ts';
import { type IptablesRules, isEnforcing, isNothing, merged, noRules } from './rules.ts';
import { sameTargets, type Targets, targetsOf } from './targets.ts';
import { Trial } from './trial.ts';
import { type Iptables, iptablesInUse, type Variant } from './variant.ts';

/** Rules, keyed by owner: `base`, `pod KEY`, or the key of a policy's rules. */
type Owned = Map<string, IptablesRules>;

export interface IptablesOptions extends BaseOptions {
  /** Default: the variant that this node uses. */
  readonly variant?: Variant;
}

/**
 * Works in the current network namespace of the calling thread. The variant of iptables in use is looked up at the first call.
 */
export function openIptablesDataplane(options: Partial<IptablesOptions> = {}): Dataplane {
  return new IptablesDataplane(new KeptNamespace(), { ...defaultDataplaneOptions, ...options });
}

class IptablesDataplane implements Dataplane {
  readonly #namespace: KeptNamespace;
  readonly #options: IptablesOptions;
  #iptables: Iptables | undefined;
  /** Our rules in the kernel, as of the last change. */
  #owned: Owned = new Map();
  #targets: Targets = new Map();
  readonly #refusals = new Refusals();
  readonly #policies = new Policies(this.#refusals);
  readonly #owners = new ChainOwners();

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
        this.#owners.set(rules);
        return { commands, ...this.#refused() };
      } catch (error) {
        if (!(error instanceof RefusedEdits)) throw error;
        // One rejected rule must not block all others. Trials identify the rejected rules, until they find no more.
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
    if (families.some((family) => actual.families[family].isTaken === true)) throw taken();
    const targets = targetsOf(rules);
    this.#policies.adopt(rules, actual);
    const owned: Owned = new Map([['base', compileBase(rules, this.#options)]]);
    for (const pod of rules.pods.values()) owned.set(podOwner(pod.pod), compilePod(pod, this.#options));
    for (const key of rules.policies.keys())
      owned.set(key, this.#policies.compile(rules, key, targets, actual));
    this.#owners.set(rules);
    return { owned, run: () => this.#program(actual, merged(owned.values()), signal) };
  }

  #refused(): Pick<Programmed, 'refused'> {
    const refused = this.#refusals.problems();
    return refused.length === 0 ? {} : { refused };
  }

  async apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed> {
    if (change.podCidrs || !this.#owned.has('base')) return await this.sync(rules, signal);
    const targets = targetsOf(rules);
    const policies = new Set([...change.policies, ...policiesNaming(new Set(change.peers.keys()), rules)]);
    for (const key of new Set([...targets.keys(), ...this.#targets.keys()])) {
      if (!sameTargets(targets.get(key), this.#targets.get(key))) policies.add(key);
    }
    const changed: Owned = new Map([['base', compileBase(rules, this.#options)]]);
    for (const key of change.pods) {
      const pod = rules.pods.get(key);
      changed.set(podOwner(key), pod === undefined ? noRules : compilePod(pod, this.#options));
    }
    for (const key of policies) {
      changed.set(key, this.#policies.compile(rules, key, targets, this.#owned.get(key) ?? noRules));
    }
    const before = merged([...changed.keys()].map((owner) => this.#owned.get(owner) ?? noRules));
    let commands: number;
    try {
      commands = await this.#program(before, merged(changed.values()), signal);
    } catch (error) {
      // Another program has changed our rules.
      if (!(error instanceof RefusedEdits)) throw error;
      return { replacedBecause: error.message, ...(await this.sync(rules, signal)) };
    }
    for (const [owner, part] of changed) {
      if (isNothing(part)) this.#owned.delete(owner);
      else this.#owned.set(owner, part);
    }
    this.#targets = targets;
    this.#owners.change(rules, change);
    return { commands, ...this.#refused() };
  }

  async isEnforcing(signal?: AbortSignal): Promise<boolean> {
    const found = await (await this.#open(signal)).readRules(signal);
    return families.some((family) => isEnforcing(found[family]));
  }

  async idle(signal?: AbortSignal): Promise<void> {
    const actual = await (await this.#open(signal)).read(signal);
    const after = trackingRules((family) => actual.families[family].isTaken === true);
    await this.#program(actual, after, signal);
    this.#owned = new Map();
    this.#targets = new Map();
  }

  /** Neither xt_tables nor ipset reports changes. */
  isUndisturbed(): boolean {
    return false;
  }

  async verify(signal?: AbortSignal): Promise<readonly Drift[]> {
    const actual = await (await this.#open(signal)).read(signal);
    return driftBetween(merged(this.#owned.values()), actual, (chain) => this.#owners.get(chain)?.key);
  }

  /** The kernel does not report changes by legacy iptables, nor changes of sets. */
  async disturbed(signal: AbortSignal): Promise<boolean> {
    await aborted(signal);
    return false;
  }

  async counters(signal?: AbortSignal): Promise<readonly Refused[]> {
    const kernel = await this.#open(signal);
    const listings = await Promise.all(kernel.families.map((family) => kernel.save(family, ['-c'], signal)));
    return refusedCounts(listings, (chain) =>
      chain === unknownPodsChain || isTopChain(chain) ? { pod: undefined } : this.#owners.podOf(chain),
    );
  }

  async remove(signal?: AbortSignal): Promise<readonly string[]> {
    const actual = await (await this.#open(signal)).read(signal);
    await this.#program(actual, noRules, signal);
    this.#owned = new Map();
    this.#targets = new Map();
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

  ownerOfLog(prefix: string): ChainOwner | undefined {
    const logged = parseLogPrefix(prefix);
    const [chain = '', way] = logged?.words ?? [];
    if (logged === undefined || (way !== 'in' && way !== 'out')) return undefined;
    const { verdict } = logged;
    const direction = way === 'in' ? 'ingress' : 'egress';
    if (chain === unknownPodsChain) return { pod: undefined, direction, verdict };
    const owner = this.#owners.podOf(chain);
    return owner === undefined ? undefined : { ...owner, direction, verdict };
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
   * In three steps: new sets and members; the rules, atomically; sets and members that are no longer needed.
   * Between the steps each rule therefore allows what it did before, what it will allow, or both; see {@link
   * Policies.compile} for when that is not enough.
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
      throw new RampartError(errorCodes.SYSTEM, { what: 'cannot compare the iptables rules' });
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
}

/** Two programs that write the same chains would undo each other's rules. */
function taken(): RampartError {
  return new RampartError(errorCodes.CONFLICT, {
    what: 'cannot program iptables',
    why: "kube-router's rules are in the kernel, in chains with the same names",
    next: 'Stop kube-router, then remove its rules: `rampart network takeover`',
  });
}

function podOwner(pod: PodKey): string {
  return `pod ${pod}`;
}
