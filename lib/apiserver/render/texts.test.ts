import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { configMaps } from '../discovery/kinds.fixture.ts';
import { negotiate } from './format.ts';
import { renderTexts, takesTexts } from './texts.ts';

test('the pieces are the list, however the texts are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1 })), (cuts) => {
      const objects = cuts.flat().map((name) => ({ metadata: { name } }));
      // As the store gives them: commas between all objects, also those of two parts.
      let isFirst = true;
      const parts = cuts.map((cut) => {
        const text = cut.map((name) => JSON.stringify({ metadata: { name } })).join(',');
        const part = Buffer.from(isFirst ? text : `,${text}`);
        isFirst = false;
        return part;
      });
      const pieces = [...renderTexts({ resource: configMaps, version: 7n, parts })];
      assert.equal(pieces.length, Math.max(1, parts.length));
      assert.deepEqual(JSON.parse(Buffer.concat(pieces).toString()), {
        kind: 'ConfigMapList',
        apiVersion: 'v1',
        metadata: { resourceVersion: '7' },
        items: objects,
      });
    }),
  );
});

test('only whole objects in plain JSON are sent in their stored form', () => {
  const takes = (accept: string, query = '') => {
    const format = negotiate(accept, 'list', new URLSearchParams(query));
    assert.ok(format);
    return takesTexts(format);
  };
  assert.equal(takes('application/json'), true);
  assert.equal(takes('application/vnd.kubernetes.protobuf,application/json'), true);
  assert.equal(takes('application/yaml'), false);
  assert.equal(takes('application/json', 'pretty=true'), false);
  assert.equal(takes('application/json;as=Table;v=v1;g=meta.k8s.io'), false);
  assert.equal(takes('application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'), false);
});
