/**
 * Measures what a reflector costs: `node --expose-gc lib/kube/cache/reflector-measure.fixture.ts [--objects 100000] [--page 500]
 * [--as bytes|strings|objects]`. Prints one JSON object; needs `--expose-gc`. `--page 0` lists all at once. `--as` keeps the objects in another
 * way beside, for comparison; see docs/decisions/0004-objects-as-bytes.md.
 *
 * The server is a process of its own.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { KubeClient } from '../client/client.ts';
import { startCollectionServer } from '../client/collection-server.fixture.ts';
import { anonymous } from '../access/credentials.ts';
import { IndexedCache } from './indexed-cache.ts';
import { objectKey, type Pod, pods } from '../object/object.ts';
import { largePod } from '../client/pods.fixture.ts';
import { runReflector } from './reflector.ts';

export interface ReflectorFigures {
  readonly objects: number;
  /** JSON of an object as stored. */
  readonly textBytesEach: number;
  /** V8's heap and memory outside of it, after a collection. */
  readonly heldBytesEach: number;
  /** All the process has more than before, at the end of the list; its young generation and buffers too. */
  readonly residentBytesEach: number;
  readonly syncMs: number;
  /** Longest pause of the event loop while the list came in, by perf_hooks' monitorEventLoopDelay at 1 ms. */
  readonly longestPauseMs: number;
  readonly p99PauseMs: number;
  /** CPU time of this thread within the pause: for the rest, it waited for a CPU. */
  readonly longestBusyMs: number;
  /** Longest of V8's collections. */
  readonly longestCollectionMs: number;
}

const ALL_NAMESPACES = { perSecond: 1e6, burst: 1e6 };

/** A server with `objects` pods in another process. */
async function serve(objects: number): Promise<Disposable & { readonly url: string }> {
  const child: ChildProcess = fork(import.meta.filename, ['--serve', String(objects)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.once('message', (url) => resolve(String(url)));
  child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
  return { url: await promise, [Symbol.dispose]: () => void child.kill() };
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

async function collectGarbage(): Promise<void> {
  const { gc } = globalThis as { gc?: () => void };
  for (let round = 0; round < 3; round++) {
    gc?.();
    await sleep(20);
  }
}

/** Runs one reflector over the pods, in a process that does nothing else. */
async function measureReflector(options: {
  readonly objects: number;
  readonly pageSize: number;
  readonly as?: 'bytes' | 'strings' | 'objects';
}): Promise<ReflectorFigures> {
  const { objects, pageSize, as = 'bytes' } = options;
  using server = await serve(objects);
  using client = new KubeClient(
    { server: new URL(server.url), credentials: anonymous, namespace: 'default' },
    ALL_NAMESPACES,
  );
  const index = (pod: Pod): string[] => [pod.spec?.nodeName ?? ''];
  const cache = new IndexedCache({ type: pods, indexes: { node: index } });
  const beside = new Map<string, unknown>();
  const stop = new AbortController();
  await collectGarbage();
  const before = process.memoryUsage();
  let longestCollectionMs = 0;
  const collections = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries())
      longestCollectionMs = Math.max(longestCollectionMs, duration);
  });
  collections.observe({ entryTypes: ['gc'] });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let longestBusyMs = 0;
  let ranMs = threadMs();
  const busy = setInterval(() => {
    longestBusyMs = Math.max(longestBusyMs, threadMs() - ranMs);
    ranMs = threadMs();
  }, 1);
  const beganMs = performance.now();
  const reflecting = runReflector({
    client,
    cache,
    pageSize,
    signal: stop.signal,
    ...(as !== 'bytes' && { transform: keepBeside(beside, as) }),
  });
  await cache.synced;
  const syncMs = performance.now() - beganMs;
  delay.disable();
  clearInterval(busy);
  const { rss } = process.memoryUsage();
  await sleep(20);
  collections.disconnect();
  await collectGarbage();
  const after = process.memoryUsage();
  stop.abort();
  await reflecting;
  const held = (memory: NodeJS.MemoryUsage): number => memory.heapUsed + memory.external;
  const { textBytes } = cache.stats();
  // Rounded, and read after the memory was measured: until here everything must stay referenced.
  const size = Math.max(cache.size, beside.size);
  return {
    objects: size,
    textBytesEach: Math.round(textBytes / size),
    heldBytesEach: Math.round((held(after) - held(before)) / size),
    residentBytesEach: Math.round((rss - before.rss) / size),
    syncMs: Math.round(syncMs),
    longestPauseMs: delay.max / 1e6,
    p99PauseMs: delay.percentile(99) / 1e6,
    longestBusyMs,
    longestCollectionMs,
  };
}

/** Keeps each object as a string or an object, and leaves only a name to the cache. */
function keepBeside(beside: Map<string, unknown>, as: 'strings' | 'objects'): (pod: Pod) => Pod {
  return (pod) => {
    delete pod.metadata.managedFields;
    beside.set(objectKey(pod), as === 'objects' ? pod : JSON.stringify(pod));
    const { name, namespace, resourceVersion } = pod.metadata;
    return { metadata: { name, namespace, resourceVersion }, spec: { nodeName: pod.spec?.nodeName } } as Pod;
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      objects: { type: 'string', default: '100000' },
      page: { type: 'string', default: '500' },
      as: { type: 'string', default: 'bytes' },
      serve: { type: 'string' },
    },
  });
  if (values.serve !== undefined) {
    const server = await startCollectionServer();
    for (let number = 0; number < Number(values.serve); number++) server.put(largePod(number));
    process.send?.(server.url);
    process.once('disconnect', () => process.exit(0));
    return;
  }
  const figures = await measureReflector({
    objects: Number(values.objects),
    pageSize: Number(values.page),
    as: values.as as 'bytes' | 'strings' | 'objects',
  });
  process.stdout.write(`${JSON.stringify({ as: values.as, page: Number(values.page), ...figures })}\n`);
}

if (import.meta.main) await main();
