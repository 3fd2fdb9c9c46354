/**
 * Judges a write by the ValidatingAdmissionPolicies in manifests, as a cluster does: operations and resources, match conditions,
 * variables, validations; what cannot be evaluated is refused. Bindings must deny.
 */
import assert from 'node:assert/strict';

import { compile, compileExpression } from '../../lib/cel/program.ts';
import { Scope } from '../../lib/cel/environment.ts';
import type { Manifest } from '../../scripts/kustomize.ts';

interface Written {
  readonly metadata?: { readonly namespace?: string; readonly name?: string };
}

export interface Write {
  /** The ServiceAccount, and the node in its token. */
  readonly account: string;
  readonly node?: string | undefined;
  readonly operation: 'CREATE' | 'DELETE' | 'UPDATE';
  readonly group: string;
  /** With its subresource: `bpfprograms/status`. */
  readonly resource: string;
  readonly object?: Written | undefined;
  readonly oldObject?: Written | undefined;
}

interface Expression {
  readonly name?: string;
  readonly expression: string;
  readonly message?: string;
}

interface PolicySpec {
  readonly failurePolicy: string;
  readonly matchConstraints: {
    readonly resourceRules: readonly {
      readonly apiGroups: readonly string[];
      readonly apiVersions: readonly string[];
      readonly operations: readonly string[];
      readonly resources: readonly string[];
    }[];
  };
  readonly matchConditions: readonly Expression[];
  readonly variables?: readonly Expression[];
  readonly validations: readonly Expression[];
}

/** @returns why the write is refused; undefined if it is allowed. */
export type Judge = (write: Write) => string | undefined;

export function shippedLimits(manifests: readonly Manifest[]): Judge {
  const bound = manifests
    .filter(({ kind }) => kind === 'ValidatingAdmissionPolicyBinding')
    .map(({ spec }) => spec as { readonly policyName: string; readonly validationActions: unknown });
  const judges = manifests
    .filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
    .map(({ metadata, spec }) => {
      const binding = bound.find(({ policyName }) => policyName === metadata.name);
      assert.deepEqual(binding?.validationActions, ['Deny'], `${metadata.name} is not bound`);
      return judgeOf(spec as PolicySpec);
    });
  return (write) => {
    for (const judge of judges) {
      const refusal = judge(write);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  };
}

function judgeOf(spec: PolicySpec): Judge {
  assert.equal(spec.failurePolicy, 'Fail');
  const dyn = { type: { kind: 'dyn' } } as const;
  const scope = new Scope({ object: dyn, oldObject: dyn, request: dyn });
  const compiled = ({ expression }: Expression) => {
    const program = compile(expression, 'bool', scope);
    assert.ok(typeof program !== 'string', `${expression}: ${String(program)}`);
    return program;
  };
  const conditions = spec.matchConditions.map(compiled);
  for (const { name = '', expression } of spec.variables ?? []) {
    const definition = compileExpression(expression, scope);
    assert.ok(typeof definition !== 'string', `${expression}: ${String(definition)}`);
    scope.define(`variables.${name}`, definition);
  }
  const validations = spec.validations.map((one) => ({ ...one, program: compiled(one) }));
  return (write) => {
    const { operation, group, resource, object = null, oldObject = null } = write;
    const { namespace = '', name = '' } = (object ?? oldObject ?? {}).metadata ?? {};
    const isMatched = spec.matchConstraints.resourceRules.some(
      ({ apiGroups, operations, resources }) =>
        apiGroups.includes(group) && operations.includes(operation) && resources.includes(resource),
    );
    if (!isMatched) return undefined;
    const [plural = '', subResource] = resource.split('/');
    const request = {
      operation,
      resource: { group, version: 'v1', resource: plural },
      ...(subResource !== undefined && { subResource }),
      namespace,
      name,
      userInfo: {
        username: `system:serviceaccount:rampart-system:${write.account}`,
        extra: {
          'authentication.kubernetes.io/pod-name': ['some-pod'],
          ...(write.node !== undefined && { 'authentication.kubernetes.io/node-name': [write.node] }),
        },
      },
    };
    const values = { object, oldObject, request };
    if (!conditions.every((one) => one.run(values).value === true)) return undefined;
    for (const { program, message, expression } of validations) {
      const { value, error } = program.run(values);
      if (value !== true)
        return error === undefined ? (message ?? expression) : `${JSON.stringify(error)} (${expression})`;
    }
    return undefined;
  };
}
