/**
 * Objects put through what the server does with them, without a server: defaults, pruning, preparation, checks.
 */
import { parse } from 'yaml';
import { GoTypeError } from '../resources/go-decoding.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import { eachRequiredOnce } from '../schema/field-error.ts';
import { cloneJson, type JsonObject } from '../../json/json.ts';
import { builtinResources } from './builtin.ts';

const resources = builtinResources().flat();

export function resourceOf(apiVersion: string, kind: string): Resource {
  const found = resources.find((one) => one.kind === kind && apiVersionOf(one) === apiVersion);
  if (found === undefined) throw new Error(`${kind} of ${apiVersion} is not served`);
  return found;
}

export interface Outcome {
  readonly resource: Resource;
  readonly object: JsonObject;
  /** Paths that were pruned. */
  readonly unknown: readonly string[];
  /** `field: message`; only why it could not be decoded, where it could not. */
  readonly causes: readonly string[];
}

export const uid = '6a1c9c5e-9f1b-4c0e-8a52-2f6f0a1b2c3d';

/** A manifest as a client would create it. */
export function created(manifest: string | JsonObject): Outcome {
  const { resource, object, unknown, refusal } = read(manifest);
  if (refusal !== undefined) return { resource, object, unknown, causes: [refusal] };
  const { strategy } = resource;
  if (strategy.createKeepsResetFields !== true)
    for (const field of strategy.resetFields) delete object[field];
  const metadata = object['metadata'] as JsonObject;
  metadata['uid'] = uid;
  if (resource.namespaced) metadata['namespace'] ??= 'default';
  strategy.prepareForCreate?.(object);
  return { resource, object, unknown, causes: causesOf(resource, object, undefined) };
}

/** An object changed by a function, as PUT does it. */
export function updated({ resource, object: old }: Outcome, change: (object: JsonObject) => void): Outcome {
  const sent = cloneJson(old) as JsonObject;
  change(sent);
  const { object, unknown, refusal } = read(sent);
  if (refusal !== undefined) return { resource, object, unknown, causes: [refusal] };
  for (const field of resource.strategy.resetFields) {
    if (old[field] === undefined) delete object[field];
    else object[field] = cloneJson(old[field]);
  }
  const before = cloneJson(old) as JsonObject;
  resource.strategy.prepareForUpdate?.(object, before);
  return { resource, object, unknown, causes: causesOf(resource, object, before) };
}

interface Read extends Pick<Outcome, 'resource' | 'object' | 'unknown'> {
  readonly refusal?: string;
}

function read(manifest: string | JsonObject): Read {
  const object = (typeof manifest === 'string' ? parse(manifest) : cloneJson(manifest)) as JsonObject;
  const resource = resourceOf(String(object['apiVersion']), String(object['kind']));
  const { schema } = resource.model;
  try {
    resource.model.decode?.(object);
  } catch (error) {
    if (!(error instanceof GoTypeError)) throw error;
    return { resource, object, unknown: [], refusal: error.message };
  }
  schema.applyDefaults(object);
  return { resource, object, unknown: schema.prune(object) };
}

function causesOf(resource: Resource, object: JsonObject, old: JsonObject | undefined): string[] {
  const causes = eachRequiredOnce([
    ...resource.model.schema.validate(object, old),
    ...(resource.strategy.validate?.(object, old) ?? []),
  ]);
  return causes.map(({ field, message }) => `${field}: ${message}`);
}

/** The cells of an object in a Table; without the wide columns by default. */
export function cells(object: JsonObject, now: Date, wide = false): Record<string, unknown> {
  const { columns } = resourceOf(String(object['apiVersion']), String(object['kind']));
  const shown = columns.filter(({ priority }) => wide || priority === 0);
  return Object.fromEntries(shown.map((column) => [column.name, column.cell(object, now)]));
}
