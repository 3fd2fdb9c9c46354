/**
 * Runs a compiled CEL policy on a request: one for Kubewarden's module `cel-policy`, or a ValidatingAdmissionPolicy. Expressions run
 * alike in both; errors and refusals have the effects that they have in that module, or in Kubernetes (apiserver
 * `pkg/admission/plugin/policy/validating/validator.go`).
 */
import { Authorizer, ResourceCheck, type CheckedUser } from '../../../../lib/cel/authorizer.ts';
import { fieldOf, isObject } from '../../../../lib/json/json.ts';
import type { Frame } from '../../../../lib/cel/code.ts';
import { evaluationMessage } from '../../../../lib/cel/messages.ts';
import { CostExceeded, measured, perCallLimit } from '../../../../lib/cel/meter.ts';
import { CelError } from '../../../../lib/cel/failure.ts';
import type { Scope } from '../../../../lib/cel/environment.ts';
import type { Expression } from '../../../../lib/cel/program.ts';
import { toCel } from '../../../../lib/cel/values.ts';
import { EvaluationError, type JsonObject, type PolicyRequest } from '../evaluator.ts';
import type { Asks } from './asks.ts';
import { namespaceType, requestType, type Dialect } from './scope.ts';

/** Cost limit of all expressions of a policy on one request, as in Kubernetes (apiserver `pkg/apis/cel/config.go`). */
const perPolicyLimit = 10_000_000;
/** Cost limit of all match conditions: a quarter of {@link perPolicyLimit}. */
export const perMatchLimit = 2_500_000;

/** The result of an expression. */
export type Result =
  | { readonly value: unknown; readonly error?: undefined }
  | { readonly error: string; readonly why: EvaluationError['why'] };

/**
 * The expressions of one policy on one request, with one frame and one budget. It can be interrupted between two
 * expressions and repeated: expressions that have run keep their results.
 */
export class Evaluation {
  readonly frame: Frame;
  readonly #asks: Asks;
  readonly #results: Result[] = [];
  #next = 0;
  #budget: number;

  constructor(frame: Frame, asks: Asks, budget = perPolicyLimit) {
    this.frame = frame;
    this.#asks = asks;
    this.#budget = budget;
  }

  /** Starts again with the first expression. */
  rewind(): void {
    this.#next = 0;
  }

  /** Must be called for the same expressions in the same order each time. @throws {EvaluationError} if there is no time or budget for it. */
  run(expression: Expression, source: string): Result {
    const known = this.#results[this.#next];
    const result = known ?? this.#run(expression, source);
    if (known === undefined) this.#results.push(result);
    this.#next++;
    return result;
  }

  #run({ run }: Expression, source: string): Result {
    this.#asks.pause();
    const { value, error, cost, exceeded } = measured(
      () => run(this.frame),
      Math.min(perCallLimit, this.#budget),
    );
    this.#budget -= cost;
    if (this.#budget < 0)
      throw new EvaluationError(
        'deadline',
        'validation failed due to running out of cost budget, no further validation rules will be run',
      );
    if (error === undefined) return { value };
    if (!(error instanceof CelError || error instanceof CostExceeded || error instanceof RangeError))
      throw error as Error;
    return {
      error: `expression '${source}' resulted in error: ${evaluationMessage(error)}`,
      why: exceeded ? 'deadline' : 'expression',
    };
  }
}

function placesOf({ variables }: Scope, used: ReadonlySet<string>) {
  const place = (name: string): number | undefined => variables.get(name)?.place;
  const ifUsed = (name: string): number | undefined => (used.has(name) ? place(name) : undefined);
  return {
    object: place('object') ?? -1,
    oldObject: place('oldObject') ?? -1,
    params: place('params'),
    request: ifUsed('request'),
    namespaceObject: ifUsed('namespaceObject'),
    authorizer: ifUsed('authorizer'),
    requestResource: ifUsed('authorizer.requestResource'),
  };
}

export type CreateFrame = (request: PolicyRequest, asks: Asks, params?: JsonObject) => Frame;

/** Creates frames of a scope for requests. Call it once all expressions of the scope are compiled. */
export function framesOf(dialect: Dialect, scope: Scope, used: ReadonlySet<string>): CreateFrame {
  const empty: readonly unknown[] = Array.from({ length: scope.size }, () => undefined);
  /** Costly variables are undefined unless an expression uses them. */
  const places = placesOf(scope, used);

  function requestValue(request: PolicyRequest): unknown {
    if (dialect === 'cel-policy') return request;
    const { kind, resource, subResource } = request;
    const named = {
      requestKind: kind,
      requestResource: resource,
      requestSubResource: subResource,
      ...request,
    };
    return toCel(named, requestType);
  }

  /** The namespace of the object; null if the object is cluster-scoped. */
  function namespaceValue(request: PolicyRequest, asks: Asks): unknown {
    const name = dialect === 'cel-policy' ? namespaceOf(request.object) : request.namespace;
    // The namespace of a Namespace is that object itself, which may not be stored yet.
    const { kind } = request as Partial<PolicyRequest>;
    const own = kind?.kind === 'Namespace' && kind.group === '';
    if (name === undefined || name === '' || own) return null;
    const namespace = asks.object({ apiVersion: 'v1', kind: 'Namespace', name });
    if (namespace === undefined) return null;
    return dialect === 'cel-policy' ? namespace : toCel(namespace, namespaceType);
  }

  return (request, asks, params) => {
    const frame = empty.slice();
    // For a missing value, the module has an empty object, Kubernetes null.
    const absent = dialect === 'cel-policy' ? {} : null;
    frame[places.object] = request.object ?? absent;
    frame[places.oldObject] = request.oldObject ?? absent;
    if (places.request !== undefined) frame[places.request] = requestValue(request);
    if (places.namespaceObject !== undefined) frame[places.namespaceObject] = namespaceValue(request, asks);
    if (places.params !== undefined) frame[places.params] = params ?? null;
    if (places.authorizer !== undefined) frame[places.authorizer] = authorizerOf(request, asks);
    if (places.requestResource !== undefined)
      frame[places.requestResource] = requestResourceOf(request, authorizerOf(request, asks));
    return frame;
  };
}

/** A raw request is not an admission request: any part of `userInfo` may be missing. */
function authorizerOf({ userInfo }: Partial<PolicyRequest>, asks: Asks): Authorizer {
  const { username, uid, groups, extra } = (userInfo ?? {}) as Partial<CheckedUser>;
  const user = { ...(uid && { uid }), ...(groups && { groups }), ...(extra && { extra }) };
  return new Authorizer({ username: username ?? '', ...user }, (check) => asks.access(check));
}

/** A check of the permission for what the request itself does. */
function requestResourceOf(request: Partial<PolicyRequest>, authorizer: Authorizer): ResourceCheck {
  return new ResourceCheck(authorizer, {
    group: request.resource?.group ?? '',
    resource: request.resource?.resource ?? '',
    subresource: request.subResource ?? '',
    namespace: request.namespace ?? '',
    name: request.name ?? '',
  });
}

function namespaceOf(object: unknown): string | undefined {
  const metadata = isObject(object) ? fieldOf(object, 'metadata') : undefined;
  const namespace = isObject(metadata) ? fieldOf(metadata, 'namespace') : undefined;
  return typeof namespace === 'string' ? namespace : undefined;
}
