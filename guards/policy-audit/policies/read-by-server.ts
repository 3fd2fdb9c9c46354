/** Policies that read the cluster with the permissions of their PolicyServer, not with those of this process. */
import {
  type AskedOfCluster,
  type EvaluateOptions,
  EvaluationError,
  type Evaluator,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../engine/evaluator.ts';
import type { ClusterReader } from '../engine/host-calls/cluster-reader.ts';

/** Reads the cluster as a PolicyServer. */
export interface PolicyReader extends ClusterReader {
  /** Why the server's service account may not read one of these objects; undefined if it may read all of them. */
  refusal(asked: readonly AskedOfCluster[]): string | undefined;
  /** What all answers depend on: the PolicyServer. */
  readonly source: AskedOfCluster;
}

export interface PolicyReaders {
  /** Returns a reader for one policy, which uses it until it is disposed. */
  open(policyServer: string): Disposable & { readonly reader: PolicyReader };
}

/** What each refusal also depends on: a change of bindings may lift it. */
const bindings: readonly AskedOfCluster[] = ['ClusterRoleBinding', 'RoleBinding'].map((kind) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
}));

/** A policy that was refused an object gives no verdict, even if it ignores the refusal. */
export class ReadByServer implements Evaluator {
  readonly runtime: Evaluator['runtime'];
  readonly #evaluator: Evaluator;
  readonly #opened: ReturnType<PolicyReaders['open']>;

  constructor(evaluator: Evaluator, opened: ReturnType<PolicyReaders['open']>) {
    this.runtime = evaluator.runtime;
    this.#evaluator = evaluator;
    this.#opened = opened;
  }

  validateSettings(options?: EvaluateOptions): Promise<SettingsVerdict> {
    return this.#evaluator.validateSettings(options);
  }

  async evaluate(request: PolicyRequest, options?: EvaluateOptions): Promise<Verdict> {
    let verdict: Verdict;
    try {
      verdict = await this.#evaluator.evaluate(request, options);
    } catch (error) {
      if (error instanceof EvaluationError && error.why !== 'aborted') this.#check(error.asked);
      throw error;
    }
    const { asked = [] } = verdict;
    this.#check(asked);
    return asked.length === 0 ? verdict : { ...verdict, asked: [...asked, this.#opened.reader.source] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _opened = this.#opened;
    await this.#evaluator[Symbol.asyncDispose]();
  }

  /** @throws {EvaluationError} if the server may not read what the policy requested */
  #check(asked: readonly AskedOfCluster[]): void {
    const { reader } = this.#opened;
    const refusal = reader.refusal(asked);
    if (refusal === undefined) return;
    const error = new EvaluationError('answer', refusal);
    error.asked = [...asked, reader.source, ...bindings];
    throw error;
  }
}
