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

const pretty = query('pretty', 'string', 'Whether the response is indented.');
const dryRun = query('dryRun', 'string', 'With `All`, the request is checked but nothing is stored.');
const fieldManager = query('fieldManager', 'string', 'The name of the field manager, for server-side apply.');
const fieldValidation = query(
  'fieldValidation',
  'string',
  'How to treat unknown and duplicate fields: Ignore, Warn or Strict.',
);
const force = query('force', 'boolean', 'For server-side apply: take over fields from other managers.');

const selection: readonly Parameter[] = [
  query('continue', 'string', 'The token returned with the previous page.'),
  query('fieldSelector', 'string', 'Selects objects by fields.'),
  query('labelSelector', 'string', 'Selects objects by labels.'),
  query('limit', 'integer', 'The maximum number of objects per page.'),
  query('resourceVersion', 'string', 'The version of a list, or the version after which a watch starts.'),
  query('resourceVersionMatch', 'string', 'How resourceVersion applies to a list: Exact or NotOlderThan.'),
  query('sendInitialEvents', 'boolean', 'Whether a watch starts with the existing objects.'),
  query('timeoutSeconds', 'integer', 'The time limit of the request.'),
];
const watching: readonly Parameter[] = [
  query('allowWatchBookmarks', 'boolean', 'Whether a watch sends bookmarks.'),
  query('watch', 'boolean', 'Return changes instead of a list.'),
];
const deletion: readonly Parameter[] = [
  dryRun,
  query('gracePeriodSeconds', 'integer', 'The grace period in seconds; 0 deletes the object at once.'),
  query('orphanDependents', 'boolean', 'Deprecated: use propagationPolicy.'),
  query('propagationPolicy', 'string', 'What happens to dependents: Orphan, Background or Foreground.'),
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

/** The variable parts of a path. */
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
