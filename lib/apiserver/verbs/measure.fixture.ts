/**
 * Measures the cost of the verbs, in microseconds of this process' CPU: `node
 * lib/apiserver/verbs/measure.fixture.ts`. In memory, so that no disk takes part; the store's own part is
 * also measured alone.
 */
import { storedText } from '../resources/item.ts';
import type { JsonObject } from '../../json/json.ts';
import { openStore } from '../store/store.ts';
import { Bench, pod } from './verbs.fixture.ts';

/** A pod of 2 kB, as a Deployment makes them. */
export function largePod(name: string, index: number): JsonObject {
  const container = (title: string): JsonObject => ({
    name: title,
    image: `registry.example.com/team/${title}:v1.2.3`,
    args: ['--listen', ':8080', '--log-level', 'info'],
    env: ['HOME', 'PATH', 'LANG', 'TZ', 'MODE'].map((key) => ({ name: key, value: `value-of-${key}` })),
    ports: [{ name: 'http', containerPort: 8080 }],
    resources: { limits: { cpu: '500m', memory: '256Mi' }, requests: { cpu: '100m', memory: '128Mi' } },
    volumeMounts: [{ name: 'data', mountPath: '/var/lib/data' }],
  });
  return pod(
    name,
    {
      containers: [container('main'), container('sidecar')],
      nodeName: 'node-1',
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      serviceAccountName: 'default',
      tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' }],
      volumes: [{ name: 'data', emptyDir: {} }],
    },
    {
      labels: { app: 'web', tier: 'front', 'pod-template-hash': '5d4f8c7b9', shard: `s${index % 10}` },
      annotations: { 'example.com/checksum': 'a'.repeat(64) },
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-5d4f8c7b9', uid: 'u-1', controller: true },
      ],
    },
  );
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);

async function measured(what: string, count: number, work: (index: number) => unknown): Promise<void> {
  const batch = 100;
  const run = async (from: number, to: number): Promise<void> => {
    for (let at = from; at < to; at += batch) {
      await Promise.all(Array.from({ length: Math.min(batch, to - at) }, (_, index) => work(at + index)));
    }
  };
  await run(0, count);
  const before = process.cpuUsage();
  const started = performance.now();
  await run(count, 2 * count);
  const { user, system } = process.cpuUsage(before);
  const wall = ((performance.now() - started) * 1000) / count;
  print(
    `${what.padEnd(34)} ${((user + system) / count).toFixed(1).padStart(8)} µs CPU ${wall.toFixed(1).padStart(8)} µs`,
  );
}

async function main(): Promise<void> {
  const count = Number(process.argv[2] ?? 10_000);
  const bodies = Array.from({ length: 2 * count }, (_, index) =>
    JSON.stringify(largePod(`pod-${index}`, index)),
  );
  print(`a pod of ${bodies[0]?.length} bytes`);
  await measured('JSON.parse of the body', count, (index) => JSON.parse(bodies[index] ?? ''));
  {
    await using store = openStore({ path: ':memory:' });
    const bench = await Bench.open();
    const object = await bench.object('create', { resource: bench.pod, body: largePod('a', 0) });
    const text = storedText(bench.pod, object);
    await bench[Symbol.asyncDispose]();
    print(`stored as ${text.before.length + text.after.length} bytes`);
    await measured('the store alone: create', count, (index) =>
      store.create({ resource: 'pods', namespace: 'default', name: `pod-${index}`, uid: 'u', text }),
    );
  }
  await using bench = await Bench.open();
  const { verbs, pod: resource, store } = bench;
  const base = bench.request('create', { resource });
  const body = (index: number) => ({ value: JSON.parse(bodies[index] ?? '') as unknown, duplicates: [] });
  await measured('create (with the store and parse)', count, (index) =>
    verbs.handle({ ...base, body: body(index), warnings: [] }),
  );
  await measured('get', count, (index) => verbs.handle({ ...base, verb: 'get', name: `pod-${index}` }));
  await measured('update (PUT)', count, (index) => {
    const name = `pod-${index}`;
    const { text } = store.get('pods', 'default', name) ?? { text: '{}' };
    const value = JSON.parse(text.replace('busybox', 'debian').replace('v1.2.3', 'v1.2.4')) as unknown;
    return verbs.handle({ ...base, verb: 'update', name, body: { value, duplicates: [] }, warnings: [] });
  });
  await measured('merge patch of the status', count, (index) =>
    verbs.handle({
      ...base,
      verb: 'patch',
      subresource: resource.subresources.get('status'),
      name: `pod-${index}`,
      patchType: 'application/merge-patch+json',
      body: { value: { status: { phase: 'Running', podIP: `10.0.0.${index % 250}` } }, duplicates: [] },
      warnings: [],
    }),
  );
  const lists = {
    'list, per item': '',
    'list by label (1 of 10), per item': 'labelSelector=shard%3Ds3',
    'list by field, per item': 'fieldSelector=status.phase%3DPending',
  };
  for (const [what, query] of Object.entries(lists)) {
    const started = performance.now();
    let items = 0;
    for (let round = 0; round < 5; round++) {
      const answer = await verbs.handle({ ...base, verb: 'list', query: new URLSearchParams(query) });
      items = answer.kind === 'list' ? answer.list.items.length : 0;
    }
    const each = ((performance.now() - started) * 1000) / 5 / (2 * count);
    print(`${what.padEnd(34)} ${each.toFixed(2).padStart(8)} µs (${items} of ${2 * count} items)`);
  }
  await watching(bench, base, count);
}

async function watching(bench: Bench, base: ReturnType<Bench['request']>, count: number): Promise<void> {
  const { verbs, store } = bench;
  const stop = new AbortController();
  const watchers = 100;
  let events = 0;
  const readers = Array.from({ length: watchers }, async (_, index) => {
    const query = new URLSearchParams({
      resourceVersion: String(store.version),
      ...(index % 2 === 0 ? {} : { labelSelector: `shard=s${index % 10}` }),
    });
    const answer = await verbs.handle({ ...base, verb: 'watch', query, signal: stop.signal });
    if (answer.kind !== 'watch') return;
    for await (const batch of answer.watch.events) events += batch.length;
  });
  const writes = 2_000;
  await new Promise((resolve) => setTimeout(resolve, 20));
  const alone = process.cpuUsage();
  for (let index = 0; index < writes; index++) {
    const name = `pod-${index % count}`;
    await verbs.handle({
      ...base,
      verb: 'patch',
      name,
      patchType: 'application/merge-patch+json',
      body: { value: { metadata: { annotations: { round: String(index) } } }, duplicates: [] },
      warnings: [],
    });
  }
  const { user, system } = process.cpuUsage(alone);
  stop.abort();
  await Promise.all(readers);
  print(
    `${watchers} watches, half by label: ${((user + system) / writes).toFixed(1)} µs CPU a write, ${events} events, ` +
      `${((user + system) / events).toFixed(2)} µs an event`,
  );
}

if (import.meta.main) await main();
