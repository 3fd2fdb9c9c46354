/**
 * The variables that expressions of policies see, with their types (apiserver `pkg/admission/plugin/cel/compile.go`).
 */
import { Scope } from '../../../../lib/cel/environment.ts';
import { authorizerType, resourceCheckType } from '../../../../lib/cel/library-authorizer.ts';
import { patchTypes } from './patch-types.ts';
import type { CelType } from '../../../../lib/cel/types.ts';
import { allFunctions } from '../../../../lib/cel/environment.ts';
import { policyFunctions } from './library-cluster.ts';

/** Which rules apply where the two differ. */
export type Dialect = 'cel-policy' | 'validating-admission-policy';

const text: CelType = { kind: 'string' };
const int: CelType = { kind: 'int' };
const bool: CelType = { kind: 'bool' };
const dyn: CelType = { kind: 'dyn' };
const time: CelType = { kind: 'timestamp' };

const object = (fields: Readonly<Record<string, CelType>>): CelType => ({
  kind: 'object',
  fields: new Map(Object.entries(fields).map(([name, type]) => [name, { name, type }])),
});
const listOf = (element: CelType): CelType => ({ kind: 'list', element });
const mapOf = (element: CelType): CelType => ({ kind: 'map', element });

const kind = object({ group: text, version: text, kind: text });
const resource = object({ group: text, version: text, resource: text });

/** A request without its objects, which are separate variables. */
export const requestType = object({
  kind,
  resource,
  subResource: text,
  requestKind: kind,
  requestResource: resource,
  requestSubResource: text,
  name: text,
  namespace: text,
  operation: text,
  userInfo: object({ username: text, uid: text, groups: listOf(text), extra: mapOf(listOf(text)) }),
  dryRun: bool,
  options: dyn,
});

export const namespaceType = object({
  metadata: object({
    name: text,
    generateName: text,
    namespace: text,
    labels: mapOf(text),
    annotations: mapOf(text),
    UID: text,
    creationTimestamp: time,
    deletionGracePeriodSeconds: int,
    deletionTimestamp: time,
    generation: int,
    resourceVersion: text,
    finalizers: listOf(text),
  }),
  spec: object({ finalizers: listOf(text) }),
  status: object({
    conditions: listOf(
      object({ status: text, type: text, lastTransitionTime: time, message: text, reason: text }),
    ),
    phase: text,
  }),
});

/** Names that expressions may use; `variables` has the fields that the policy defines. */
export function policyScope(dialect: Dialect, params: boolean): Scope {
  const typed = dialect === 'validating-admission-policy';
  const scope = new Scope(
    {
      object: { type: dyn },
      oldObject: { type: dyn },
      request: { type: typed ? requestType : dyn },
      namespaceObject: { type: typed ? namespaceType : dyn },
      variables: { type: object({}) },
      ...(params && { params: { type: dyn } }),
    },
    // Match conditions and policies of Kubernetes get only the API server's functions, none of which reads the cluster: here they would
    // read with the permissions of this process.
    typed ? allFunctions() : policyFunctions(),
  );
  scope.declareMessages(patchTypes);
  scope.declare('authorizer', authorizerType);
  scope.declare('authorizer.requestResource', resourceCheckType);
  return scope;
}
