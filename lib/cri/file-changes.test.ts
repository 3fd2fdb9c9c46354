import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { FileChanges } from './file-changes.ts';

const FOREVER_MS = 2 ** 30;

test('a change wakes, also one that was before the waiting; the signal ends it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-changes-'));
  try {
    using changes = new FileChanges(directory);
    const abort = new AbortController();
    const waiting = changes.next(FOREVER_MS, abort.signal);
    appendFileSync(join(directory, 'a'), 'x');
    await waiting;
    await new Promise((resolve) => setTimeout(resolve, 50));
    appendFileSync(join(directory, 'a'), 'x');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await changes.next(FOREVER_MS, abort.signal);
    await changes.next(1, abort.signal);
    setImmediate(() => abort.abort());
    await assert.rejects(changes.next(FOREVER_MS, abort.signal));
    await assert.rejects(changes.next(FOREVER_MS, abort.signal));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test('a file that cannot be watched is polled', async () => {
  using changes = new FileChanges('/nonexistent/directory');
  const { signal } = new AbortController();
  await changes.next(FOREVER_MS, signal);
  await changes.next(FOREVER_MS, signal);
});
