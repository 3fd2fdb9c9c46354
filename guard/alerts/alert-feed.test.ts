import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { readFeed } from '../../lib/feed/feed-client.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { findingLine } from '../stream/finding.ts';
import { FindingCounts } from '../stream/finding-counts.ts';
import { openAlertFeed } from './alert-feed.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

const counts = new FindingCounts();

test('a socket that was asked for is served, or it is an error', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('alerts.sock');
  await using feed = await openAlertFeed(path, true, counts);
  feed.push('file-access', 'an alert');
  const lines: string[] = [];
  for await (const event of readFeed(path, { signal: patience() })) {
    if (event.kind === 'line') lines.push(event.line);
    if (event.kind === 'about') lines.push(JSON.stringify(event.about));
    if (event.kind === 'live') break;
  }
  assert.deepEqual(lines, ['{"hours":[]}', 'an alert']);
  await assert.rejects(openAlertFeed(path, true, counts), { code: 'RAMPART_IN_USE' });
});

test('an optional socket may fail: another agent has it, or its directory is missing', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('alerts.sock');
  await using _first = await openAlertFeed(path, false, counts);
  writeFileSync(directory.at('file'), '');
  for (const taken of [path, join(directory.at('file'), 'alerts.sock')]) {
    await using second = await openAlertFeed(taken, false, counts);
    second.push('file-access', 'an alert');
  }
});

test('many lines of one kind do not push out those of another, also of the same guard', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('alerts.sock');
  const lineOf = (kind: string): string =>
    findingLine({
      ...{ guard: 'g', kind, time: '2026-11-21T10:00:00Z', node: { name: '' }, severity: 'info' },
      ...{ object: null, policy: null, verdict: 'seen', message: 'It was seen.' },
    });
  await using feed = await openAlertFeed(path, true, counts);
  feed.push('g', lineOf('Rare'));
  for (let at = 0; at < 1001; at++) feed.push('g', lineOf('Often'));
  const kept: string[] = [];
  for await (const event of readFeed(path, { signal: patience() })) {
    if (event.kind === 'line') kept.push(event.line);
    if (event.kind === 'live') break;
  }
  assert.deepEqual([kept[0], kept.length], [lineOf('Rare'), 1001]);
});
