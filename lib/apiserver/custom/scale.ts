/**
 * The scale subresource of custom resources: an `autoscaling/v1` Scale, read from and written to three paths in the object
 * (apiextensions-apiserver `pkg/registry/customresource/etcd.go`, `validator.go`).
 */
import { objectAt, valueAt } from '../../json/fields.ts';
import { LazyModel, openApiOf } from '../builtin/kind.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Subresource } from '../resources/resource.ts';
import { fieldError, type Cause } from '../schema/field-error.ts';
import { fieldOf, type JsonObject } from '../../json/json.ts';
import type { CrdScale } from './crd.ts';

const model = new LazyModel('autoscaling.Scale', 'autoscaling/v1', 'Scale');

const maxInt32 = 2 ** 31 - 1;

export function scaleSubresource(
  paths: CrdScale,
  subject: { group: string; plural: string; kind: string },
): Subresource {
  return {
    name: 'scale',
    verbs: new Set(['get', 'patch', 'update']),
    group: 'autoscaling',
    version: 'v1',
    kind: 'Scale',
    read: (object) => readScale(object, paths, subject),
    write: (object, sent) => writeScale(object, sent, paths),
    model,
    openApi: openApiOf('autoscaling.Scale'),
    resetFields: () => ['status'],
    validate: (object) => scaleCauses(object, paths),
  };
}

function readScale(object: JsonObject, paths: CrdScale, subject: { kind: string }): JsonObject {
  const metadata = objectAt(object, 'metadata');
  const meta: JsonObject = {};
  for (const field of ['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp']) {
    const value = fieldOf(metadata, field);
    if (value !== undefined) meta[field] = value;
  }
  const replicas = at(object, paths.specReplicasPath);
  if (replicas === undefined) {
    throw apiErrors.internal(
      `the spec replicas field ${JSON.stringify(paths.specReplicasPath)} does not exist`,
    );
  }
  const selector = paths.labelSelectorPath === '' ? '' : at(object, paths.labelSelectorPath);
  const status: JsonObject = { replicas: countAt(object, paths.statusReplicasPath, subject) };
  if (typeof selector === 'string' && selector !== '') status['selector'] = selector;
  const count = countAt(object, paths.specReplicasPath, subject);
  // Omitted if zero, unlike `status.replicas`.
  const spec = count === 0 ? {} : { replicas: count };
  return { kind: 'Scale', apiVersion: 'autoscaling/v1', metadata: meta, spec, status };
}

function countAt(object: JsonObject, path: string, { kind }: { kind: string }): number {
  const value = at(object, path) ?? 0;
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  throw apiErrors.internal(`${path} of the ${kind} is not an integer`);
}

function writeScale(object: JsonObject, sent: JsonObject, { specReplicasPath }: CrdScale): JsonObject {
  const replicas = fieldOf(objectAt(sent, 'spec'), 'replicas');
  // Go omits a 0, so an absent field means 0, unless the stored object lacks it too.
  if (replicas === undefined && at(object, specReplicasPath) === undefined) {
    throw apiErrors.badRequest(`the spec replicas field ${JSON.stringify(specReplicasPath)} cannot be empty`);
  }
  return withAt(object, stepsOf(specReplicasPath), replicas ?? 0);
}

function stepsOf(path: string): string[] {
  return path.replace(/^\./, '').split('.');
}

function at(object: JsonObject, path: string): unknown {
  return valueAt(object, ...stepsOf(path));
}

function withAt(object: JsonObject, [step = '', ...rest]: readonly string[], value: unknown): JsonObject {
  if (rest.length === 0) return { ...object, [step]: value };
  return { ...object, [step]: withAt(objectAt(object, step), rest, value) };
}

/** Errors in the paths of the scale subresource. */
export function scaleCauses(object: JsonObject, paths: CrdScale): Cause[] {
  return [paths.specReplicasPath, paths.statusReplicasPath].flatMap((path) => {
    const value = at(object, path);
    const field = path.replace(/^\./, '');
    if (typeof value !== 'number') return [];
    if (value < 0) return [fieldError.invalid(field, value, 'should be a non-negative integer')];
    return value > maxInt32
      ? [fieldError.invalid(field, value, `should be less than or equal to ${maxInt32}`)]
      : [];
  });
}
