/**
 * The result of `kubectl kustomize` for deploy/: Debian's kubectl 1.20 has no components. It supports only
 * the features that our kustomizations use, and refuses others. Tests compare it with a kubectl that supports
 * them.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { parse } from 'yaml';

import { applyJsonPatch } from '../lib/json/json-patch.ts';
import { patchTypeOf } from '../lib/apiserver/patch/merge-keys.ts';
import { applyStrategicMergePatch } from '../lib/apiserver/patch/strategic-merge-patch.ts';
import type { JsonObject } from '../lib/json/json.ts';

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [more: string]: unknown;
}

export interface Kustomization {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly namespace?: string;
  readonly labels?: readonly { readonly pairs: Readonly<Record<string, string>> }[];
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
  readonly configMapGenerator?: readonly {
    readonly name: string;
    readonly namespace: string;
    readonly files: readonly string[];
    readonly options: {
      readonly disableNameSuffixHash: true;
      readonly labels: Readonly<Record<string, string>>;
    };
  }[];
  readonly images?: readonly {
    readonly name: string;
    readonly newName?: string;
    readonly newTag?: string;
    readonly digest?: string;
  }[];
  readonly patches?: readonly {
    readonly target: { readonly kind: string; readonly name: string };
    readonly patch: string;
  }[];
}

const known: ReadonlySet<string> = new Set([
  ...['apiVersion', 'kind', 'namespace', 'labels', 'resources', 'components', 'images', 'patches'],
  'configMapGenerator',
]);
const clusterScoped =
  /^(Namespace|ClusterRole|ClusterRoleBinding|CustomResourceDefinition|ValidatingAdmissionPolicy(Binding)?)$/;

/** The objects of a kustomization. @throws {Error} for what this does not know. */
export function kustomize(directory: string): Manifest[] {
  return built(directory, []);
}

/** The objects of a kustomization that is in no file, with paths from `directory`. @throws {Error} for what this does not know. */
export function kustomizeOf(kustomization: Kustomization, directory: string): Manifest[] {
  return applied(kustomization, directory, []);
}

/** The same as a file for `kubectl apply -f -`. */
export function kustomizedText(directory: string): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: kustomize(directory) });
}

/** A component is given what there is. */
function built(directory: string, before: readonly Manifest[]): Manifest[] {
  return applied(readKustomization(directory), directory, before);
}

/** @throws {Error} for a field that this does not know. */
export function readKustomization(directory: string): Kustomization {
  const file = join(directory, 'kustomization.yaml');
  const kustomization = parse(readFileSync(file, 'utf8')) as Kustomization;
  const unknown = Object.keys(kustomization).filter((key) => !known.has(key));
  if (unknown.length > 0)
    throw new Error(`${file}: ${import.meta.filename} does not know ${unknown.join(', ')}`);
  return kustomization;
}

function applied(kustomization: Kustomization, directory: string, before: readonly Manifest[]): Manifest[] {
  const { namespace, resources = [], components = [], patches = [] } = kustomization;
  let objects = [...before, ...resources.flatMap((path) => resourcesOf(join(directory, path)))];
  for (const { name, namespace: of, files, options } of kustomization.configMapGenerator ?? []) {
    objects.push({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: of, labels: options.labels } },
      data: Object.fromEntries(files.map((path) => [path, readFileSync(join(directory, path), 'utf8')])),
    });
  }
  const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
  if (new Set(names).size !== names.length) throw new Error(`${directory}: two objects of one name`);
  for (const path of components) objects = built(join(directory, path), objects);
  for (const { target, patch } of patches) {
    const isTarget = ({ kind, metadata }: Manifest): boolean =>
      kind === target.kind && metadata.name === target.name;
    if (!objects.some(isTarget)) throw new Error(`${directory}: no ${target.kind} ${target.name}`);
    objects = objects.map((object) => (isTarget(object) ? patched(object, parse(patch)) : object));
  }
  for (const { pairs, ...more } of kustomization.labels ?? []) {
    if (Object.keys(more).length > 0) throw new Error(`${directory}: labels for more than objects`);
    objects = objects.map((object) => changed(object, { labels: { ...object.metadata.labels, ...pairs } }));
  }
  if (namespace !== undefined) {
    objects = objects.map((one) => (clusterScoped.test(one.kind) ? one : changed(one, { namespace })));
  }
  return objects.map((object) => withImages(object, kustomization.images ?? []));
}

function resourcesOf(path: string): Manifest[] {
  if (statSync(path).isDirectory()) return built(path, []);
  return structuredClone(objectsIn(readFileSync(path, 'utf8')));
}

/** By text: parsing it takes longer than all the rest, and a test builds deploy/ several times. */
const parsed = new Map<string, readonly Manifest[]>();

/** The objects of a YAML file, which the caller must not change. */
export function objectsIn(text: string): Manifest[] {
  return text.split(/^---$/m).flatMap((document) => {
    const before = parsed.get(document);
    if (before !== undefined) return before;
    const object = parse(document) as Manifest | null;
    const objects = object === null ? [] : [object];
    parsed.set(document, objects);
    return objects;
  });
}

function patched(object: Manifest, patch: unknown): Manifest {
  const original = object as unknown as JsonObject;
  if (Array.isArray(patch)) return applyJsonPatch(original, patch) as unknown as Manifest;
  const type = patchTypeOf(object.apiVersion, object.kind);
  return applyStrategicMergePatch(original, patch, type) as unknown as Manifest;
}

function changed(object: Manifest, metadata: Partial<Manifest['metadata']>): Manifest {
  return { ...object, metadata: { ...object.metadata, ...metadata } };
}

function withImages(object: Manifest, images: NonNullable<Kustomization['images']>): Manifest {
  if (!/^(DaemonSet|Deployment|Job)$/.test(object.kind)) return object;
  const copy = structuredClone(object) as Workload & Manifest;
  for (const container of copy.spec.template.spec.containers) {
    const [name = '', tag] = container.image.split(/:(?=[^/:]*$)/);
    for (const { name: wanted, newName = name, newTag = tag, digest } of images) {
      if (name !== wanted) continue;
      if (digest === undefined) container.image = [newName, newTag].filter((one) => one).join(':');
      else container.image = `${newName}@${digest}`;
    }
  }
  return copy;
}

interface Workload {
  readonly spec: { readonly template: { readonly spec: { readonly containers: { image: string }[] } } };
}
