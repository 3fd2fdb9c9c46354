/** Reads manifests of objects that request programs, and checks them as the API server would. */
import { readFileSync } from 'node:fs';

import {
  compileSchema,
  type CompiledSchema,
  unknownFieldMessages,
} from '../../../lib/apiserver/schema/compiled-schema.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import { parseManifest } from '../../../lib/manifests/document.ts';
import { describeProblem } from '../../../lib/manifests/problem.ts';
import { bpfApplicationOf, type ParentKind, parentKinds, type ParentObject } from '../api.ts';
import { type Parent, parentOf } from '../engine/parent.ts';
import { group } from '../group.ts';

export interface RequestedObject {
  /** Such as `XdpProgram/count`, or with a namespace, `XdpNsProgram/web/count`. */
  readonly name: string;
  /** The object as the API server would store it; undefined if it would refuse the object. */
  readonly parent: Parent | undefined;
  /** Why the API server would refuse it; each text names its field. */
  readonly problems: readonly string[];
}

/**
 * @param path - The path of a file; `-` is standard input.
 * @throws {RampartError} `INPUT` if it cannot be read, or has no such objects.
 */
export function readObjects(path: string): readonly RequestedObject[] {
  const { objects, problems } = parseManifest(textOf(path), path);
  const [problem] = problems;
  if (problem !== undefined) throw new RampartError(errorCodes.INPUT, { what: describeProblem(problem) });
  const found = objects.flatMap(({ object }) => {
    const kind = kindOf(object);
    return kind === undefined ? [] : [requested(kind, object)];
  });
  if (found.length > 0) return found;
  throw new RampartError(errorCodes.INPUT, {
    what: `${path} requests no eBPF programs`,
    why: `it contains no object of ${group} that does`,
  });
}

function textOf(path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    throw new RampartError(errorCodes.INPUT, { what: `cannot read ${path}`, why: messageOf(cause), cause });
  }
}

function kindOf(
  object: KubeObject & { readonly apiVersion: string; readonly kind: string },
): ParentKind | undefined {
  if (!object.apiVersion.startsWith(`${group}/`)) return undefined;
  // Both APIs have a kind BpfApplication: their specs differ.
  const { spec } = object as { readonly spec?: unknown };
  if (object.kind === 'BpfApplication')
    return bpfApplicationOf[
      typeof spec === 'object' && spec !== null && 'byteCode' in spec ? 'v0.6' : 'v0.5'
    ];
  return parentKinds.find(({ kind }) => kind === object.kind);
}

function requested(kind: ParentKind, object: KubeObject): RequestedObject {
  const { metadata } = object;
  const isNamespaced = kind.scope === 'Namespaced';
  const written = structuredClone({
    ...object,
    metadata: isNamespaced ? { ...metadata, namespace: metadata.namespace ?? 'default' } : metadata,
  }) as ParentObject;
  const { name = '', namespace } = written.metadata;
  const shown = [kind.kind, ...(isNamespaced ? [namespace] : []), name].join('/');
  const schema = schemaOf(kind);
  schema.applyDefaults(written);
  const unknown = unknownFieldMessages(schema.prune(written));
  const causes = schema.validate(written).map(({ field, message }) => `${field}: ${message}`);
  const problems = [...unknown, ...causes];
  return { name: shown, problems, parent: problems.length > 0 ? undefined : parentOf(kind, written) };
}

function schemaOf({ resource }: ParentKind): CompiledSchema {
  const [version] = crdManifest(resource).spec.versions;
  if (version === undefined) throw new TypeError(`${resource.kind} has no version`);
  return compileSchema(version.schema.openAPIV3Schema, { strict: false });
}
