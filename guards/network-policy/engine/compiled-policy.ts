/** The rules of a policy in the form that a dataplane needs. */
import type { ParsedPolicy } from './parsed-policy.ts';
import type { NamedPort } from './parsed-ports.ts';
import { podEndpoints } from './peer-endpoints.ts';
import type { PolicyViews, RuleViews } from './peer-views.ts';
import type { PodFacts } from './pod-table.ts';
import {
  type Clause,
  type Direction,
  directions,
  type PolicyProblem,
  type PolicyRule,
  type PolicyRules,
} from './rules.ts';

/** A policy that selects pods of this node. */
export class CompiledPolicy {
  readonly policy: ParsedPolicy;
  readonly #views: PolicyViews;
  readonly #rules = new Map<Direction, PolicyRules>();
  #targets: readonly PodFacts[] = [];
  #problems: readonly PolicyProblem[] | undefined;
  /** The named ports of an ingress rule, resolved on the targets. */
  readonly #endpoints = new Map<RuleViews, ReturnType<typeof podEndpoints>>();

  constructor(policy: ParsedPolicy, views: PolicyViews) {
    this.policy = policy;
    this.#views = views;
  }

  /**
   * Must be called when what the compiled policy depends on may have changed.
   *
   * @param targets - The pods of this node that the policy selects; the same array as before if the pods are the same.
   */
  setTargets(targets: readonly PodFacts[]): void {
    if (targets !== this.#targets) this.#endpoints.clear();
    this.#targets = targets;
    this.#problems = undefined;
  }

  /** Named ports that no pod concerned has: they allow nothing until a pod has one. */
  problems(): readonly PolicyProblem[] {
    this.#problems ??= directions.flatMap((direction) =>
      (this.#views[direction] ?? []).flatMap((views) =>
        views.rule.names
          .filter((named) => !this.#isKnown(views, named))
          .map(({ index, name, protocol }) => ({
            policy: this.policy.key,
            field: `spec.${direction}[${views.rule.index}].ports[${index}].port`,
            message: `no pod here that the ${direction === 'ingress' ? 'policy selects' : 'rule allows'} has a port named ${JSON.stringify(name)} (${protocol}): the port allows nothing.`,
          })),
      ),
    );
    return this.#problems;
  }

  /** True for an egress rule that has no peers yet: no pod could lack the name. */
  #isKnown({ addresses, endpoints }: RuleViews, { name, protocol }: NamedPort): boolean {
    if (endpoints === undefined) {
      return this.#targets.some(({ ports }) =>
        ports.some((port) => port.name === name && port.protocol === protocol),
      );
    }
    const { 4: four, 6: six } = endpoints.value();
    return four.length + six.length > 0 || addresses?.isEmpty === true;
  }

  /** The current rules; the same object as before if nothing has changed. Undefined if the policy does not isolate in this direction. */
  rules(direction: Direction): PolicyRules | undefined {
    const views = this.#views[direction];
    if (views === undefined) return undefined;
    const before = this.#rules.get(direction);
    const rules = views.map((rule, at) => this.#ruleOf(rule, before?.rules[at]));
    if (before !== undefined && rules.every((rule, at) => rule === before.rules[at])) return before;
    const after = { policy: this.policy.key, direction, rules };
    this.#rules.set(direction, after);
    return after;
  }

  #ruleOf(views: RuleViews, before: PolicyRule | undefined): PolicyRule {
    const clauses = this.#clausesOf(views);
    const same =
      before?.clauses.length === clauses.length &&
      clauses.every((clause, at) => isSame(clause, before.clauses[at]));
    return same ? before : { index: views.rule.index, clauses };
  }

  /** Clauses stay while their peers or endpoints are gone, so that new ones do not make a new rule. */
  #clausesOf(views: RuleViews): Clause[] {
    const { ports, names } = views.rule;
    if (views.peers.length === 0) return [];
    const clauses: Clause[] =
      ports === 'any' || ports.length > 0 ? views.peers.map((peers) => ({ peers, ports })) : [];
    if (views.endpoints !== undefined)
      clauses.push({ peers: 'everyone', endpoints: views.endpoints.value() });
    else if (names.length > 0) {
      const endpoints = this.#targetEndpoints(views);
      clauses.push(...views.peers.map((peers) => ({ peers, endpoints })));
    }
    return clauses;
  }

  #targetEndpoints(views: RuleViews): ReturnType<typeof podEndpoints> {
    const known = this.#endpoints.get(views);
    if (known !== undefined) return known;
    const endpoints = podEndpoints(this.#targets, views.rule.names);
    this.#endpoints.set(views, endpoints);
    return endpoints;
  }
}

/** Whether the parts of both are the same objects. */
function isSame(a: Clause, b: Clause | undefined): boolean {
  if (b === undefined || a.peers !== b.peers) return false;
  if ('endpoints' in a) return 'endpoints' in b && a.endpoints === b.endpoints;
  return 'ports' in b && a.ports === b.ports;
}
