import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Metadata, MetadataTypeError, readMetadata } from './metadata-fields.ts';
import {
  finalizerWarnings,
  metadataCauses,
  metadataUpdateCauses,
  withoutRepeatedOwners,
} from './metadata.ts';
import { generatedName, nameProblems } from './object-names.ts';
import type { NameRule } from './resource.ts';

const lines = (causes: readonly { readonly field: string; readonly message: string }[]): string[] =>
  causes.map(({ field, message }) => `${field}: ${message}`);

const rules = { namespaced: true, nameRule: 'dns-subdomain', anyFinalizer: true } as const;
const problems = (more: Metadata, other: Partial<Parameters<typeof metadataCauses>[1]> = {}): string[] =>
  lines(metadataCauses({ name: 'a', namespace: 'default', ...more }, { ...rules, ...other }));

const names: readonly (readonly [NameRule, string, string | undefined])[] = [
  ['dns-subdomain', 'a.b-c.d', undefined],
  ['dns-subdomain', 'a'.repeat(253), undefined],
  ['dns-subdomain', 'a'.repeat(254), 'must be no more than 253 bytes'],
  ['dns-subdomain', 'a..b', 'a lowercase RFC 1123 subdomain must consist of'],
  ['dns-subdomain', 'A', 'a lowercase RFC 1123 subdomain must consist of'],
  ['dns-subdomain', 'ä', 'a lowercase RFC 1123 subdomain must consist of'],
  ['dns-label', 'a-1', undefined],
  ['dns-label', 'a.b', 'must not contain dots'],
  ['dns-label', 'a'.repeat(64), 'must be no more than 63 bytes'],
  ['dns-label', '-a', 'a lowercase RFC 1123 label must consist of'],
  ['dns1035-label', 'a1', undefined],
  ['dns1035-label', '1a', 'a DNS-1035 label must consist of'],
  ['path-segment', 'system:Any Thing', undefined],
  ['path-segment', 'x'.repeat(513), 'must be no more than 512 bytes'],
  ['path-segment', 'a\0b', 'may not contain control characters'],
  ['path-segment', '\ud800', 'may not contain control characters'],
  ['path-segment', '..', "may not be '..'"],
  ['path-segment', 'a/b', "may not contain '/'"],
  ['path-segment', 'a%b', "may not contain '%'"],
];

for (const [rule, name, problem] of names) {
  test(`${rule}: ${name.slice(0, 20)} (${name.length})`, () => {
    const found = nameProblems(rule, name);
    if (problem === undefined) assert.deepEqual(found, []);
    else assert.ok(found.length === 1 && found[0]?.startsWith(problem), found.join());
  });
}

test('names and namespaces', () => {
  assert.deepEqual(problems({}), []);
  assert.deepEqual(problems({ generateName: 'web-' }), []);
  assert.match(
    problems({ generateName: 'Web-' }).join(),
    /^metadata.generateName: Invalid value: "Web-": a lowercase/,
  );
  assert.match(
    problems({ namespace: 'a.b' }).join(),
    /^metadata.namespace: Invalid value: "a.b": must not contain dots$/,
  );
  assert.deepEqual(problems({}, { namespaced: false }), [
    'metadata.namespace: Forbidden: not allowed on this type',
  ]);
  assert.deepEqual(lines(metadataCauses({}, rules)), [
    'metadata.name: Required value: name or generateName is required',
    'metadata.namespace: Required value',
  ]);
});

test('labels and annotations', () => {
  assert.deepEqual(
    problems({ labels: { 'example.com/a_B.c': 'v', b: '' }, annotations: { 'Example.com/x': '\n' } }),
    [],
  );
  assert.match(
    problems({ labels: { 'a b': 'c' } }).join(),
    /^metadata.labels: Invalid value: "a b": name part must consist of/,
  );
  assert.match(
    problems({ labels: { a: 'b c' } }).join(),
    /^metadata.labels: Invalid value: "b c": a valid label must be/,
  );
  assert.match(problems({ labels: { a: 'b'.repeat(64) } }).join(), /must be no more than 63 bytes$/);
  assert.match(
    problems({ annotations: { '/x': '' } }).join(),
    /^metadata.annotations: Invalid value: "\/x": prefix part must be non-empty/,
  );
  const text = 'é'.repeat(128 * 1024 - 1);
  assert.deepEqual(problems({ annotations: { ab: text } }), []);
  assert.deepEqual(problems({ annotations: { abc: text } }), [
    'metadata.annotations: Too long: may not be more than 262144 bytes',
  ]);
});

test('owners', () => {
  const owner = { apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' };
  assert.deepEqual(problems({ ownerReferences: [owner] }), []);
  assert.deepEqual(problems({ ownerReferences: [{}] }), [
    'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
    'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
    'metadata.ownerReferences.name: Invalid value: "": must not be empty',
    'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
  ]);
  const two = [
    { ...owner, controller: true },
    { ...owner, kind: 'Node', controller: true },
  ];
  assert.match(
    problems({ ownerReferences: two }).join(),
    /Only one reference can have Controller set to true. Found "true" in references for Pod\/p and Node\/p$/,
  );
  assert.match(
    problems({ ownerReferences: [{ ...owner, kind: 'Event' }] }).join(),
    /disallowed from being an owner$/,
  );
  assert.deepEqual(withoutRepeatedOwners([owner, { ...owner }]), { owners: [owner], uids: ['u'] });
});

test('finalizers', () => {
  assert.deepEqual(problems({ finalizers: ['example.com/a', 'mine', 'orphan'] }), []);
  assert.match(
    problems({ finalizers: ['mine'] }, { anyFinalizer: false }).join(),
    /neither a standard finalizer name/,
  );
  assert.deepEqual(problems({ finalizers: ['orphan', 'foregroundDeletion'] }), [
    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set',
  ]);
  assert.equal(finalizerWarnings(['mine', 'example.com/a'], undefined).length, 1);
  assert.deepEqual(finalizerWarnings(['mine'], ['mine']), []);
});

test('immutable metadata', () => {
  const old: Metadata = { name: 'a', uid: 'u', creationTimestamp: 't' };
  assert.deepEqual(lines(metadataUpdateCauses(old, old)), []);
  assert.deepEqual(lines(metadataUpdateCauses({ name: 'b', uid: 'u', creationTimestamp: 't' }, old)), [
    'metadata.name: Invalid value: "b": field is immutable',
  ]);
  const ending = { ...old, deletionTimestamp: 'd', finalizers: ['example.com/a'] };
  assert.deepEqual(lines(metadataUpdateCauses({ ...ending, finalizers: [] }, ending)), []);
  assert.match(
    lines(metadataUpdateCauses({ ...ending, finalizers: ['example.com/b'] }, ending)).join(),
    /no new finalizers/,
  );
});

test('metadata read from the sent object', () => {
  const sent = {
    name: 'a',
    namespace: '',
    labels: { a: null, b: 'c' },
    annotations: {},
    generation: 3,
    creationTimestamp: '2026-01-01T01:00:00.5+01:00',
    ownerReferences: [{ name: 'o', controller: null, nope: 1 }],
    finalizers: null,
    managedFields: [],
    selfLink: '/x',
    nope: 1,
  };
  assert.deepEqual(readMetadata(sent), {
    metadata: {
      labels: { a: '', b: 'c' },
      name: 'a',
      generation: 3,
      creationTimestamp: '2026-01-01T00:00:00Z',
      ownerReferences: [{ name: 'o' }],
      managedFields: [],
    },
    unknown: ['metadata.ownerReferences[0].nope', 'metadata.nope'],
  });
  assert.deepEqual(readMetadata(undefined), { metadata: {}, unknown: [] });
});

const wrong: readonly unknown[] = [
  5,
  { name: 5 },
  { labels: [] },
  { labels: { a: 1 } },
  { generation: 1.5 },
  { generation: '1' },
  { creationTimestamp: 'yesterday' },
  { deletionTimestamp: '2026-02-31' },
  { finalizers: [1] },
  { ownerReferences: {} },
  { ownerReferences: [{ controller: 'yes' }] },
  { managedFields: ['x'] },
];

for (const sent of wrong) {
  test(`metadata of the wrong type: ${JSON.stringify(sent)}`, () => {
    assert.throws(() => readMetadata(sent), TypeError);
  });
}

test('the words of a wrong type are those of Go', () => {
  assert.equal(
    new MetadataTypeError(1.5, 'generation', 'int64').message,
    'json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64',
  );
});

test('generated names are of one length and fit', () => {
  assert.match(generatedName('a-'), /^a-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  assert.equal(generatedName('a'.repeat(80)).length, 63);
});
