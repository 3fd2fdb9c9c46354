/** `DeleteOptions` of meta/v1, from the body of a request or, without one, from its parameters. */
import { apiErrors, type ApiError } from '../resources/api-error.ts';
import { type Cause, fieldError } from '../schema/field-error.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { booleanOf, dryRunCauses, integerOf, refuseOptions } from './query.ts';
import type { ResourceRequest } from './request.ts';

export interface DeleteOptions {
  readonly dryRun: boolean;
  /** At least 0; `undefined` if not given. */
  readonly gracePeriodSeconds: number | undefined;
  readonly propagationPolicy: string | undefined;
  readonly orphanDependents: boolean | undefined;
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
}

/** @throws {ApiError} 400, 422 */
export function deleteOptions({ body, query, resource }: ResourceRequest): DeleteOptions {
  const raw =
    body?.value === undefined || body.value === null ? ofQuery(query) : ofBody(body.value, resource.group);
  const causes: Cause[] = [];
  const { propagationPolicy, orphanDependents, dryRun } = raw;
  if (orphanDependents !== undefined && propagationPolicy !== undefined) {
    causes.push(
      fieldError.invalid(
        'propagationPolicy',
        propagationPolicy,
        'orphanDependents and deletionPropagation cannot be both set',
      ),
    );
  }
  if (propagationPolicy !== undefined && !policies.includes(propagationPolicy)) {
    causes.push(fieldError.notSupported('propagationPolicy', propagationPolicy, [...policies, 'nil']));
  }
  causes.push(...dryRunCauses(dryRun));
  refuseOptions('DeleteOptions', causes);
  const { gracePeriodSeconds } = raw;
  return {
    ...raw,
    dryRun: dryRun.length > 0,
    // A negative grace period counts as one second (apiserver `pkg/registry/rest/delete.go`).
    gracePeriodSeconds: gracePeriodSeconds === undefined || gracePeriodSeconds >= 0 ? gracePeriodSeconds : 1,
  };
}

const policies = ['Foreground', 'Background', 'Orphan'];

type RawOptions = Omit<DeleteOptions, 'dryRun'> & { readonly dryRun: readonly unknown[] };

function ofQuery(query: URLSearchParams): RawOptions {
  return {
    dryRun: query.getAll('dryRun'),
    gracePeriodSeconds: integerOf(query, 'gracePeriodSeconds'),
    propagationPolicy: query.get('propagationPolicy') ?? undefined,
    orphanDependents: booleanOf(query, 'orphanDependents'),
    uid: undefined,
    resourceVersion: undefined,
  };
}

function ofBody(body: unknown, group: string): RawOptions {
  if (!isObject(body)) {
    throw apiErrors.badRequest(
      "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type DeleteOptions",
    );
  }
  const kind = textOf(body, 'kind', 'kind') ?? 'DeleteOptions';
  const apiVersion = textOf(body, 'apiVersion', 'apiVersion') ?? 'v1';
  const bodyGroup = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  if (kind !== 'DeleteOptions' || !['', 'meta.k8s.io', group].includes(bodyGroup)) {
    throw apiErrors.badRequest(
      `no kind "${kind}" is registered for version "${apiVersion}": DeleteOptions is expected`,
    );
  }
  const preconditions = fieldOf(body, 'preconditions') ?? {};
  if (!isObject(preconditions)) throw wrongType('preconditions', 'v1.Preconditions');
  const dryRun = fieldOf(body, 'dryRun') ?? [];
  if (!Array.isArray(dryRun)) throw wrongType('dryRun', '[]string');
  return {
    dryRun,
    gracePeriodSeconds: secondsOf(fieldOf(body, 'gracePeriodSeconds') ?? undefined),
    propagationPolicy: textOf(body, 'propagationPolicy', 'propagationPolicy'),
    orphanDependents: flagOf(fieldOf(body, 'orphanDependents') ?? undefined),
    uid: textOf(preconditions, 'uid', 'preconditions.uid'),
    resourceVersion: textOf(preconditions, 'resourceVersion', 'preconditions.resourceVersion'),
  };
}

function textOf(object: JsonObject, field: string, path: string): string | undefined {
  const value = fieldOf(object, field) ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw wrongType(path, 'string');
}

function secondsOf(value: unknown): number | undefined {
  if (value === undefined || (typeof value === 'number' && Number.isSafeInteger(value))) return value;
  throw wrongType('gracePeriodSeconds', 'int64');
}

function flagOf(value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw wrongType('orphanDependents', 'bool');
}

function wrongType(field: string, type: string): ApiError {
  return apiErrors.badRequest(
    `json: cannot unmarshal Go struct field DeleteOptions.${field} of type ${type}`,
  );
}
