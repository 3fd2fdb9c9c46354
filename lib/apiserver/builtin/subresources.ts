/** The subresources of built-in kinds. Each returns another object and does not change its arguments. */
import { labelSelectorOf, labelSelectorText } from '../../kube/selectors/selectors.ts';
import { apiVersionOf, type Subresource } from '../resources/resource.ts';
import { fieldError, type Cause } from '../schema/field-error.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { numberAt, objectAt, valueAt } from '../../json/fields.ts';
import { labelNamespace } from './defaults/config.ts';
import { LazyModel, openApiOf } from './kind.ts';

const verbs: Subresource['verbs'] = new Set(['get', 'patch', 'update']);

interface Owner {
  readonly group: string;
  readonly kind: string;
}

/** For a subresource whose body is the object itself. */
const ofOwnKind = {
  version: 'v1',
  read: (object: JsonObject) => object,
  model: undefined,
  openApi: undefined,
} as const;

/** The object with `fields` taken from `sent`; those that `sent` lacks are removed. */
function taking(object: JsonObject, sent: JsonObject, fields: readonly string[]): JsonObject {
  const result = { ...object };
  for (const field of fields) {
    if (sent[field] === undefined) delete result[field];
    else result[field] = sent[field];
  }
  return result;
}

function otherFields(object: JsonObject, written: readonly string[]): readonly string[] {
  return Object.keys(object).filter(
    (field) => !written.includes(field) && field !== 'apiVersion' && field !== 'kind' && field !== 'metadata',
  );
}

interface StatusParts extends Owner {
  readonly validate?: Subresource['validate'] | undefined;
  readonly keptMetadata?: Subresource['keptMetadata'] | undefined;
}

/** `status`, which controllers write separately from users. As in most kinds, labels and annotations may be written with it. */
export function statusOf({ group, kind, validate, keptMetadata = [] }: StatusParts): Subresource {
  return { ...statusAloneOf({ group, kind, validate }), keptMetadata };
}

/** `status` of kinds whose metadata does not change when the status is written. */
export function statusAloneOf({ group, kind, validate }: Omit<StatusParts, 'keptMetadata'>): Subresource {
  return {
    name: 'status',
    verbs,
    group,
    kind,
    ...ofOwnKind,
    write: (object, sent) => taking(object, sent, ['status']),
    resetFields: (object) => otherFields(object, ['status']),
    validate,
  };
}

/** `finalize` of namespaces, which writes `spec.finalizers`. */
export function finalizeOf(validate: (object: JsonObject) => readonly Cause[]): Subresource {
  return {
    name: 'finalize',
    verbs: new Set(['update']),
    group: '',
    kind: 'Namespace',
    ...ofOwnKind,
    write: (object, sent) => taking(object, sent, ['spec']),
    keptMetadata: [],
    fillMetadata: labelNamespace,
    resetFields: (object) => otherFields(object, ['spec']),
    validate,
  };
}

/** `ephemeralcontainers` of pods: containers for debugging, which can only be added. */
export function ephemeralContainersOf(
  validate: (object: JsonObject, old: JsonObject) => readonly Cause[],
): Subresource {
  return {
    name: 'ephemeralcontainers',
    verbs,
    group: '',
    kind: 'Pod',
    ...ofOwnKind,
    write: (object, sent) => ({
      ...object,
      spec: taking(objectAt(object, 'spec'), objectAt(sent, 'spec'), ['ephemeralContainers']),
    }),
    resetFields: (object) => otherFields(object, ['spec']),
    validate,
  };
}

/** `log` of pods: the output of a container. The caller of `startApiServer` decides where it is read from. */
export const log: Subresource = {
  name: 'log',
  verbs: new Set(['get']),
  group: '',
  kind: 'Pod',
  ...ofOwnKind,
  write: (object) => object,
  resetFields: () => [],
  text: [
    { name: 'container', type: 'string', about: 'The container whose log to read, if the pod has several.' },
    { name: 'follow', type: 'boolean', about: 'Follow the log until the container ends.' },
    {
      name: 'limitBytes',
      type: 'integer',
      about: 'Maximum number of bytes to return, even if that splits a line.',
    },
    { name: 'previous', type: 'boolean', about: 'Return the log of the container before its last restart.' },
    {
      name: 'sinceSeconds',
      type: 'integer',
      about: 'Return only lines of the last given number of seconds.',
    },
    { name: 'sinceTime', type: 'string', about: 'Return only lines written since this time (RFC 3339).' },
    { name: 'tailLines', type: 'integer', about: 'Number of lines from the end of the log to return.' },
    { name: 'timestamps', type: 'boolean', about: 'Prefix each line with its timestamp.' },
  ],
};

/** `scale` as autoscaling/v1 Scale, for kinds with `spec.replicas` and `status.replicas`. */
export const scale: Subresource = {
  name: 'scale',
  verbs,
  group: 'autoscaling',
  version: 'v1',
  kind: 'Scale',
  read: (object) => {
    const { name, namespace, uid, resourceVersion, creationTimestamp } = objectAt(object, 'metadata');
    const selector = selectorText(valueAt(object, 'spec', 'selector'));
    const replicas = numberAt(object, 'spec', 'replicas') ?? 0;
    return {
      kind: 'Scale',
      apiVersion: apiVersionOf({ group: 'autoscaling', version: 'v1' }),
      metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
      // Omitted if zero, unlike `status.replicas`.
      spec: replicas === 0 ? {} : { replicas },
      status: {
        replicas: numberAt(object, 'status', 'replicas') ?? 0,
        ...(selector === '' ? {} : { selector }),
      },
    };
  },
  write: (object, sent) => ({
    ...object,
    spec: { ...objectAt(object, 'spec'), replicas: numberAt(sent, 'spec', 'replicas') ?? 0 },
  }),
  model: new LazyModel('autoscaling.Scale', 'autoscaling/v1', 'Scale'),
  openApi: openApiOf('autoscaling.Scale'),
  resetFields: (object) => otherFields(object, ['spec']),
  validate: (object) => {
    const replicas = numberAt(object, 'spec', 'replicas') ?? 0;
    return replicas >= 0
      ? []
      : [fieldError.invalid('spec.replicas', replicas, 'must be greater than or equal to 0')];
  },
};

/** A selector as in a query string. That of a ReplicationController is a plain map. */
export function selectorText(selector: unknown): string {
  if (!isObject(selector)) return '';
  const plain = !('matchLabels' in selector) && !('matchExpressions' in selector);
  try {
    return labelSelectorText(
      labelSelectorOf(plain ? { matchLabels: selector as Record<string, string> } : selector),
    );
  } catch {
    return '<error>';
  }
}
