/**
 * From the request that creates an XdpProgram to what its objects say, with its image in the cache: `rampart standalone` as users
 * run it, with the API, the operator and the agent in one process.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import type { ResourceType } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { RegistryFixture } from '../../lib/oci/registry.fixture.ts';
import { type NodeObject, nodeTypes, type ParentObject } from '../../guards/bpf-programs/api.ts';
import { parentKind } from '../../guards/bpf-programs/parent-kind.fixture.ts';
import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { cable, ip, ownNetwork } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { BpfStandalone } from '../../test/bpf-programs/standalone.fixture.ts';
import { usageOf } from '../file-access/usage.ts';
import { median, type PartOptions, quantile, type Report } from '../report.ts';

const INTERFACES = 10;
const TIMES = 100;
const MANY = 100;
const MAX_ATTACH_MS = 300;
const MAX_HUNDRED_MS = 30_000;
const xdpProgram = parentKind('XdpProgram').type;

/** @throws {Error} without root, or without ip(8). */
export async function applied({ shrink, signal, progress }: PartOptions): Promise<Report> {
  await RegistryFixture.fetch();
  ownNetwork();
  for (let at = 0; at < INTERFACES; at++) cable(`in${at}`, `out${at}`);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => ip(...Array.from({ length: INTERFACES }, (_, at) => `link del in${at}`)));
  const registry = stack.use(await RegistryFixture.start());
  const image = bytecodeImage(countObject, { xdp_count: 'xdp' });
  const { reference } = await registry.push('team/count', 'v1', image);
  const machine = stack.use(new BpfStandalone());
  await machine.start('--bpf-insecure-registry', registry.host, '--cri-socket', '/nowhere.sock');
  const access = findClusterAccess({ path: machine.process.at('data/kubeconfig') });
  const client = stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
  const seen = stack.use(new Conditions(client, signal));
  const program = (name: string, at: number, priority: number): ParentObject =>
    ({
      metadata: { name },
      spec: {
        bpffunctionname: 'xdp_count',
        nodeselector: {},
        interfaceselector: { interfaces: [`in${at % INTERFACES}`] },
        priority,
        bytecode: { image: { url: reference } },
      },
    }) as unknown as ParentObject;
  const remove = async (names: readonly string[]): Promise<void> => {
    await Promise.all(names.map((name) => client.delete(xdpProgram, { name })));
    await until('all are gone', async () => (await client.list(nodeTypes.Cluster)).items.length === 0);
  };

  progress('applied: the image comes into the cache');
  await client.create(xdpProgram, program('first', 0, 1));
  await seen.loaded('first');
  await remove(['first']);

  const [toLoaded, toParent]: [number[], number[]] = [[], []];
  const times = Math.max(3, Math.ceil(TIMES / shrink));
  const before = usageOf(machine.process.pid).cpuMs;
  progress(`applied: one program, ${times} times`);
  for (let time = 0; time < times; time++) {
    signal.throwIfAborted();
    const name = `one-${time}`;
    const beganMs = performance.now();
    await client.create(xdpProgram, program(name, 0, 50));
    toLoaded.push((await seen.loaded(name)) - beganMs);
    toParent.push((await seen.success(name)) - beganMs);
    await client.delete(xdpProgram, { name });
    await until(`${name} is gone`, () => seen.isGone(name));
    // As if nothing had happened for a while.
    await sleep(20, undefined, { signal });
  }
  const cpuMs = (usageOf(machine.process.pid).cpuMs - before) / times;

  progress(`applied: ${MANY} programs at once`);
  const names = Array.from({ length: MANY }, (_, at) => `many-${at}`);
  const beganMs = performance.now();
  await Promise.all(names.map((name, at) => client.create(xdpProgram, program(name, at, at))));
  const ends = await Promise.all(names.map((name) => seen.loaded(name)));
  const successes = await Promise.all(names.map((name) => seen.success(name)));
  const manyMs = Math.max(...ends) - beganMs;
  const manySuccessMs = Math.max(...successes) - beganMs;
  await remove(names);

  const p99 = quantile(toLoaded, 0.99);
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  const row = (label: string, all: readonly number[]) => ({
    label,
    cells: { median: ms(median(all)), p99: ms(quantile(all, 0.99)) },
    values: { medianMs: median(all), p99Ms: quantile(all, 0.99) },
  });
  return {
    title: 'From the creation of an XdpProgram, its image in the cache',
    columns: ['median', 'p99'],
    rows: [
      row('its node object is Loaded', toLoaded),
      row('it is ReconcileSuccess itself', toParent),
      row(`${MANY} on ${INTERFACES} interfaces are Loaded`, [manyMs]),
      row(`${MANY} are ReconcileSuccess`, [manySuccessMs]),
    ],
    verdicts: [
      {
        target: `applied -> attached: at most ${MAX_ATTACH_MS} ms (p99)`,
        measured: ms(p99),
        met: p99 <= MAX_ATTACH_MS,
      },
      {
        target: `${MANY} programs Loaded within ${MAX_HUNDRED_MS / 1000} s`,
        measured: ms(manyMs),
        met: manyMs <= MAX_HUNDRED_MS,
      },
    ],
    notes: [
      `${times} times, one after the other; the ${MANY} once`,
      'Loaded is said after it is attached, so this is an upper bound, with the watch of the benchmark in it',
      `${ms(cpuMs)} of CPU time of the whole process for each, with its deletion and what the API stores`,
    ],
  };
}

/** The times at which objects reached the awaited condition, by a watch. */
class Conditions implements Disposable {
  readonly #stop = new AbortController();
  /** Keyed by kind: the condition and its time. */
  readonly #said = new Map<string, { readonly type: string; readonly atMs: number }>();
  readonly #listeners = new Set<() => void>();

  constructor(client: KubeClient, signal: AbortSignal) {
    const ends = AbortSignal.any([signal, this.#stop.signal]);
    void this.#follow(client, xdpProgram, ends, ({ metadata }) => metadata.name ?? '');
    void this.#follow(
      client,
      nodeTypes.Cluster,
      ends,
      ({ metadata }) => `node/${metadata.labels?.['bpfman.io/ownedByProgram'] ?? ''}`,
    );
  }

  /** Monotonic. */
  loaded(name: string): Promise<number> {
    return this.#until(`node/${name}`, 'Loaded');
  }

  success(name: string): Promise<number> {
    return this.#until(name, 'ReconcileSuccess');
  }

  isGone(name: string): boolean {
    return !this.#said.has(name) && !this.#said.has(`node/${name}`);
  }

  async #until(key: string, type: string): Promise<number> {
    for (;;) {
      const said = this.#said.get(key);
      if (said?.type === type) return said.atMs;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#listeners.add(resolve);
      await promise;
      this.#listeners.delete(resolve);
    }
  }

  async #follow<T extends NodeObject | ParentObject>(
    client: KubeClient,
    type: ResourceType<T>,
    signal: AbortSignal,
    keyOf: (object: T) => string,
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const { type: event, object } of client.watch(
          type,
          {},
          { signal, idleTimeoutMs: 3_600_000 },
        )) {
          const key = keyOf(object);
          if (event === 'DELETED') this.#said.delete(key);
          else {
            const said = object.status?.conditions?.[0]?.type ?? '';
            if (this.#said.get(key)?.type !== said)
              this.#said.set(key, { type: said, atMs: performance.now() });
          }
          for (const listener of this.#listeners) listener();
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }
}
