/**
 * The operations by path, for both versions of OpenAPI. kubectl finds here what the server supports: whether
 * PATCH of a kind has the parameters `fieldValidation` and `dryRun` (cli-runtime
 * `query_param_verifier_v3.go`), and whether it takes strategic merge patches (kubectl
 * `pkg/cmd/apply/patcher.go`).
 */
import { apiVersionOf, type OpenApiModel, type Resource, type Subresource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { itemParameters, parametersOf, type Action, type Parameter } from './parameters.ts';

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export type Method = 'delete' | 'get' | 'patch' | 'post' | 'put';

export interface Operation {
  readonly path: string;
  readonly method: Method;
  readonly id: string;
  readonly tag: string;
  readonly action: Action;
  readonly about: string;
  readonly kind: GroupVersionKind;
  readonly pathParameters: readonly Parameter[];
  readonly parameters: readonly Parameter[];
  /** `schema` is the name of a schema. `undefined` if the operation has no body. */
  readonly body:
    | { readonly schema: string; readonly mediaTypes: readonly string[]; readonly required: boolean }
    | undefined;
  /** The name of the answer's schema. */
  readonly answer: string;
  readonly codes: readonly number[];
  readonly streams: boolean;
  /** Whether the answer is plain text instead of an object: then `answer` has no meaning. */
  readonly isText: boolean;
}

/** Prefix of schemas that belong to no kind. */
const metaName = 'io.k8s.apimachinery.pkg.apis.meta.v1';
export const statusName = `${metaName}.Status`;
export const deleteOptionsName = `${metaName}.DeleteOptions`;
export const patchName = `${metaName}.Patch`;
export const listMetaName = `${metaName}.ListMeta`;
export const objectMetaName = `${metaName}.ObjectMeta`;

/** The name of a list's schema: that of the kind's schema, ending with the kind of the list. */
export function listName({ openApi: { name }, kind, listKind }: Resource): string {
  return name.endsWith(`.${kind}`) ? `${name.slice(0, -kind.length)}${listKind}` : `${name}List`;
}

/** `paths` of a document; the callbacks write parameters and operations in the form of its version. */
export function pathsOf(
  resources: readonly Resource[],
  parameterOf: (parameter: Parameter) => JsonObject,
  operationOf: (operation: Operation) => JsonObject,
): Record<string, JsonObject> {
  const paths: Record<string, JsonObject> = {};
  for (const operation of resources.flatMap(operationsOf)) {
    const parameters = operation.pathParameters.map(parameterOf);
    const item = (paths[operation.path] ??= parameters.length === 0 ? {} : { parameters });
    item[operation.method] = operationOf(operation);
  }
  return paths;
}

export function answerTypes({ isText, streams }: Operation): readonly string[] {
  return [
    ...(isText ? ['text/plain'] : []),
    'application/json',
    'application/yaml',
    ...(streams ? ['application/json;stream=watch'] : []),
  ];
}

function operationsOf(resource: Resource): readonly Operation[] {
  const operations: Operation[] = [];
  const { group, version, kind, plural, namespaced, verbs, openApi } = resource;
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = `${root}/${namespaced ? 'namespaces/{namespace}/' : ''}${plural}`;
  const item = `${collection}/{name}`;
  const own = { group, version, kind };
  const scope = namespaced ? 'Namespaced' : '';
  const { tag, words } = namesOf(resource);
  const add = (
    path: string,
    method: Method,
    id: readonly [before: string, after: string],
    action: Action,
    about: string,
    more: Partial<Operation> = {},
  ): void => {
    operations.push({
      path,
      method,
      id: `${id[0]}${words}${id[1]}`,
      tag,
      action,
      about,
      kind: own,
      pathParameters: itemParameters(path, kind),
      parameters: parametersOf(action),
      body: bodyOf(resource, action, openApi),
      answer: openApi.name,
      codes: codesOf(action),
      streams: action === 'list',
      isText: false,
      ...more,
    });
  };
  if (verbs.has('list')) {
    const answer = { answer: listName(resource) };
    if (namespaced) {
      const id = ['list', `${kind}ForAllNamespaces`] as const;
      add(`${root}/${plural}`, 'get', id, 'list', `list or watch objects of kind ${kind}`, answer);
    }
    add(collection, 'get', ['list', scope + kind], 'list', `list or watch objects of kind ${kind}`, answer);
  }
  if (verbs.has('create')) add(collection, 'post', ['create', scope + kind], 'post', `create a ${kind}`);
  if (verbs.has('deletecollection')) {
    const id = ['delete', `Collection${scope}${kind}`] as const;
    add(collection, 'delete', id, 'deletecollection', `delete all selected ${kind} objects`, {
      answer: statusName,
    });
  }
  if (verbs.has('get')) add(item, 'get', ['read', scope + kind], 'get', `read a ${kind}`);
  if (verbs.has('update')) add(item, 'put', ['replace', scope + kind], 'put', `replace a ${kind}`);
  if (verbs.has('patch')) add(item, 'patch', ['patch', scope + kind], 'patch', `change parts of a ${kind}`);
  if (verbs.has('delete')) {
    add(item, 'delete', ['delete', scope + kind], 'delete', `delete a ${kind}`, { answer: statusName });
  }
  for (const subresource of resource.subresources.values()) {
    const model = subresource.openApi ?? openApi;
    const more = { kind: kindOf(subresource), answer: model.name };
    const suffix = scope + kind + capitalized(subresource.name);
    const of = `${subresource.name} of a ${kind}`;
    const path = `${item}/${subresource.name}`;
    const body = (action: Action): Pick<Operation, 'body'> => ({ body: bodyOf(resource, action, model) });
    const { text } = subresource;
    const asText = text && {
      isText: true,
      parameters: [...parametersOf('get'), ...text.map((one) => ({ ...one, in: 'query' as const }))],
    };
    if (subresource.verbs.has('get')) {
      add(path, 'get', ['read', suffix], 'get', `read ${of}`, { ...more, ...asText });
    }
    if (subresource.verbs.has('update')) {
      add(path, 'put', ['replace', suffix], 'put', `replace ${of}`, { ...more, ...body('put') });
    }
    if (subresource.verbs.has('patch')) {
      add(path, 'patch', ['patch', suffix], 'patch', `change parts of ${of}`, { ...more, ...body('patch') });
    }
  }
  return operations;
}

function kindOf({ group, version, kind }: Subresource): GroupVersionKind {
  return { group, version, kind };
}

function bodyOf(resource: Resource, action: Action, model: OpenApiModel): Operation['body'] {
  if (action === 'post' || action === 'put')
    return { schema: model.name, mediaTypes: ['*/*'], required: true };
  if (action === 'delete' || action === 'deletecollection') {
    return { schema: deleteOptionsName, mediaTypes: ['*/*'], required: false };
  }
  if (action !== 'patch') return undefined;
  const mediaTypes = [
    'application/apply-patch+yaml',
    'application/json-patch+json',
    'application/merge-patch+json',
  ];
  // Custom resources do not support it. ResourceModel.patchType says so too, but reading it would compile the schema.
  if (!resource.isCustom) mediaTypes.push('application/strategic-merge-patch+json');
  return { schema: patchName, mediaTypes, required: true };
}

function codesOf(action: Action): readonly number[] {
  if (action === 'post') return [200, 201, 202];
  if (action === 'put' || action === 'patch') return [200, 201];
  return action === 'delete' ? [200, 202] : [200];
}

/**
 * How the group and version appear in operations: as the tag `rbacAuthorization_v1`, and as a part of their names,
 * `RbacAuthorizationV1`. For custom resources, the group is reversed: `comExample_v1` (apiserver
 * `pkg/endpoints/openapi/openapi.go`).
 */
function namesOf({ group, version, isCustom }: Resource): { readonly tag: string; readonly words: string } {
  const parts = isCustom ? group.split(/[.-]/).reverse() : group.replace(/\.k8s\.io$/, '').split('.');
  const words = parts.map(capitalized).join('') || 'Core';
  return {
    tag: `${words.charAt(0).toLowerCase()}${words.slice(1)}_${version}`,
    words: words + capitalized(version),
  };
}

function capitalized(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

/** `GROUP/VERSION` as in paths: `api/v1`, `apis/apps/v1`. */
export function documentPath(of: { readonly group: string; readonly version: string }): string {
  return `${of.group === '' ? 'api' : 'apis'}/${apiVersionOf(of)}`;
}
