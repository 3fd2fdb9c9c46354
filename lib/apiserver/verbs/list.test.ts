import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Asked, Bench, meta, pod, widget } from './verbs.fixture.ts';
import type { ItemList } from './request.ts';

async function listed(bench: Bench, asked: Asked = {}): Promise<ItemList> {
  const answer = await bench.ask('list', asked);
  if (answer.kind !== 'list') throw new Error(`an answer of kind ${answer.kind}`);
  return answer.list;
}

const namesOf = ({ items }: ItemList): string[] => items.map(({ stored }) => stored?.name ?? '');

async function filled(count: number): Promise<Bench> {
  const bench = await Bench.open();
  for (let index = 0; index < count; index++) {
    const labels = { index: `i${index}`, third: String(index % 3) };
    const spec = index % 2 === 0 ? { size: 'large' } : {};
    const name = `w${String(index).padStart(4, '0')}`;
    await bench.ask('create', { body: widget(name, { spec }, index === 5 ? {} : { labels }) });
  }
  return bench;
}

test('pages of one version', async () => {
  await using bench = await filled(7);
  const first = await listed(bench, { query: 'limit=3' });
  assert.deepEqual([namesOf(first), first.remaining], [['w0000', 'w0001', 'w0002'], 4]);
  await bench.ask('delete', { name: 'w0004' });
  const second = await listed(bench, { query: { limit: '3', continue: first.continue ?? '' } });
  assert.deepEqual([namesOf(second), second.version], [['w0003', 'w0004', 'w0005'], first.version]);
  const last = await listed(bench, { query: { limit: '3', continue: second.continue ?? '' } });
  assert.deepEqual([namesOf(last), last.continue, last.remaining], [['w0006'], undefined, undefined]);
});

test('pages of selected objects are full', async () => {
  await using bench = await filled(20);
  const first = await listed(bench, { query: { limit: '4', labelSelector: 'third=1' } });
  assert.deepEqual([namesOf(first), first.remaining], [['w0001', 'w0004', 'w0007', 'w0010'], undefined]);
  const second = await listed(bench, {
    query: { limit: '4', labelSelector: 'third=1', continue: first.continue ?? '' },
  });
  assert.deepEqual([namesOf(second), second.continue], [['w0013', 'w0016', 'w0019'], undefined]);
});

const selections: readonly (readonly [Record<string, string>, readonly string[]])[] = [
  [{ labelSelector: 'index=i3' }, ['w0003']],
  [{ labelSelector: 'index in (i1,i2)' }, ['w0001', 'w0002']],
  [{ labelSelector: '!index' }, ['w0005']],
  [{ labelSelector: 'third!=0,third!=1' }, ['w0002', 'w0005']],
  [{ fieldSelector: 'metadata.name=w0002' }, ['w0002']],
  [{ fieldSelector: 'metadata.name=none' }, []],
  [{ fieldSelector: 'metadata.name!=w0000,spec.size=large' }, ['w0002', 'w0004']],
  [{ fieldSelector: 'metadata.namespace=other' }, []],
  [{ fieldSelector: 'spec.size=large', labelSelector: 'third=1' }, ['w0004']],
  [{ fieldSelector: 'metadata.name=w0002', labelSelector: 'third=1' }, []],
];

for (const [query, names] of selections) {
  test(`selected: ${JSON.stringify(query)}`, async () => {
    await using bench = await filled(6);
    const list = await listed(bench, { query });
    assert.deepEqual([namesOf(list), list.version], [names, bench.store.version]);
    assert.deepEqual(namesOf(await listed(bench, { query, namespace: '' })), names);
    assert.deepEqual(namesOf(await listed(bench, { query: { ...query, limit: '1' } })), names.slice(0, 1));
  });
}

test('versions: exactly one, and not older than one', async () => {
  await using bench = await filled(2);
  const { version } = bench.store;
  await bench.ask('create', { body: widget('z') });
  const of = (query: string) => listed(bench, { query: `resourceVersion=${version}${query}` });
  assert.deepEqual(namesOf(await of('&resourceVersionMatch=Exact')), ['w0000', 'w0001']);
  assert.equal((await of('&resourceVersionMatch=Exact')).version, version);
  assert.deepEqual(namesOf(await of('&limit=9')), ['w0000', 'w0001']);
  assert.equal((await of('')).items.length, 3);
  assert.equal((await of('&resourceVersionMatch=NotOlderThan&limit=9')).items.length, 3);
  assert.equal((await listed(bench, { query: 'resourceVersion=0' })).items.length, 3);
  const one = 'fieldSelector=metadata.name%3Dz&resourceVersionMatch=Exact';
  assert.equal((await of(`&${one}`)).items.length, 0);
});

const refused: readonly (readonly [string, number, string | RegExp])[] = [
  [
    'resourceVersionMatch=Exact',
    422,
    'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
  ],
  [
    'resourceVersion=0&resourceVersionMatch=Exact',
    422,
    /resourceVersionMatch "exact" is forbidden for resourceVersion "0"$/,
  ],
  [
    'resourceVersion=1&resourceVersionMatch=Most',
    422,
    /Unsupported value: "Most": supported values: "Exact", "NotOlderThan", ""$/,
  ],
  ['resourceVersion=1&resourceVersionMatch=Exact&continue=x', 422, /is forbidden when continue is provided$/],
  ['sendInitialEvents=true', 422, /sendInitialEvents is forbidden for list$/],
  [
    'resourceVersion=x',
    400,
    'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
  ],
  ['resourceVersion=1&continue=x', 400, 'specifying resource version is not allowed when using continue'],
  ['continue=x', 400, 'invalid continue token: continue key is not valid: the token is malformed'],
  ['limit=x', 400, 'strconv.ParseInt: parsing "x": invalid syntax'],
  ['fieldSelector=spec.nope%3Dx', 400, 'field label not supported: spec.nope'],
  ['fieldSelector=x', 400, "invalid selector: 'x'; can't understand 'x'"],
  ['labelSelector=a%3D%3D%3Db', 400, /^unable to parse requirement/],
  ['resourceVersion=99999', 504, /^Timeout: Too large resource version: 99999, current: [0-9]+$/],
  ['resourceVersion=99999&resourceVersionMatch=Exact', 504, /^Timeout: Too large resource version/],
];

for (const [query, code, message] of refused) {
  test(`a list is refused: ${query}`, async () => {
    await using bench = await Bench.open();
    const status = await bench.refusal('list', { query });
    assert.equal(status.code, code, status.message);
    if (typeof message === 'string') assert.equal(status.message, message);
    else assert.match(status.message, message);
  });
}

test('a future version says why', async () => {
  await using bench = await Bench.open();
  const { details } = await bench.refusal('get', { name: 'a', query: 'resourceVersion=99999' });
  assert.deepEqual(details, {
    retryAfterSeconds: 1,
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
  });
});

test('an old token gives a new one', async () => {
  await using bench = await filled(6);
  const { continue: token = '' } = await listed(bench, { query: 'limit=2' });
  const { version } = bench.store;
  await bench.ask('delete', { name: 'w0003' });
  await bench.store.compact();
  const status = await bench.refusal('list', { query: { limit: '2', continue: token } });
  assert.deepEqual([status.code, status.reason], [410, 'Expired']);
  const { continue: newest } = status.metadata as { continue: string };
  assert.deepEqual(namesOf(await listed(bench, { query: { limit: '9', continue: newest } })), [
    'w0002',
    'w0004',
    'w0005',
  ]);
  const exact = await bench.refusal('list', {
    query: `resourceVersion=${version}&resourceVersionMatch=Exact`,
  });
  assert.deepEqual(
    [exact.code, exact.message],
    [410, 'The resourceVersion for the provided list is too old.'],
  );
});

test('no object is parsed for a list without selectors, nor for one by labels', async () => {
  await using bench = await filled(4);
  const parse = JSON.parse;
  let parsed = 0;
  JSON.parse = (text: string, ...rest) => {
    if (text.length > 100) parsed++;
    return parse(text, ...rest) as unknown;
  };
  try {
    await listed(bench);
    await listed(bench, { query: 'labelSelector=third%3D1' });
  } finally {
    JSON.parse = parse;
  }
  assert.equal(parsed, 0);
});

test('more than is read at once comes whole, of one version', async () => {
  await using bench = await Bench.open();
  const text = { before: '{"metadata":{"resourceVersion":"', after: '"}}' };
  const { store } = bench;
  await Promise.all(
    Array.from({ length: 6_000 }, (_, index) =>
      store.create({
        resource: 'widgets.example.com',
        namespace: 'default',
        name: `w${index}`,
        uid: 'u',
        text,
      }),
    ),
  );
  const { version } = store;
  const list = listed(bench);
  await bench.ask('create', { body: widget('zz') });
  const { items, version: of } = await list;
  assert.deepEqual([items.length, of], [6_000, version]);
});

test('objects that others have stored in their own way are selected too', async () => {
  await using bench = await Bench.open();
  const text = {
    before: '{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"odd","resourceVersion":"',
    after: '","annotations":{},"labels":{"a":"b"}}}',
  };
  await bench.store.create({
    resource: 'widgets.example.com',
    namespace: 'default',
    name: 'odd',
    uid: 'u',
    text,
  });
  assert.deepEqual(namesOf(await listed(bench, { query: 'labelSelector=a%3Db' })), ['odd']);
});

test('get: one object, and its absence', async () => {
  await using bench = await Bench.open();
  const resource = bench.pod;
  const object = await bench.object('create', { resource, body: pod('a') });
  for (const query of [
    '',
    'resourceVersion=0',
    `resourceVersion=${String(meta(object)['resourceVersion'])}`,
  ]) {
    assert.deepEqual(await bench.object('get', { resource, name: 'a', query }), object);
  }
  const missing = await bench.refusal('get', { resource, name: 'b' });
  assert.deepEqual(
    [missing.code, missing.message, missing.details],
    [404, 'pods "b" not found', { name: 'b', kind: 'pods' }],
  );
  const odd = await bench.refusal('get', { resource, name: 'a/b' });
  assert.deepEqual([odd.code, odd.message], [400, `Name parameter invalid: "a/b": may not contain '/'`]);
});

test('verbs that a kind does not have', async () => {
  await using bench = await Bench.open();
  const status = await bench.refusal('delete', { subresource: 'status', name: 'a' });
  assert.deepEqual([status.code, status.reason], [405, 'MethodNotAllowed']);
});
