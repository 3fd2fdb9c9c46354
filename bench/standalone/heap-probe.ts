/**
 * `node heap-probe.ts PID`: reads the memory of another Node.js process by its inspector, in whose network namespace it runs. For each line on
 * stdin it collects the garbage of that process, and prints {@link ProbedMemory} as a line of JSON.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/** Bytes, after a collection. */
export interface ProbedMemory {
  readonly rss: number;
  readonly heapUsed: number;
  readonly heapTotal: number;
  readonly external: number;
  readonly arrayBuffers: number;
}

interface Target {
  readonly webSocketDebuggerUrl: string;
}

interface Evaluated {
  readonly id: number;
  readonly result?: { readonly result?: { readonly value?: ProbedMemory } };
}

/** Twice: what finalizers free is garbage of the second. The pages that V8 keeps for later are given back too. */
const expression = `{
  const major = { type: 'major', execution: 'sync', flavor: 'last-resort' };
  globalThis.gc(major);
  globalThis.gc(major);
  ({ ...process.memoryUsage() });
}`;

/** The inspector listens a moment after the signal, at Node.js's own port. */
async function findTarget(): Promise<string> {
  for (;;) {
    const answer = await fetch('http://127.0.0.1:9229/json/list').catch(() => undefined);
    const [target] = answer === undefined ? [] : ((await answer.json()) as Target[]);
    if (target !== undefined) return target.webSocketDebuggerUrl;
    await sleep(100);
  }
}

process.kill(Number(process.argv[2]), 'SIGUSR1');
const socket = new WebSocket(await findTarget());
await once(socket, 'open');
let id = 0;
for await (const _line of createInterface(process.stdin)) {
  const answered = once(socket, 'message') as Promise<[MessageEvent]>;
  const params = { expression, returnByValue: true };
  socket.send(JSON.stringify({ id: ++id, method: 'Runtime.evaluate', params }));
  const [{ data }] = await answered;
  const value = (JSON.parse(data as string) as Evaluated).result?.result?.value;
  if (value === undefined) throw new Error(`the inspector answers ${String(data)}`);
  console.log(JSON.stringify(value));
}
socket.close();
