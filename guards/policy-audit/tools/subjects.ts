/**
 * The input of policies: the objects in manifests and directories, and reviews as the API server sends them.
 */
import { opendirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { type Crd, readCrd } from '../../../lib/apiserver/custom/crd.ts';
import { resourcesOfCrd } from '../../../lib/apiserver/custom/custom-resource.ts';
import type { ResourceModel } from '../../../lib/apiserver/resources/resource.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import { parseManifestValues } from '../../../lib/manifests/document.ts';
import { isManifestName } from '../../../lib/manifests/files.ts';
import { describeProblem } from '../../../lib/manifests/problem.ts';
import type { GroupVersionResource, JsonObject, PolicyRequest } from '../engine/evaluator.ts';
import { requestOfReview, ShapeError } from '../server/review.ts';
import { type KindName, kindNameOf } from './kind-names.ts';

/** One object, or one review. */
export interface Subject {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  /** `Pod shop/web` */
  readonly name: string;
  readonly request: PolicyRequest;
  readonly kind: KindName;
  /** Whether the input was a review; otherwise it was an object, which is evaluated as being created. */
  readonly isReview: boolean;
  /** For an object of a cluster: the other versions in which it is served, any of which a rule may name. */
  readonly equivalents?: readonly GroupVersionResource[];
  /** For a custom resource whose definition is among the manifests. */
  readonly model?: ResourceModel;
}

export interface Subjects {
  readonly subjects: readonly Subject[];
  /** What cannot be read, with file and line. */
  readonly problems: readonly string[];
  /** The labels of the Namespaces among the objects, keyed by name. */
  readonly namespaceLabels: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

/** The object need not have a name: the API server may generate one. */
interface SubjectObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata?: KubeObject['metadata'];
}

/** Keyed by `group/kind`. */
type CustomResources = ReadonlyMap<string, CustomKind>;

interface CustomKind {
  readonly plural: string;
  readonly namespaced: boolean;
  /** Keyed by version. Made on demand: bad schemas are reported only if there are objects. @throws {ShapeError} for a bad schema. */
  readonly models: () => ReadonlyMap<string, ResourceModel>;
}

const MAX_FILES = 100_000;
/** Large directories of tools, which are not searched. */
const skipped: ReadonlySet<string> = new Set(['node_modules']);

/**
 * @param paths - Files and directories; `-` is standard input.
 * @throws {RampartError} `INPUT` for a path that does not exist, `LIMIT`
 */
export function readSubjects(paths: readonly string[]): Subjects {
  const objects: { file: string; line: number; object: SubjectObject }[] = [];
  const problems: string[] = [];
  for (const file of paths.flatMap(manifestFilesOf)) {
    const found = parseManifestValues(textOf(file), file);
    problems.push(...found.problems.map(describeProblem));
    // A repository also contains other YAML, such as tool settings and chart values. Documents without a kind are not for Kubernetes.
    for (const { value, lineOf } of found.values) {
      if (isSubjectObject(value)) objects.push({ file, line: lineOf('kind'), object: value });
    }
  }
  const customResources: CustomResources = new Map(
    objects.flatMap(({ object }) => {
      const found = customResourceOf(object);
      return found === undefined ? [] : [found];
    }),
  );
  const subjects: Subject[] = [];
  for (const { file, line, object } of objects) {
    try {
      subjects.push({ file, line, ...subjectOf(object, customResources) });
    } catch (error) {
      if (!(error instanceof ShapeError)) throw error;
      problems.push(`${file}:${line}: ${error.message}`);
    }
  }
  const namespaceLabels = new Map(
    objects.flatMap(({ object: { apiVersion, kind, metadata } }) =>
      apiVersion === 'v1' && kind === 'Namespace' && metadata?.name !== undefined
        ? [[metadata.name, metadata.labels ?? {}] as const]
        : [],
    ),
  );
  return { subjects, problems, namespaceLabels };
}

/** The request to create an object, as in audits. */
export function creationOf(object: JsonObject, kind: KindName): PolicyRequest {
  const { name, namespace, uid } = (object['metadata'] ?? {}) as Record<string, string | undefined>;
  const { group, version, resource } = kind;
  return {
    uid: uid ?? '',
    operation: 'CREATE',
    kind: { group, version, kind: kind.kind },
    resource: { group, version, resource },
    ...(name !== undefined && { name }),
    // An object without a namespace is created in the namespace of the kubeconfig context, which is usually `default`.
    ...(kind.isNamespaced && { namespace: namespace ?? 'default' }),
    object,
    userInfo: {},
    dryRun: true,
  };
}

function subjectOf(
  object: SubjectObject,
  customResources: CustomResources,
): Pick<Subject, 'isReview' | 'kind' | 'model' | 'name' | 'request'> {
  if (object.kind === 'AdmissionReview' && object.apiVersion.startsWith('admission.k8s.io/')) {
    const request = requestOfReview(object);
    const { group, version, resource } = request.resource;
    const kind = {
      group,
      version,
      kind: request.kind.kind,
      resource,
      isNamespaced: request.namespace !== undefined,
    };
    return { request, kind, isReview: true, name: nameOf(kind.kind, request.namespace, request.name) };
  }
  const { namespace, name, generateName } = object.metadata ?? {};
  const kind = kindNameOf(object.apiVersion, object.kind, namespace !== undefined, customResources);
  const request = creationOf(object as unknown as JsonObject, kind);
  const model = customResources.get(`${kind.group}/${kind.kind}`)?.models().get(kind.version);
  return {
    ...{ request, kind, isReview: false },
    ...(model && { model }),
    name: nameOf(object.kind, request.namespace, name ?? generateName),
  };
}

/** `Pod shop/web` */
export function nameOf(kind: string, namespace: string | undefined, name = '(no name)'): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

function customResourceOf(object: SubjectObject): readonly [string, CustomKind] | undefined {
  if (object.kind !== 'CustomResourceDefinition') return undefined;
  const crd = readCrd(object as unknown as JsonObject);
  const { group, names, namespaced } = crd;
  const { kind, plural } = names;
  if (kind === '' || plural === '') return undefined;
  let models: ReadonlyMap<string, ResourceModel> | undefined;
  return [`${group}/${kind}`, { plural, namespaced, models: () => (models ??= modelsOf(crd)) }];
}

/** Keyed by version. @throws {ShapeError} if a schema cannot be used. */
function modelsOf(crd: Crd): ReadonlyMap<string, ResourceModel> {
  try {
    return new Map(
      resourcesOfCrd(crd).map(({ version, model: { schema, applyType, patchType } }) => [
        version,
        { schema, applyType, patchType },
      ]),
    );
  } catch (error) {
    throw new ShapeError(`the schema of ${crd.name} cannot be used: ${messageOf(error)}`);
  }
}

function isSubjectObject(value: unknown): value is SubjectObject {
  if (typeof value !== 'object' || value === null) return false;
  const { apiVersion, kind, metadata = {} } = value as Record<string, unknown>;
  return (
    typeof apiVersion === 'string' &&
    typeof kind === 'string' &&
    typeof metadata === 'object' &&
    metadata !== null
  );
}

function textOf(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${file}`,
      why: (error as Error).message,
      cause: error,
    });
  }
}

/** For a directory, all manifests below it. @throws {RampartError} `INPUT` for a path that does not exist, `LIMIT` */
export function manifestFilesOf(path: string): string[] {
  if (path === '-') return [path];
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) {
    throw new RampartError(errorCodes.INPUT, { what: `cannot read ${path}`, why: 'it does not exist' });
  }
  if (!stats.isDirectory()) return [path];
  const files: string[] = [];
  walk(path, files);
  return files.toSorted();
}

/** Does not follow symbolic links: they may point outside of the directory or form a cycle. */
function walk(directory: string, files: string[]): void {
  using entries = opendirSync(directory);
  for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
    const { name } = entry;
    if (name.startsWith('.') || skipped.has(name)) continue;
    if (entry.isDirectory()) walk(join(directory, name), files);
    else if (entry.isFile() && isManifestName(name)) files.push(join(directory, name));
    if (files.length > MAX_FILES) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `${directory} contains too many files`,
        why: `the limit is ${MAX_FILES} files`,
      });
    }
  }
}
