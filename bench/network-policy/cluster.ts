/**
 * A large cluster of which one node has a few pods: `rampart agent` against `rampart apiserver`, in a network of their own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

import { Nftables } from '../../shared/netlink/nftables.ts';
import { NftablesChanges } from '../../shared/netlink/nftables-changes.ts';
import type { PodObject, PolicyObject } from '../../systems/network-policy/engine/objects.ts';
import { tableName } from '../../systems/network-policy/node/nftables/names.ts';
import { readTable } from '../../systems/network-policy/node/nftables/table.ts';
import { NetworkNamespace } from '../../test/network-policy/namespaces.fixture.ts';
import { LoadConnection, sendAll } from '../apiserver/load-connection.ts';
import { cpuMs, residentMiB, ServerProcess } from '../apiserver/server-process.ts';
import { endProcess } from '../end-process.ts';
import { median, type PartOptions, quantile, type Report } from '../report.ts';
import { namespaceOf, podOf, policyOf } from './engine.ts';

const PODS = 10_000;
const LOCAL_PODS = 50;
const POLICIES = 5000;
const PODS_PER_NAMESPACE = 50;
const CONNECTIONS = 16;
const EVENTS = 200;
/** The agent gives memory back in the first pause of 5 s. */
const SETTLE_MS = 15_000;
const PATIENCE_MS = 60_000;
const END_WAIT_MS = 10_000;
/** Between two looks whether the kernel has told something; so much later than that it may be seen. */
const LOOK_MS = 0.2;
const pause = new Int32Array(new SharedArrayBuffer(4));
const most = { startMs: 3000, eventMs: 5, mib: 60 } as const;

/** @throws {Error} when a process does not start, or refuses. */
export async function cluster(options: PartOptions): Promise<Report> {
  const { signal, progress } = options;
  const scene = objects(options.shrink);
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

  progress('cluster: an agent in a cluster without objects');
  let floorMiB: number;
  {
    await using agent = startAgent(network, server.kubeconfig, directory);
    await sleep(settleMs, undefined, { signal });
    floorMiB = residentMiB(agent.pid);
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

  progress('cluster: from the start of an agent to the rules in the kernel');
  const changes = stack.use(network.run(() => new NftablesChanges(tableName.split(' ')[1] ?? '')));
  const changed = async (): Promise<void> => {
    const endMs = performance.now() + PATIENCE_MS;
    while (!changes.take()) {
      signal.throwIfAborted();
      if (performance.now() > endMs) throw new Error('the kernel got no rules in a minute');
      // Asleep: who looks all the time has one of the CPUs that the agent and the API need.
      Atomics.wait(pause, 0, 0, LOOK_MS);
      await turn();
    }
  };
  const beganMs = performance.now();
  await using agent = startAgent(network, server.kubeconfig, directory);
  await changed();
  const [startMs, startCpuMs] = [performance.now() - beganMs, cpuMs(agent.pid)];
  await sleep(settleMs, undefined, { signal });
  const mib = residentMiB(agent.pid) - floorMiB;
  const programmed = count(network);

  progress('cluster: pods of other nodes end and run again');
  const connection = await connect();
  const times: number[] = [];
  const cpuBeforeMs = cpuMs(agent.pid);
  const [remote = scene.pods[0]!] = scene.pods.filter(({ spec }) => spec?.nodeName !== localNode);
  for (let at = 0; at < Math.max(4, Math.ceil(EVENTS / options.shrink)); at++) {
    const phase = at % 2 === 0 ? 'Succeeded' : 'Running';
    const [method, path, body] = statusOf(remote, { ...remote.status, phase });
    const text = connection.request(method, path, JSON.stringify(body));
    changes.take();
    await connection.send(text);
    const answeredMs = performance.now();
    await changed();
    times.push(performance.now() - answeredMs);
    // Not within what comes together.
    await sleep(50, undefined, { signal });
  }
  const eventMs = median(times);
  const eventCpuMs = (cpuMs(agent.pid) - cpuBeforeMs) / times.length;
  const isExact = programmed.pods === scene.local && programmed.policies === scene.needed;
  return {
    title: `A cluster of ${scene.pods.length} pods and ${scene.policies.length} policies; ${scene.local} of the pods are of this node`,
    columns: [
      'start ms',
      'its CPU',
      'event p50 ms',
      'p99 ms',
      'its CPU ms',
      'MiB over floor',
      'pods',
      'policies',
    ],
    rows: [
      {
        label: 'nftables',
        cells: {
          'start ms': startMs.toFixed(0),
          'its CPU': startCpuMs.toFixed(0),
          'event p50 ms': eventMs.toFixed(1),
          'p99 ms': quantile(times, 0.99).toFixed(1),
          'its CPU ms': eventCpuMs.toFixed(1),
          'MiB over floor': `${mib.toFixed(1)} of ${floorMiB.toFixed(1)}`,
          pods: String(programmed.pods),
          policies: String(programmed.policies),
        },
        values: {
          startMs,
          eventMs,
          eventP99Ms: quantile(times, 0.99),
          mib,
          floorMiB,
          ...programmed,
          localPods: scene.local,
          needed: scene.needed,
        },
      },
    ],
    verdicts: [
      {
        target: `only what is needed is programmed: ${scene.local} pods, ${scene.needed} policies`,
        measured: `${programmed.pods}, ${programmed.policies}`,
        met: isExact,
      },
      {
        target: `start to enforced at most ${most.startMs} ms`,
        measured: `${startMs.toFixed(0)} ms`,
        met: startMs <= most.startMs,
      },
      {
        target: `a remote pod's event at most ${most.eventMs} ms`,
        measured: `${eventMs.toFixed(1)} ms`,
        met: eventMs <= most.eventMs,
      },
      {
        target: `at most ${most.mib} MiB over the floor`,
        measured: `${mib.toFixed(1)} MiB`,
        met: mib <= most.mib,
      },
    ],
    notes: [
      'Start: from the start of the process, from the sources, to the notice of the kernel. Event: from the answer to who wrote the pod.',
      'CPU: that of the agent alone, all its threads.',
      'Floor: an agent with this guard and an API without objects. Policies: with a pod of this node, both directions of one as one.',
    ],
  };
}

const localNode = 'node-0';

export function objects(shrink: number) {
  const pods = Math.ceil(PODS / shrink);
  const nodes = Math.max(1, Math.ceil(pods / LOCAL_PODS));
  const namespaces = Math.ceil(pods / PODS_PER_NAMESPACE);
  const all = Array.from({ length: pods }, (_, at): PodObject => {
    // Those of a node are of many namespaces.
    const node = (at + Math.floor(at / nodes)) % nodes;
    return complete(podOf(at, node, namespaces), node, Math.floor(at / nodes));
  });
  const policies = Array.from({ length: Math.ceil(POLICIES / shrink) }, (_, at): PolicyObject => {
    const { metadata, spec } = policyOf(at, namespaces);
    // Without the rule for a named port of whoever has it: each such policy needs an element for each of these.
    return { metadata, ...(spec && { spec: { ...spec, egress: spec.egress?.slice(0, 1) ?? [] } }) };
  });
  const local = all.filter(({ spec }) => spec?.nodeName === localNode);
  const selects = ({ metadata, spec }: PolicyObject, pod: PodObject): boolean =>
    metadata.namespace === pod.metadata.namespace &&
    spec?.podSelector?.matchLabels?.['app'] === pod.metadata.labels?.['app'];
  return {
    namespaces: Array.from({ length: namespaces }, (_, at) => namespaceOf(at)),
    pods: all,
    policies,
    local: local.filter((pod) => policies.some((policy) => selects(policy, pod))).length,
    needed: policies.filter((policy) => local.some((pod) => selects(policy, pod))).length,
  };
}

/** As the API takes it; each node has a block of its own for its pods. */
function complete(pod: PodObject, node: number, place: number): PodObject {
  const podIP = `10.${node >> 8}.${node & 255}.${place + 2}`;
  const podIPv6 = `fd00:0:0:${node.toString(16)}::${(place + 2).toString(16)}`;
  const container = {
    name: 'main',
    image: 'example.org/app',
    ports: [{ name: 'http', containerPort: 8080 }],
  };
  return {
    ...pod,
    spec: { nodeName: pod.spec?.nodeName ?? '', containers: [container] },
    status: { phase: 'Running', podIP, podIPs: [{ ip: podIP }, { ip: podIPv6 }] },
  };
}

function pathOf({ metadata }: PodObject): string {
  return `/api/v1/namespaces/${metadata.namespace}/pods`;
}

function statusOf(pod: PodObject, status: object): [string, string, object] {
  return ['PUT', `${pathOf(pod)}/${pod.metadata.name}/status`, { ...pod, status }];
}

/** Dispose it to stop the agent. */
function startAgent(
  network: NetworkNamespace,
  kubeconfig: string,
  directory: string,
): AsyncDisposable & { readonly pid: number } {
  const args = ['agent', '--guards', 'network-policy', '--node-name', localNode, '--kubeconfig', kubeconfig];
  const child: ChildProcess = network.run(() =>
    spawn(
      join(import.meta.dirname, '../../bin/rampart'),
      [...args, '--metrics', '0', '--alerts-socket', join(directory, 'alerts.sock')],
      { stdio: 'ignore' },
    ),
  );
  return { pid: child.pid ?? 0, [Symbol.asyncDispose]: () => endProcess(child, END_WAIT_MS) };
}

/** What the kernel has: pods with a chain, policies with one. */
function count(network: NetworkNamespace): { readonly pods: number; readonly policies: number } {
  using nft = network.run(() => new Nftables());
  const chains = [...(readTable(nft)?.values() ?? [])].filter(({ kind }) => kind === 'chain');
  const named = (prefix: RegExp): number =>
    new Set(chains.flatMap(({ name }) => (prefix.test(name) ? name.replace(prefix, '') : []))).size;
  return { pods: named(/^pod-(?:in|out)-/), policies: named(/^policy-(?:in|out)-/) };
}
