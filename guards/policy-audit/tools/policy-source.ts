/**
 * The policies named on a command line: a module with settings, or manifests with policies as in a cluster.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import { builtinResources } from '../../../lib/apiserver/builtin/builtin.ts';
import { GoTypeError } from '../../../lib/apiserver/resources/go-decoding.ts';
import { compileSchema, type CompiledSchema } from '../../../lib/apiserver/schema/compiled-schema.ts';
import type { JsonObject } from '../../../lib/json/json.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import { isHtml } from '../../../lib/oci/html.ts';
import { parseManifest } from '../../../lib/manifests/document.ts';
import { describeProblem } from '../../../lib/manifests/problem.ts';
import {
  admissionPolicies,
  admissionPolicyGroups,
  type AnyKubewardenPolicy,
  clusterAdmissionPolicies,
  clusterAdmissionPolicyGroups,
  type MutatingAdmissionPolicy,
  type MutatingAdmissionPolicyBinding,
  policyGroup,
  type ValidatingAdmissionPolicy,
  type ValidatingAdmissionPolicyBinding,
} from '../api.ts';
import { isCelModule, type PolicyProgram } from '../engine/program.ts';
import { readAdmissionPolicy, readKubewardenPolicy, readMutatingPolicy } from '../policies/read-policy.ts';
import type { Policy } from '../policies/policy.ts';

export interface NamedPolicy {
  /** Its name in results. */
  readonly id: string;
  readonly program: PolicyProgram;
  /** Undefined for a bare module: it applies to everything. */
  readonly policy: Policy | undefined;
}

const resources = [
  clusterAdmissionPolicies,
  admissionPolicies,
  clusterAdmissionPolicyGroups,
  admissionPolicyGroups,
];
const admissionGroup = 'admissionregistration.k8s.io/';

/**
 * @param name - A URL of a module, the path of one, or the path of manifests.
 * @param settings - Only for a module.
 * @throws {RampartError} `INPUT`
 */
export function readPolicies(
  name: string,
  settings: Readonly<Record<string, unknown>> | undefined,
): NamedPolicy[] {
  if (!isManifest(name)) return [modulePolicy(name, settings ?? {})];
  if (settings !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--settings cannot be combined with ${name}, whose policies have their own`,
      next: 'Omit --settings, or name a module',
    });
  }
  const { objects, problems } = parseManifest(readFileSync(name, 'utf8'), name);
  const [problem] = problems;
  if (problem !== undefined) throw new RampartError(errorCodes.INPUT, { what: describeProblem(problem) });
  const policies = objects.flatMap(({ object, lineOf }) => {
    const where = `${name}:${lineOf('kind')}: ${object.kind} ${object.metadata.name ?? ''}`;
    if (object.apiVersion.startsWith(`${policyGroup}/`) && object.kind !== 'PolicyServer') {
      return [kubewardenPolicy(object, where)];
    }
    if (!object.apiVersion.startsWith(admissionGroup)) return [];
    if (/^(?:Mutating|Validating)AdmissionPolicy/.test(object.kind)) refuseUnknownFields(object, where);
    const all = objects.map((each) => each.object);
    if (object.kind === 'ValidatingAdmissionPolicy') return validatingPolicies(object, all);
    return object.kind === 'MutatingAdmissionPolicy' ? mutatingPolicies(object, all) : [];
  });
  if (policies.length > 0)
    return policies.map((policy) => ({ id: policy.id, program: policy.program, policy }));
  throw new RampartError(errorCodes.INPUT, {
    what: `${name} has no policies`,
    why: `it contains no object of ${policyGroup}, no ValidatingAdmissionPolicy and no MutatingAdmissionPolicy`,
  });
}

function modulePolicy(name: string, settings: Readonly<Record<string, unknown>>): NamedPolicy {
  const isPath = !/^[a-z]+:\/\//.test(name) && existsSync(name);
  const module = isPath ? `file://${encodeURI(resolve(name))}` : name;
  const short = (isCelModule(name) ? 'cel-policy' : name.replace(/^.*\//, '')).replace(/\.wasm$/, '');
  return {
    id: short,
    program: { type: 'module', module, settings, contextAware: [], deadlineMs: undefined },
    policy: undefined,
  };
}

/**
 * A file that starts with WebAssembly's header is a module, whatever its name.
 *
 * @throws {RampartError} `INPUT`
 */
export function isManifest(name: string): boolean {
  if (/^[a-z]+:\/\//.test(name)) return false;
  if (!existsSync(name)) {
    if (!/^\.{0,2}\/|\.(?:ya?ml|json|wasm)$/.test(name)) return false;
    throw new RampartError(errorCodes.INPUT, { what: `cannot read ${name}`, why: 'it does not exist' });
  }
  if (!statSync(name).isFile()) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${name} is not a policy`,
      why: 'it is not a regular file',
    });
  }
  const bytes = readFileSync(name);
  if (isHtml(bytes)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${name} is not a policy`,
      why: 'it is an HTML page, for example of a login or an error',
    });
  }
  return !bytes.subarray(0, 4).equals(Buffer.from('\0asm'));
}

/** The policy as the API server would store it: validated, and with defaults. */
function kubewardenPolicy(
  object: KubeObject & { readonly apiVersion: string; readonly kind: string },
  where: string,
): Policy {
  const written = structuredClone(object) as KubeObject & { spec?: unknown };
  const schema = schemaOf(object.kind, object.apiVersion, where);
  schema.applyDefaults(written);
  const unknown = schema.prune(written);
  const [cause] = schema.validate(written);
  if (cause !== undefined)
    throw new RampartError(errorCodes.INPUT, { what: where, why: `${cause.field}: ${cause.message}` });
  if (unknown.length > 0) {
    throw new RampartError(errorCodes.INPUT, { what: where, why: unknownText(unknown) });
  }
  return readKubewardenPolicy(written as AnyKubewardenPolicy);
}

/**
 * Refuses misspelled fields in Kubernetes' own kinds: they would be ignored silently.
 *
 * @throws {RampartError} `INPUT`
 */
function refuseUnknownFields(
  object: KubeObject & { readonly apiVersion: string; readonly kind: string },
  where: string,
): void {
  const found = builtinResources()
    .flat()
    .find(({ group, kind }) => `${group}/` === admissionGroup && kind === object.kind);
  // All versions have the same fields.
  const apiVersion = `${admissionGroup}${found?.version ?? 'v1'}`;
  const written = structuredClone({ ...object, apiVersion }) as unknown as JsonObject;
  let unknown: readonly string[] = [];
  try {
    found?.model.decode?.(written);
    unknown = found?.model.schema.prune(written) ?? [];
  } catch (error) {
    if (!(error instanceof GoTypeError)) throw error;
    throw new RampartError(errorCodes.INPUT, { what: where, why: error.message });
  }
  if (unknown.length > 0)
    throw new RampartError(errorCodes.INPUT, { what: where, why: unknownText(unknown) });
}

function unknownText(fields: readonly string[]): string {
  return `unknown field ${fields.map((field) => `"${field}"`).join(', ')}`;
}

const schemas = new Map<string, CompiledSchema>();

function schemaOf(kind: string, apiVersion: string, where: string): CompiledSchema {
  const key = `${apiVersion} ${kind}`;
  const known = schemas.get(key);
  if (known !== undefined) return known;
  const resource = resources.find((each) => each.kind === kind);
  const version = apiVersion.slice(policyGroup.length + 1);
  const found = resource && crdManifest(resource).spec.versions.find(({ name }) => name === version);
  if (found === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: where,
      why: `${kind} of ${apiVersion} is not supported`,
    });
  }
  const schema = compileSchema(found.schema.openAPIV3Schema, { strict: false });
  schemas.set(key, schema);
  return schema;
}

/** The policy with each of its bindings; if it has none, as if a binding denied everything that it matches. */
function validatingPolicies(object: ValidatingAdmissionPolicy, all: readonly KubeObject[]): Policy[] {
  const bindings = bindingsOf<ValidatingAdmissionPolicyBinding>(object, all);
  const alone: ValidatingAdmissionPolicyBinding = {
    metadata: { name: '' },
    spec: { policyName: object.metadata.name ?? '', validationActions: ['Deny'] },
  };
  if (bindings.length === 0)
    return [{ ...readAdmissionPolicy(object, alone), id: object.metadata.name ?? '' }];
  return bindings.map((binding) => readAdmissionPolicy(object, binding));
}

/** The policy with each of its bindings; if it has none, as if it were bound to everything that it matches. */
function mutatingPolicies(object: MutatingAdmissionPolicy, all: readonly KubeObject[]): Policy[] {
  const bindings = bindingsOf<MutatingAdmissionPolicyBinding>(object, all);
  const { name = '' } = object.metadata;
  const alone: MutatingAdmissionPolicyBinding = { metadata: { name: '' }, spec: { policyName: name } };
  if (bindings.length === 0) return [{ ...readMutatingPolicy(object, alone), id: `mutating/${name}` }];
  return bindings.map((binding) => readMutatingPolicy(object, binding));
}

function bindingsOf<B extends KubeObject & { readonly spec?: { readonly policyName?: string } }>(
  { kind, metadata }: KubeObject,
  all: readonly KubeObject[],
): B[] {
  return all.filter(
    (each): each is B => each.kind === `${kind}Binding` && (each as B).spec?.policyName === metadata.name,
  );
}
