import assert from 'node:assert/strict';
import { test } from 'node:test';

import { commentObjection } from './comment-rules.ts';

test('a comment with one of the nine phrases is refused, with what to write instead', () => {
  const refused = {
    'Of all queues. One queue gets at most as much as is still free.': 'Of',
    'Undefined where the file is none.': 'is none',
    'What the watch is told of.': 'told of',
    'With the number of before it is taken again.': 'of before',
    'Somebody has changed the table.': 'Somebody',
    'The next so many events.': 'so many',
    'The object as it is to be stored.': 'is to be',
    'Finishes what was begun, and lets go of all files.': 'lets go of',
    'What stands in\n   * the metadata.': 'stands in',
  };
  for (const [comment, phrase] of Object.entries(refused)) {
    const message = commentObjection(`* ${comment}`) ?? '';
    assert.ok(message.startsWith(`"${phrase}" in a comment: `), `${comment}: ${message}`);
  }
});

test('plain words are accepted, and so are these words in another sense', () => {
  for (const comment of [
    'Limit of all queues. One queue gets at most as much as is still free.',
    'So long as the pod runs, the lease is renewed.',
    'A copy of beforeEach.',
    'Profiles stand for what is meant.',
  ]) {
    assert.equal(commentObjection(comment), undefined, comment);
  }
});
