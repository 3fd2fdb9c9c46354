import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { metadataText } from './metadata-text.ts';

const stored = (before: string, after: string) => ({
  ...{ resource: 'things', namespace: '', name: 'a', uid: 'u', resourceVersion: 7n },
  text: `${before}7${after}`,
  versionAt: before.length,
});

const part = fc.string({ unit: fc.constantFrom('"', '\\', '{', '}', 'a', ':', ',') });

test('the metadata read from a text equal those of the parsed object', () => {
  fc.assert(
    fc.property(fc.dictionary(part, part), fc.dictionary(part, part), (labels, spec) => {
      const metadata = { resourceVersion: '7', labels, others: [labels, {}] };
      const text = JSON.stringify({ apiVersion: 'v1', kind: 'Thing', metadata, spec });
      const versionAt = text.indexOf('7');
      const after = text.slice(versionAt + 1);
      assert.equal(metadataText(stored(text.slice(0, versionAt), after)), JSON.stringify(metadata));
    }),
  );
});

test('no metadata are read where a text begins them otherwise, or ends too soon', () => {
  assert.equal(metadataText(stored('{"metadata":{"name":"a","resourceVersion":"', '"}}')), undefined);
  assert.equal(metadataText(stored('', '"}}')), undefined);
  assert.equal(metadataText(stored('{"metadata":{"resourceVersion":"', '","name":"a')), undefined);
  assert.equal(metadataText(stored('{"metadata":{"resourceVersion":"', '')), undefined);
});
