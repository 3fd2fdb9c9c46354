import assert from 'node:assert/strict';
import { test } from 'node:test';

import { commentObjection } from './comment-rules.ts';

test('a comment with a refused phrase is refused, with what to write instead', () => {
  const refused = {
    'Of all queues. One queue gets at most as much as is still free.': 'Of',
    'Also of pods of other nodes.': 'Also of',
    'By name.': 'By name',
    'Undefined where the file is none.': 'is none',
    'What the watch is told of.': 'told of',
    'With the number of before it is taken again.': 'of before',
    'Somebody has changed the table.': 'Somebody',
    'The next so many events.': 'so many',
    'The object as it is to be stored.': 'is to be',
    'Finishes what was begun, and lets go of all files.': 'lets go',
    'What stands in\n   * the metadata.': 'stands in',
    'Creates files that are not there.': 'are not there',
    'A link that leads nowhere.': 'leads nowhere',
    'The owner: the report goes with it.': 'goes with it',
    'The version, or undefined where it is not installed.': 'undefined where',
    'The error; 0 if that is not so.': 'that is not so',
    'An error says nothing of the files.': 'says nothing of',
    'Files and directories until now.': 'until now',
    'How often it is looked whether there is a pause.': 'looked whether',
    'A line of the configuration comes to nothing.': 'comes to nothing',
    'A namespace may be called so.': 'called so',
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
