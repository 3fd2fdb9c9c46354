/**
 * Which CustomResourceDefinitions are refused, in which words: apiextensions-apiserver
 * `pkg/apis/apiextensions/validation/validation.go`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { cloneJson, type JsonObject } from '../../json/json.ts';
import { crdCauses } from './crd-causes.ts';
import { crdStrategy } from './crd-strategy.ts';
import { crd, cronTabSchema, type CrdParts, version } from './crds.fixture.ts';

function prepared(object: JsonObject): JsonObject {
  const copy = cloneJson(object) as JsonObject;
  crdStrategy.prepareForCreate?.(copy);
  return copy;
}

function refusals(object: JsonObject, old?: JsonObject): string[] {
  return crdCauses(object, old).map(({ field, message }) => `${field}: ${message}`);
}

type Case = readonly [
  name: string,
  versions: readonly JsonObject[],
  parts: CrdParts,
  expected: readonly string[],
];

function table(cases: readonly Case[]): void {
  for (const [name, versions, parts, expected] of cases) {
    test(name, () => assert.deepEqual(refusals(prepared(crd(versions, parts))), [...expected]));
  }
}

const label =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end " +
  "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const v1 = [version('v1')];
const noSpec = { type: 'object', properties: { spec: {} } };
const withSubresources = (subresources: JsonObject, schema: unknown = cronTabSchema): JsonObject[] => [
  version('v1', schema, { subresources }),
];
const column = (more: JsonObject): JsonObject[] => [
  version('v1', cronTabSchema, {
    additionalPrinterColumns: [{ name: 'A', type: 'string', jsonPath: '.spec.image', ...more }],
  }),
];
const selectable = (...paths: string[]): JsonObject[] => [
  version('v1', cronTabSchema, { selectableFields: paths.map((jsonPath) => ({ jsonPath })) }),
];

suite('names, group and scope', () => {
  table([
    ['all in order', v1, {}, []],
    [
      'the name is plural and group',
      v1,
      { metadata: { name: 'tabs.example.com' } },
      ['metadata.name: Invalid value: "tabs.example.com": must be spec.names.plural+"."+spec.group'],
    ],
    [
      'a group without a dot',
      v1,
      { group: 'stable' },
      ['spec.group: Invalid value: "stable": should be a domain with at least one dot'],
    ],
    ['no scope', v1, { scope: '' }, ['spec.scope: Required value']],
    [
      'an unknown scope',
      v1,
      { scope: 'Everywhere' },
      ['spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"'],
    ],
    [
      'names that are none',
      v1,
      { names: { singular: 'A_b', shortNames: ['ok', 'No'], categories: ['x y'] } },
      [
        `spec.names.singular: Invalid value: "A_b": ${label}`,
        `spec.names.shortNames[1]: Invalid value: "No": ${label}`,
        `spec.names.categories[0]: Invalid value: "x y": ${label}`,
      ],
    ],
    [
      'one kind for objects and lists',
      v1,
      { names: { listKind: 'CronTab' } },
      ['spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same'],
    ],
    [
      'a kind that is none',
      v1,
      { kind: 'Cron_Tab' },
      [
        `spec.names.singular: Invalid value: "cron_tab": ${label}`,
        `spec.names.kind: Invalid value: "Cron_Tab": may have mixed case, but should otherwise match: ${label}`,
        `spec.names.listKind: Invalid value: "Cron_TabList": may have mixed case, but should otherwise match: ${label}`,
      ],
    ],
  ]);
});

suite('versions', () => {
  const stored = (name: string, storage: boolean): JsonObject => version(name, noSchema(name), { storage });
  const noSchema = (name: string): unknown => ({ ...cronTabSchema, description: name });
  const shown = (versions: readonly JsonObject[]): string =>
    refusals(prepared(crd(versions)))
      .map((text) => text.replace(/Invalid value: \[.*\]: /s, 'Invalid value: ...: '))
      .join('\n');
  test('none is stored', () => {
    assert.match(
      shown([stored('v1', false)]),
      /spec\.versions: Invalid value: \.\.\.: must have exactly one version marked as storage version/,
    );
  });
  test('two are stored', () => {
    assert.match(shown([stored('v1', true), stored('v2', true)]), /must have exactly one version marked/);
  });
  test('one name twice', () => {
    assert.match(shown([stored('v1', true), stored('v1', false)]), /must contain unique version names/);
  });
  test('an invalid name', () => {
    assert.equal(shown([stored('1', true)]), `spec.versions[0].name: Invalid value: "1": ${label}`);
  });
  table([
    [
      'a schema is needed',
      [{ name: 'v1', served: true, storage: true }],
      {},
      ['spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required'],
    ],
    [
      'a warning needs something to warn of',
      [version('v1', cronTabSchema, { deprecationWarning: 'x' })],
      {},
      ['spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions'],
    ],
    [
      'unknown fields cannot be kept everywhere',
      v1,
      { spec: { preserveUnknownFields: true } },
      [
        'spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead',
      ],
    ],
  ]);
});

suite('schemas', () => {
  const missing = 'Required value: must not be empty for specified object fields';
  table([
    [
      'of the only version',
      [version('v1', noSpec)],
      {},
      [`spec.validation.openAPIV3Schema.properties[spec].type: ${missing}`],
    ],
    [
      'that all versions share',
      [version('v1', noSpec), version('v2', noSpec, { storage: false })],
      {},
      [`spec.validation.openAPIV3Schema.properties[spec].type: ${missing}`],
    ],
    [
      'of one of several versions',
      [version('v1'), version('v2', noSpec, { storage: false })],
      {},
      [`spec.versions[1].schema.openAPIV3Schema.properties[spec].type: ${missing}`],
    ],
    [
      'with a rule that does not compile',
      [version('v1', { type: 'object', 'x-kubernetes-validations': [{ rule: 'self.x ==' }] })],
      {},
      refusals(
        prepared(
          crd([version('v1', { type: 'object', 'x-kubernetes-validations': [{ rule: 'self.x ==' }] })]),
        ),
      ).filter((text) =>
        text.startsWith('spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value:'),
      ),
    ],
    [
      'say little at the root where the status is a subresource',
      withSubresources({ status: {} }, { ...cronTabSchema, enum: [{}] }),
      {},
      refusals(prepared(crd(withSubresources({ status: {} }, { ...cronTabSchema, enum: [{}] })))).filter(
        (text) => text.includes('only [Description Type Format Title Maximum'),
      ),
    ],
  ]);
  test('the two above are refused at all', () => {
    assert.equal(
      refusals(
        prepared(
          crd([version('v1', { type: 'object', 'x-kubernetes-validations': [{ rule: 'self.x ==' }] })]),
        ),
      ).length,
      1,
    );
    assert.equal(
      refusals(prepared(crd(withSubresources({ status: {} }, { ...cronTabSchema, enum: [{}] })))).length,
      1,
    );
  });
});

suite('subresources, columns, selectable fields', () => {
  table([
    [
      'scale needs its paths',
      withSubresources({ scale: {} }),
      {},
      [
        'spec.subresources.scale.specReplicasPath: Required value',
        'spec.subresources.scale.statusReplicasPath: Required value',
      ],
    ],
    [
      'at the right places',
      withSubresources({
        scale: {
          specReplicasPath: '.status.replicas',
          statusReplicasPath: 'status.replicas',
          labelSelectorPath: '.metadata.labels',
        },
      }),
      {},
      [
        'spec.subresources.scale.specReplicasPath: Invalid value: ".status.replicas": should be a json path under .spec',
        'spec.subresources.scale.statusReplicasPath: Invalid value: "status.replicas": must be a simple json path starting with .',
        'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.labels": should be a json path under either .spec or .status',
      ],
    ],
    [
      'columns',
      column({ type: 'text', format: 'odd', jsonPath: 'spec' }),
      {},
      [
        'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
        'spec.additionalPrinterColumns[0].format: Invalid value: "odd": must be one of byte,date,date-time,double,float,int32,int64,password',
        'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with .',
      ],
    ],
    ['selectable fields', selectable('.spec.image', '.spec.replicas', '.spec.suspended'), {}, []],
    [
      'selectable fields of one of two versions with the same schema',
      [...selectable('.spec.image'), version('v2', cronTabSchema, { storage: false })],
      {},
      [
        'spec.versions[0].selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included',
      ],
    ],
    [
      'selectable fields of one of two versions with schemas of their own',
      [
        ...selectable('.spec.image'),
        version('v2', { ...cronTabSchema, description: 'v2' }, { storage: false }),
      ],
      {},
      [],
    ],
    [
      'selectable fields that are none',
      selectable('', '.spec.nothing', '.spec', '.metadata.name', '.spec.image', '.spec.image'),
      {},
      [
        'spec.selectableFields[0].jsonPath: Required value',
        'spec.selectableFields[1].jsonPath: Invalid value: ".spec.nothing": is an invalid path: does not refer to a valid field',
        'spec.selectableFields[2].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.',
        'spec.selectableFields[3].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not refer to a valid field',
        'spec.selectableFields[5].jsonPath: Duplicate value: ".spec.image"',
      ],
    ],
  ]);
});

suite('conversion', () => {
  const webhook = {
    strategy: 'Webhook',
    webhook: { clientConfig: { url: 'https://x' }, conversionReviewVersions: ['v1'] },
  };
  const two = [version('v1'), version('v2', { ...cronTabSchema, description: 'x' }, { storage: false })];
  table([
    ['a webhook that is never called', v1, { spec: { conversion: webhook } }, []],
    [
      'a webhook that would be called',
      two,
      { spec: { conversion: webhook } },
      [
        'spec.conversion.strategy: Invalid value: "Webhook": this server calls no conversion webhooks: a definition with several versions must use "None" here',
      ],
    ],
    [
      'a webhook that is incomplete',
      v1,
      { spec: { conversion: { strategy: 'Webhook' } } },
      [
        'spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook',
        'spec.conversion.conversionReviewVersions: Required value',
      ],
    ],
    [
      'an unknown strategy',
      v1,
      { spec: { conversion: { strategy: 'Magic' } } },
      ['spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"'],
    ],
    [
      'a webhook that is not asked for',
      v1,
      { spec: { conversion: { ...webhook, strategy: 'None' } } },
      [
        'spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook',
        'spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook',
      ],
    ],
  ]);
});

suite('groups of the community', () => {
  const at = 'metadata.annotations[api-approved.kubernetes.io]';
  const see = 'see https://github.com/kubernetes/enhancements/pull/1111';
  const approved = (value: string): CrdParts => ({
    group: 'x.k8s.io',
    metadata: { annotations: { 'api-approved.kubernetes.io': value } },
  });
  table([
    [
      'need an approval',
      v1,
      { group: 'sub.kubernetes.io' },
      [
        `${at}: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", ${see}`,
      ],
    ],
    ['approved', v1, approved('https://github.com/kubernetes/kubernetes/pull/1'), []],
    ['not approved, and said so', v1, approved('unapproved, experimental-only'), []],
    [
      'something else',
      v1,
      approved('yes'),
      [
        `${at}: Invalid value: "yes": protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", ${see}`,
      ],
    ],
    ['others do not', v1, { group: 'notk8s.io' }, []],
  ]);
});

suite('changes', () => {
  const establishedCondition = { type: 'Established', status: 'True' };
  const old = (isEstablished: boolean): JsonObject => {
    const object = prepared(crd());
    const status = object['status'] as JsonObject;
    return isEstablished ? { ...object, status: { ...status, conditions: [establishedCondition] } } : object;
  };
  const changed = (from: JsonObject, parts: CrdParts): JsonObject => ({
    ...from,
    spec: (prepared(crd(v1, parts)) as { spec: JsonObject }).spec,
  });

  test('group and plural never change', () => {
    const from = old(false);
    assert.deepEqual(refusals(changed(from, { group: 'other.example.com', plural: 'tabs' }), from), [
      'spec.group: Invalid value: "other.example.com": field is immutable',
      'spec.names.plural: Invalid value: "tabs": field is immutable',
    ]);
  });
  test('scope and kind change until it is established', () => {
    const parts = { scope: 'Cluster', kind: 'Tab' };
    assert.deepEqual(refusals(changed(old(false), parts), old(false)), []);
    assert.deepEqual(refusals(changed(old(true), parts), old(true)), [
      'spec.scope: Invalid value: "Cluster": field is immutable',
      'spec.names.kind: Invalid value: "Tab": field is immutable',
    ]);
  });
  test('an object stored with a fault can be labelled', () => {
    const from = prepared(crd([version('v1', noSpec)]));
    assert.deepEqual(
      refusals({ ...from, metadata: { ...(from['metadata'] as JsonObject), labels: { a: 'b' } } }, from),
      [],
    );
  });
  test('an unchanged schema may have a rule that costs too much for a new one', () => {
    const items = { type: 'string', 'x-kubernetes-validations': [{ rule: "self.contains('x')" }] };
    const list = { type: 'array', maxItems: 100, items };
    const schema = { type: 'object', properties: { list } };
    const from = prepared(crd([version('v1', schema)]));
    assert.match(
      refusals(from).join(),
      /^spec\.validation\.openAPIV3Schema\.properties\[list\]\.items\.x-kubernetes-validations\[0\]\.rule: Forbidden: estimated rule cost exceeds budget by factor of 3\.1x/,
    );
    const changedTo = (other: JsonObject): string[] =>
      refusals({ ...from, spec: (prepared(crd([other])) as { spec: JsonObject }).spec }, from);
    assert.deepEqual(changedTo(version('v1', schema, { deprecated: true })), []);
    assert.equal(changedTo(version('v1', { ...schema, description: 'x' })).length, 1);
  });
  test('a version that was stored stays', () => {
    const from = old(true);
    const status = from['status'] as JsonObject;
    const two = { ...from, status: { ...status, storedVersions: ['v0', 'v1'] } };
    assert.deepEqual(refusals(two, from), [
      'status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions',
    ]);
  });
});
