/**
 * A large cluster of which one node has a few pods: `rampart agent` against `rampart apiserver`, in a network of their own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import { NftablesChanges } from '../../guards/network-policy/dataplane/nftables/nftables-changes.ts';
import { bareTableName, tableName } from '../../guards/network-policy/dataplane/nftables/names.ts';
import type { TableObject } from '../../guards/network-policy/dataplane/nftables/objects.ts';
import { removeSourceTable } from '../../guards/network-policy/node/sources/source-table.ts';
import { readTable } from '../../guards/network-policy/dataplane/nftables/table.ts';
import { NetworkNamespace } from '../../test/network-policy/namespaces.fixture.ts';
import { type Endpoint, LoadConnection, sendAll } from '../apiserver/load-connection.ts';
import { cpuMs, residentMiB, ServerProcess } from '../apiserver/server-process.ts';
import { endProcess } from '../end-process.ts';
import { agentCommand, isBuilt } from '../file-access/agent-process.ts';
import { allowedCpus, pinned } from '../pinned.ts';
import { median, type PartOptions, quantile, type Report, type ReportRow } from '../report.ts';
import { localNode, objects, pathOf, statusOf } from './cluster-scene.ts';

const CONNECTIONS = 16;
/** All forms in turn; the median of each figure counts: the API's first list takes longer, and a virtual machine pauses now and then. */
const ROUNDS = 3;
/** In each round, after {@link FIRST_EVENTS}. Six events are above the p99: one collection of the heap does not decide it. */
const EVENTS = 600;
/**
 * Before them, as many as the code needs to be compiled anew: V8 drops the bytecode of an agent at rest (`--bytecode-old-age=1`).
 * They are a measure of their own: among 600, six slow ones decide the p99.
 */
const FIRST_EVENTS = 20;
/** The agent gives memory back in the first pause of 5 s. */
const SETTLE_MS = 15_000;
const PATIENCE_MS = 60_000;
const END_WAIT_MS = 10_000;
/** Between two polls for messages of the kernel; a message is seen up to this much later. */
const LOOK_MS = 0.2;
const pause = new Int32Array(new SharedArrayBuffer(4));
const BARE_TABLE = 'bench-bare';
/** `eventRatio`: to the bare watch of the same round, because the p99 of a machine that pauses is that of its pauses. */
const max = { startMs: 3000, eventMs: 5, eventRatio: 1.5, mib: 60 } as const;

/** @throws {Error} when a process does not start, or refuses. */
export async function cluster(options: PartOptions): Promise<Report> {
  const { signal, progress } = options;
  const scene = objects(options.shrink);
  // The API and who writes to it are not on the node: they share one CPU, and the agent may have the others.
  const cpus = allowedCpus();
  using _bound = availableParallelism() > 1 ? pinned('0') : undefined;
  using network = new NetworkNamespace();
  network.ip('link set lo up');
  await using server = new ServerProcess();
  const { endpoint } = await network.run(() => server.start(signal));
  await using stack = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  // The API closes connections on which nothing comes for some seconds.
  const connect = async (): Promise<LoadConnection> =>
    stack.use(await network.runTick(() => LoadConnection.open(endpoint)));
  const settleMs = SETTLE_MS / options.shrink;
  const rounds = Math.ceil(ROUNDS / options.shrink);

  const forms: Form[] = [];
  for (const built of isBuilt ? [true, false] : [false]) {
    const label = built ? 'built (dist/)' : 'from the sources';
    progress(`cluster: ${label}: an agent in a cluster without objects`);
    const ofForm = join(directory, built ? 'built' : 'sources');
    mkdirSync(ofForm);
    const command = agentCommand(built, ofForm);
    const start = () => startAgent(network, ['taskset', '-c', cpus, command], server.kubeconfig, directory);
    await using agent = start();
    await sleep(settleMs, undefined, { signal });
    forms.push({ label, start, floorMiB: residentMiB(agent.pid) });
  }

  progress(`cluster: making ${scene.pods.length} pods and ${scene.policies.length} policies`);
  const connections: LoadConnection[] = [];
  for (let at = 0; at < CONNECTIONS; at++) connections.push(await connect());
  const send = async (requests: readonly (readonly [string, string, object])[]): Promise<void> => {
    await sendAll(
      connections,
      requests.length,
      (connection, at) => {
        const [method, path, body] = requests[at]!;
        return connection.request(method, path, JSON.stringify(body));
      },
      ({ code }) => {
        if (code >= 300) throw new Error(`the API answered ${code}`);
      },
    );
  };
  await send(scene.namespaces.map((one) => ['POST', '/api/v1/namespaces', one]));
  await send(scene.pods.map((one) => ['POST', pathOf(one), one]));
  await send(scene.pods.map((one) => statusOf(one, one.status ?? {})));
  await send(
    scene.policies.map((one) => [
      'POST',
      `/apis/networking.k8s.io/v1/namespaces/${one.metadata.namespace}/networkpolicies`,
      one,
    ]),
  );

  const changed = async (changes: NftablesChanges): Promise<void> => {
    const endMs = performance.now() + PATIENCE_MS;
    while (!changes.take()) {
      signal.throwIfAborted();
      if (performance.now() > endMs) throw new Error('the kernel got no rules in a minute');
      // Asleep: who looks all the time has one of the CPUs that the agent and the API need.
      Atomics.wait(pause, 0, 0, LOOK_MS);
      await turn();
    }
  };
  const [remote = scene.pods[0]!] = scene.pods.filter(({ spec }) => spec?.nodeName !== localNode);
  /** One pod ends and runs again, an even number of times, so that it runs in the end. */
  const eventsOf = async (changes: NftablesChanges): Promise<number[]> => {
    const connection = await connect();
    const times: number[] = [];
    const events = FIRST_EVENTS + 2 * Math.max(2, Math.ceil(EVENTS / 2 / options.shrink));
    for (let at = 0; at < events; at++) {
      const phase = at % 2 === 0 ? 'Succeeded' : 'Running';
      const [method, path, body] = statusOf(remote, { ...remote.status, phase });
      const text = connection.request(method, path, JSON.stringify(body));
      changes.take();
      await connection.send(text);
      const answeredMs = performance.now();
      await changed(changes);
      times.push(performance.now() - answeredMs);
      // Not within what comes together.
      await sleep(50, undefined, { signal });
    }
    return times;
  };
  const changes = stack.use(network.run(() => new NftablesChanges(bareTableName)));
  const enforced = async (agent: ReturnType<typeof startAgent>, beganMs: number): Promise<Start> => {
    // First it only has the kernel track connections.
    do await changed(changes);
    while (count(network).pods === 0);
    return { ms: performance.now() - beganMs, cpuMs: cpuMs(agent.pid) };
  };
  /** An agent leaves its rules. */
  const removeRules = (): void => {
    network.nft(`delete table ${tableName}`);
    using nft = network.run(() => new Nftables());
    removeSourceTable(nft);
    changes.take();
  };
  const measure = async ({ label, start, floorMiB }: Form): Promise<Round> => {
    progress(`cluster: ${label}: from the start of an agent to the rules in the kernel`);
    const beganMs = performance.now();
    await using agent = start();
    const started = await enforced(agent, beganMs);
    await sleep(settleMs, undefined, { signal });
    const mib = residentMiB(agent.pid) - floorMiB;
    const programmed = count(network);
    progress(`cluster: ${label}: pods of other nodes end and run again`);
    const cpuBeforeMs = cpuMs(agent.pid);
    const times = await eventsOf(changes);
    return {
      ...started,
      ...programmed,
      mib,
      times,
      eventCpuMs: (cpuMs(agent.pid) - cpuBeforeMs) / times.length,
    };
  };
  const measureBare = async (): Promise<number[]> => {
    progress('cluster: the least that an event can take: the same events to a bare watch');
    await using _ = startBareWatch(network, cpus, endpoint);
    using bareChanges = network.run(() => new NftablesChanges(BARE_TABLE));
    await changed(bareChanges);
    await sleep(settleMs, undefined, { signal });
    return await eventsOf(bareChanges);
  };
  const bareRounds: number[][] = [];
  const roundsOf = new Map<Form, Round[]>(forms.map((form) => [form, []]));
  for (let round = 0; round < rounds; round++) {
    bareRounds.push(await measureBare());
    network.nft(`delete table inet ${BARE_TABLE}`);
    for (const [form, ofForm] of roundsOf) {
      ofForm.push(await measure(form));
      removeRules();
    }
  }
  const measured = [...roundsOf].map(([form, ofForm]) => summaryOf(form, ofForm, bareRounds));
  const bare = eventsIn(bareRounds);
  return {
    title: `A cluster of ${scene.pods.length} pods and ${scene.policies.length} policies; ${scene.local} of the pods are of this node`,
    columns: [
      'start ms',
      'its CPU',
      'event p50 ms',
      'p99 ms',
      'to bare',
      'first ms',
      'its CPU ms',
      'MiB over floor',
      'pods',
      'policies',
    ],
    rows: [
      ...measured.map((one) => rowOf(one, scene)),
      {
        label: 'a bare watch',
        cells: {
          'event p50 ms': bare.eventMs.toFixed(1),
          'p99 ms': bare.eventP99Ms.toFixed(1),
          'first ms': bare.firstMs.toFixed(1),
        },
        values: bare,
      },
    ],
    verdicts: measured.flatMap((one) => verdictsOf(one, scene)),
    notes: [
      `Start: from the start of the process to the notice of the kernel, the median of ${rounds}.`,
      `Event: from the answer to who wrote the pod; p50 and p99 of ${rounds} rounds in turn, the median of each.`,
      'To bare: the p99 of a round to that of the bare watch just before it; the median.',
      `First: the slowest of the ${FIRST_EVENTS} events after a rest, which are not among the others; the median of ${rounds}.`,
      'CPU: that of the agent alone, all its threads.',
      'Floor: an agent with this guard and an API without objects. Policies: with a pod of this node, both directions of one as one.',
      'A bare watch: node:https, JSON.parse, and libnftables with one element of one set; no policies, no pods, no check.',
      ...(isBuilt ? [] : ['dist/ is not there: `npm run build` first measures what images run.']),
    ],
  };
}

interface Form {
  readonly label: string;
  readonly start: () => ReturnType<typeof startAgent>;
  readonly floorMiB: number;
}

interface Start {
  readonly ms: number;
  readonly cpuMs: number;
}

interface Programmed {
  readonly pods: number;
  readonly policies: number;
}

interface Round extends Start, Programmed {
  /** Milliseconds of each event. */
  readonly times: readonly number[];
  readonly eventCpuMs: number;
  readonly mib: number;
}

interface Measured extends Programmed {
  readonly label: string;
  readonly startMs: number;
  readonly startCpuMs: number;
  readonly eventMs: number;
  readonly eventP99Ms: number;
  /** The p99 to that of the bare watch. */
  readonly eventRatio: number;
  readonly firstMs: number;
  readonly eventCpuMs: number;
  readonly mib: number;
  readonly floorMiB: number;
}

function eventsIn(
  rounds: readonly (readonly number[])[],
): Pick<Measured, 'eventMs' | 'eventP99Ms' | 'firstMs'> {
  return {
    eventMs: median(rounds.map((times) => median(times.slice(FIRST_EVENTS)))),
    eventP99Ms: median(rounds.map((times) => p99Of(times))),
    firstMs: median(rounds.map((times) => Math.max(...times.slice(0, FIRST_EVENTS)))),
  };
}

function p99Of(times: readonly number[]): number {
  return quantile(times.slice(FIRST_EVENTS), 0.99);
}

function summaryOf(
  { label, floorMiB }: Form,
  rounds: readonly Round[],
  bareRounds: readonly (readonly number[])[],
): Measured {
  const { pods, policies } = rounds.at(-1)!;
  const middle = (of: (round: Round) => number): number => median(rounds.map((round) => of(round)));
  return {
    label,
    floorMiB,
    startMs: middle(({ ms }) => ms),
    startCpuMs: middle((round) => round.cpuMs),
    ...eventsIn(rounds.map(({ times }) => times)),
    eventRatio: median(rounds.map(({ times }, at) => p99Of(times) / p99Of(bareRounds[at]!))),
    eventCpuMs: middle(({ eventCpuMs }) => eventCpuMs),
    mib: middle(({ mib }) => mib),
    pods,
    policies,
  };
}

type Needed = Pick<ReturnType<typeof objects>, 'local' | 'needed'>;

function rowOf({ label, ...one }: Measured, { local, needed }: Needed): ReportRow {
  return {
    label,
    cells: {
      'start ms': one.startMs.toFixed(0),
      'its CPU': one.startCpuMs.toFixed(0),
      'event p50 ms': one.eventMs.toFixed(1),
      'p99 ms': one.eventP99Ms.toFixed(1),
      'to bare': one.eventRatio.toFixed(2),
      'first ms': one.firstMs.toFixed(1),
      'its CPU ms': one.eventCpuMs.toFixed(1),
      'MiB over floor': `${one.mib.toFixed(1)} of ${one.floorMiB.toFixed(1)}`,
      pods: String(one.pods),
      policies: String(one.policies),
    },
    values: { ...one, localPods: local, needed },
  };
}

function verdictsOf(
  { label, eventP99Ms, eventRatio, startMs, mib, pods, policies }: Measured,
  { local, needed }: Needed,
) {
  return [
    {
      target: `${label}: only what is needed is programmed: ${local} pods, ${needed} policies`,
      measured: `${pods}, ${policies}`,
      met: pods === local && policies === needed,
    },
    {
      target: `${label}: start to enforced at most ${max.startMs} ms`,
      measured: `${startMs.toFixed(0)} ms`,
      met: startMs <= max.startMs,
    },
    {
      target: `${label}: a remote pod's event, p99 at most ${max.eventMs} ms`,
      measured: `${eventP99Ms.toFixed(1)} ms`,
      met: eventP99Ms <= max.eventMs,
    },
    {
      target: `${label}: its p99 at most ${max.eventRatio} times that of a bare watch`,
      measured: eventRatio.toFixed(2),
      met: eventRatio <= max.eventRatio,
    },
    {
      target: `${label}: at most ${max.mib} MiB over the floor`,
      measured: `${mib.toFixed(1)} MiB`,
      met: mib <= max.mib,
    },
  ];
}

/** Dispose it to stop the agent. */
function startAgent(
  network: NetworkNamespace,
  [program, ...before]: readonly [string, ...string[]],
  kubeconfig: string,
  directory: string,
): AsyncDisposable & { readonly pid: number } {
  const args = ['agent', '--guards', 'network-policy', '--node-name', localNode, '--kubeconfig', kubeconfig];
  const child: ChildProcess = network.run(() =>
    spawn(
      program,
      [...before, ...args, '--metrics', '0', '--alerts-socket', join(directory, 'alerts.sock')],
      {
        stdio: 'ignore',
      },
    ),
  );
  return { pid: child.pid ?? 0, [Symbol.asyncDispose]: () => endProcess(child, END_WAIT_MS) };
}

/** Dispose it to stop the process. */
function startBareWatch(network: NetworkNamespace, cpus: string, endpoint: Endpoint): AsyncDisposable {
  const program = join(import.meta.dirname, 'bare-watch.ts');
  const child = network.run(() =>
    spawn('taskset', ['-c', cpus, process.execPath, program, JSON.stringify(endpoint), BARE_TABLE], {
      stdio: 'inherit',
    }),
  );
  return { [Symbol.asyncDispose]: () => endProcess(child, END_WAIT_MS) };
}

/** The content of the kernel: pods with a limit, policies with a chain. */
function count(network: NetworkNamespace): Programmed {
  using nft = network.run(() => new Nftables());
  const table = [...(readTable(nft)?.values() ?? [])];
  const named = (of: TableObject['kind'], prefix: RegExp): number =>
    new Set(
      table.flatMap(({ kind, name }) => (kind === of && prefix.test(name) ? name.replace(prefix, '') : [])),
    ).size;
  return { pods: named('limit', /^pod-(?:in|out)-/), policies: named('chain', /^policy-(?:in|out)-/) };
}
