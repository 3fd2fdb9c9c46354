/** The parameters of operations. */

/** The values of `x-kubernetes-action`. */
export type Action = 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'post' | 'put';

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly type: 'boolean' | 'integer' | 'string';
  readonly about: string;
}

const query = (name: string, type: Parameter['type'], about: string): Parameter => ({
  name,
  in: 'query',
  type,
  about,
});

const pretty = query('pretty', 'string', 'Whether the answer is indented.');
const dryRun = query('dryRun', 'string', 'With `All`, everything is checked and nothing is stored.');
const fieldManager = query('fieldManager', 'string', 'Who makes the changes; for server-side apply.');
const fieldValidation = query(
  'fieldValidation',
  'string',
  'What happens with fields that are unknown or stand there twice: Ignore, Warn or Strict.',
);
const force = query('force', 'boolean', 'For server-side apply: takes fields over from other managers.');

const selection: readonly Parameter[] = [
  query('continue', 'string', 'Token from the previous page.'),
  query('fieldSelector', 'string', 'Selects objects by fields.'),
  query('labelSelector', 'string', 'Selects objects by labels.'),
  query('limit', 'integer', 'The number of objects in a page.'),
  query('resourceVersion', 'string', 'Of which version a list is, or after which a watch begins.'),
  query('resourceVersionMatch', 'string', 'What resourceVersion means for a list: Exact or NotOlderThan.'),
  query('sendInitialEvents', 'boolean', 'Whether a watch begins with what is there.'),
  query('timeoutSeconds', 'integer', 'How long this may take.'),
];
const watching: readonly Parameter[] = [
  query('allowWatchBookmarks', 'boolean', 'Whether a watch tells from time to time how far it is.'),
  query('watch', 'boolean', 'Gives changes instead of a list.'),
];
const deletion: readonly Parameter[] = [
  dryRun,
  query('gracePeriodSeconds', 'integer', 'How long an object may take to end; 0 to delete it at once.'),
  query('orphanDependents', 'boolean', 'Deprecated: propagationPolicy says it.'),
  query('propagationPolicy', 'string', 'What happens with dependents: Orphan, Background or Foreground.'),
];
const writing: readonly Parameter[] = [dryRun, fieldManager, fieldValidation];

const byAction: Readonly<Record<Action, readonly Parameter[]>> = {
  delete: [pretty, ...deletion],
  deletecollection: [pretty, ...selection, ...deletion],
  get: [pretty],
  list: [pretty, ...selection, ...watching],
  patch: [pretty, ...writing, force],
  post: [pretty, ...writing],
  put: [pretty, ...writing],
};

export function parametersOf(action: Action): readonly Parameter[] {
  return byAction[action];
}

/** What is variable in a path. */
export function itemParameters(path: string, kind: string): readonly Parameter[] {
  const parameters: Parameter[] = [];
  if (path.includes('{name}')) {
    parameters.push({ name: 'name', in: 'path', type: 'string', about: `Name of the ${kind}.` });
  }
  if (path.includes('{namespace}')) {
    parameters.push({ name: 'namespace', in: 'path', type: 'string', about: 'Namespace of the object.' });
  }
  return parameters;
}
