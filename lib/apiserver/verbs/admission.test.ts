import assert from 'node:assert/strict';
import { test } from 'node:test';

import { apiErrors } from '../resources/api-error.ts';
import type { Admission } from './admission.ts';
import { Bench, meta, widget } from './verbs.fixture.ts';

test('an admission is asked before each write, and can refuse it', async () => {
  const asked: string[] = [];
  const readOnly: Admission = {
    admit: ({ operation, resource, subresource, name }, object, old) => {
      const parts = [object, old].map((one) => (one === undefined ? '-' : String(meta(one)['name'])));
      asked.push([operation, resource.plural, subresource?.name ?? '', name, ...parts].join(' '));
      if (name === 'mirrored') throw apiErrors.forbidden(resource, name, 'it is a copy');
    },
    validate: async (request) => {
      await Promise.resolve();
      if (request.name === 'late') throw apiErrors.forbidden(request.resource, request.name, 'it is late');
    },
  };
  await using bench = await Bench.open({ admission: [readOnly] });
  asked.length = 0;
  await bench.ask('create', { body: widget('a') });
  const patchType = 'application/merge-patch+json';
  await bench.ask('patch', { name: 'a', patchType, body: { spec: { replicas: 1 } } });
  await bench.ask('patch', { name: 'a', subresource: 'status', patchType, body: { status: { phase: 'x' } } });
  await bench.ask('delete', { name: 'a' });
  assert.deepEqual(asked, [
    'CREATE widgets  a a -',
    'UPDATE widgets  a a a',
    'UPDATE widgets status a a a',
    'DELETE widgets  a - a',
  ]);
  for (const name of ['mirrored', 'late']) {
    const { version } = bench.store;
    assert.equal((await bench.refusal('create', { body: widget(name) })).code, 403);
    assert.equal(bench.store.version, version);
  }
});

test('an unexpected error of an admission is reported as an internal error', async () => {
  const broken: Admission = {
    admit: ({ resource }) => {
      if (resource.plural === 'widgets') throw new TypeError('a fault');
    },
  };
  await using bench = await Bench.open({ admission: [broken] });
  const { code, message } = await bench.refusal('create', { body: widget('a') });
  assert.deepEqual([code, message], [500, 'Internal error occurred: a fault']);
});
