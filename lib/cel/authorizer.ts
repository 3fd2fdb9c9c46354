/**
 * The CEL values of `authorizer`: the checks that expressions build, and the decisions (apiserver
 * `pkg/cel/library/authz.go`).
 */

export interface CheckedUser {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Whether a user may do something, as in a SubjectAccessReview. */
export interface AccessCheck {
  readonly user: CheckedUser;
  readonly verb: string;
  /** For a request that is not about resources; the other fields are empty then. */
  readonly path?: string;
  readonly group?: string;
  readonly resource?: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason?: string;
  /** Why there is no decision. */
  readonly error?: string;
}

/** Called while an expression runs, so it is synchronous. Any error that it throws, except a CEL error, ends the expression. */
type DecideAccess = (check: AccessCheck) => AccessDecision;

/** Values without fields, which are equal only to themselves. */
class Opaque {
  equals(other: unknown): boolean {
    return this === other;
  }
}

export class Authorizer extends Opaque {
  readonly user: CheckedUser;
  readonly decide: DecideAccess;

  constructor(user: CheckedUser, decide: DecideAccess) {
    super();
    this.user = user;
    this.decide = decide;
  }

  serviceAccount(namespace: string, name: string): Authorizer {
    const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
    return new Authorizer({ username: `system:serviceaccount:${namespace}:${name}`, groups }, this.decide);
  }
}

type Part = Partial<Omit<AccessCheck, 'user' | 'verb'>>;

/** The check built so far. */
class Check extends Opaque {
  readonly authorizer: Authorizer;
  readonly part: Part;

  constructor(authorizer: Authorizer, part: Part) {
    super();
    this.authorizer = authorizer;
    this.part = part;
  }

  check(verb: string): Decision {
    const { user, decide } = this.authorizer;
    return new Decision(decide({ ...this.part, user, verb }));
  }
}

export class PathCheck extends Check {}
export class GroupCheck extends Check {}

export class ResourceCheck extends Check {
  with(part: Part): ResourceCheck {
    return new ResourceCheck(this.authorizer, { ...this.part, ...part });
  }
}

export class Decision extends Opaque {
  readonly answer: AccessDecision;

  constructor(answer: AccessDecision) {
    super();
    this.answer = answer;
  }
}
