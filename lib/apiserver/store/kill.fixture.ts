/**
 * The process that `kill.test.ts` kills: `node kill.fixture.ts thread|inline PATH DONE...`. It runs one writer for each DONE, which
 * is how many of that writer's operations are known to be acknowledged. A writer repeats: create its object, change
 * it twice, delete it. Each line on stdout is written at once:
 *
 * - `open VERSION`
 * - `found WRITER DONE` how many operations the database shows, or `found WRITER ?` and what is there
 * - `done WRITER DONE VERSION` an acknowledged operation
 */
import { writeSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

import { openStore, type Store } from './store.ts';
import { key, markOf, text } from './store.fixture.ts';

const [how, path = '', ...counts] = process.argv.slice(2);
// Long enough for a checkpoint of the log every few kills.
const filler = 'x'.repeat(20_000);

function say(...words: readonly unknown[]): void {
  let bytes = Buffer.from(`${words.join(' ')}\n`);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(1, bytes));
    } catch (error) {
      // stdout is a socket, and its reader may be behind.
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
    }
  }
}

/** The operations done, as the object shows; what was acknowledged or the one operation after it. */
function doneOf(store: Store, name: string, acknowledged: number): number | undefined {
  const found = store.get('pods', 'default', name);
  const shows = (done: number): boolean =>
    done % 4 === 0 ? found === undefined : found !== undefined && markOf(found.text) === `${done}${filler}`;
  return [acknowledged, acknowledged + 1].find(shows);
}

async function operate(store: Store, name: string, operation: number): Promise<bigint> {
  const mark = text(`${operation}${filler}`);
  if (operation % 4 === 1) {
    const created = await store.create({ ...key(name), uid: `${name}-${operation}`, text: mark });
    return created.resourceVersion;
  }
  const expectedVersion = store.get('pods', 'default', name)?.resourceVersion;
  if (expectedVersion === undefined) throw new Error(`${name} is not there before operation ${operation}`);
  const written =
    operation % 4 === 0
      ? await store.delete({ ...key(name), expectedVersion })
      : await store.update({ ...key(name), expectedVersion, text: mark });
  return written.resourceVersion;
}

async function write(store: Store, writer: number, acknowledged: number): Promise<never> {
  const name = `w${writer}`;
  let done = doneOf(store, name, acknowledged);
  say('found', writer, done ?? `? ${JSON.stringify(store.get('pods', 'default', name)?.text.slice(0, 80))}`);
  done ??= acknowledged;
  while (true) {
    const version = await operate(store, name, done + 1);
    done++;
    say('done', writer, done, version);
    // Otherwise all writers would do the same in the same transaction.
    for (let turn = 0; turn < writer % 4; turn++) await setImmediate();
  }
}

const store = openStore({ path, historyLimit: 300, writer: how === 'inline' ? 'inline' : 'thread' });
say('open', store.version);
await Promise.all(counts.map((count, writer) => write(store, writer, Number(count))));
// Only without writers.
await store[Symbol.asyncDispose]();
