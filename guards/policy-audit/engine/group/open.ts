/**
 * Policy groups: members that are policies of any runtime, and an expression that combines them.
 */
import {
  EvaluationError,
  type AskedOfCluster,
  type EvaluateOptions,
  type Evaluator,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../evaluator.ts';
import {
  decideGroup,
  GroupExpressionError,
  membersOf,
  parseGroupExpression,
  type GroupNode,
} from './expression.ts';

export interface GroupSpec {
  /** `signed() && (trusted_registry() || exempt())` */
  readonly expression: string;
  /** The message for a refused request. */
  readonly message: string;
  /** Keyed by the names that the expression calls. The group disposes the members. */
  readonly members: ReadonlyMap<string, Evaluator>;
  /** Members whose metadata declares them as mutating, which a group does not allow. */
  readonly mutating?: ReadonlySet<string>;
}

/**
 * Opens a group. This also works for an invalid group: `validateSettings` reports its problems.
 *
 * @example
 * await using group = openGroupEvaluator({ expression: 'a() || b()', message: 'neither a nor b', members });
 * const { allowed, causes } = await group.evaluate(request);
 */
export function openGroupEvaluator(spec: GroupSpec): Evaluator {
  return new GroupEvaluator(spec);
}

class GroupEvaluator implements Evaluator {
  readonly runtime = 'group';
  readonly #spec: GroupSpec;
  readonly #tree: GroupNode | undefined;
  readonly #problems: readonly string[];
  #closed = false;

  constructor(spec: GroupSpec) {
    this.#spec = spec;
    const { tree, problems } = understand(spec);
    this.#tree = tree;
    this.#problems = [
      ...[...(spec.mutating ?? [])]
        .filter((name) => spec.members.has(name))
        .map((name) => `${fieldOf(name)}: mutation is not allowed inside of policy group`),
      ...problems.map((problem) => `spec.expression: ${problem}`),
    ];
  }

  /** Reports problems of the group itself, and problems of its members' settings. */
  async validateSettings(options?: EvaluateOptions): Promise<SettingsVerdict> {
    const problems = [...this.#problems];
    for (const [name, member] of this.#spec.members) {
      const { valid, message } = await member.validateSettings(options);
      if (!valid) problems.push(`${fieldOf(name)}: Policy settings are invalid: ${message ?? 'no message'}`);
    }
    return problems.length === 0 ? { valid: true } : { valid: false, message: problems.join('; ') };
  }

  async evaluate(request: PolicyRequest, options: EvaluateOptions = {}): Promise<Verdict> {
    if (this.#closed) throw new EvaluationError('aborted', 'the policy is closed');
    if (this.#tree === undefined || this.#problems.length > 0)
      throw new EvaluationError('expression', this.#problems.join('; '));
    const round = new Round(this.#spec, request, options);
    const allowed = await decideGroup(this.#tree, (name) => round.ask(name));
    return round.verdict(allowed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#spec.members.values()].map((member) => member[Symbol.asyncDispose]()));
  }
}

const fieldOf = (name: string): string => `spec.policies.${name}`;

interface ExpressionOfGroup {
  readonly expression: string;
  readonly members: ReadonlyMap<string, unknown>;
}

/** The problems of the expression of a group, without opening its members. Pure. */
export function groupProblems(group: ExpressionOfGroup): readonly string[] {
  return understand(group).problems;
}

/** Parses the expression and checks that it matches the members. */
function understand({ expression, members }: ExpressionOfGroup): {
  readonly tree?: GroupNode;
  readonly problems: readonly string[];
} {
  let tree: GroupNode;
  try {
    tree = parseGroupExpression(expression);
  } catch (error) {
    if (!(error instanceof GroupExpressionError)) throw error;
    return { problems: [error.message] };
  }
  const called = membersOf(tree);
  const problems = called
    .filter(({ name }) => !members.has(name))
    .map(({ name, column }) => `column ${column}: there is no policy ${JSON.stringify(name)}`);
  if (called.length === 0) problems.push('it calls none of the policies');
  return { tree, problems };
}

/** The evaluation of one request: each member is evaluated once, however often the expression calls it. */
class Round {
  readonly #spec: GroupSpec;
  readonly #request: PolicyRequest;
  readonly #options: EvaluateOptions;
  readonly #answers = new Map<string, Verdict | EvaluationError>();

  constructor(spec: GroupSpec, request: PolicyRequest, options: EvaluateOptions) {
    this.#spec = spec;
    this.#request = request;
    this.#options = options;
  }

  /** Whether the member allows it; undefined if it could not be evaluated. @throws {EvaluationError} once cancelled. */
  async ask(name: string): Promise<boolean | undefined> {
    const known = this.#answers.get(name);
    const answer = known ?? (await this.#evaluate(name));
    this.#answers.set(name, answer);
    return answer instanceof EvaluationError ? undefined : answer.allowed;
  }

  async #evaluate(name: string): Promise<Verdict | EvaluationError> {
    try {
      const verdict = await this.#spec.members.get(name)?.evaluate(this.#request, this.#options);
      if (verdict === undefined) throw new TypeError(`no member ${name}`);
      if (verdict.mutated === undefined) return verdict;
      return { allowed: false, message: 'mutation is not allowed inside of policy group' };
    } catch (error) {
      if (!(error instanceof EvaluationError) || error.why === 'aborted') throw error;
      return error;
    }
  }

  /** @throws {EvaluationError} if the result depends on members that could not be evaluated. */
  verdict(allowed: boolean | undefined): Verdict {
    const causes: { field: string; message: string }[] = [];
    const asked: AskedOfCluster[] = [];
    let failed: EvaluationError | undefined;
    // Causes are in the order of the members, not in that of their evaluation.
    for (const name of this.#spec.members.keys()) {
      const answer = this.#answers.get(name);
      if (answer === undefined) continue;
      const field = fieldOf(name);
      asked.push(...(answer.asked ?? []));
      if (answer instanceof EvaluationError) {
        failed ??= answer;
        causes.push({ field, message: `no verdict: ${answer.message}` });
        continue;
      }
      if (!answer.allowed) causes.push({ field, message: answer.message ?? 'refused' });
    }
    if (allowed === undefined) {
      const all = causes.map(({ field, message }) => `${field}: ${message}`).join('; ');
      const error = new EvaluationError(failed?.why ?? 'answer', `the group has no verdict: ${all}`, {
        cause: failed,
      });
      error.asked = asked;
      throw error;
    }
    const more = asked.length > 0 ? { asked } : {};
    return allowed ? { allowed, ...more } : { allowed, message: this.#spec.message, causes, ...more };
  }
}
