/**
 * The requests of a fleet of agents to an API server: at rest, when a policy comes, and when the API comes
 * back.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { KubeClient } from '../../lib/kube/client/client.ts';
import type { PartOptions, Report, ReportRow, Verdict } from '../report.ts';
import { type ApiUsage, MeasuredApi } from './measured-api.ts';
import { applyPolicies, FleetObjects, podsPerNode } from './objects.ts';
import { AgentProcesses } from './agent-processes.ts';
import { FleetProcess, raiseFileLimit } from './processes.ts';
import { type RequestCounts, together } from './request-counts.ts';

const NODES = [10, 100, 500] as const;
/** Two renewals of a lease. */
const REST_MS = 20_000;
/** After what was to happen has happened: what follows from it is over. */
const SETTLE_MS = 5000;
const LOOK_MS = 200;
/** The roll-out of a DaemonSet does not start all agents at once either, and on a small machine 500 starve each other of CPU. Each wave has its process. */
const STARTED_AT_ONCE = 100;
/** Time limit for all agents together; each lists all pods when it starts. */
const patienceMs = (nodes: number): number => 240_000 + nodes * 2000;
/** Guards of which each agent programs something. */
const programming = ['network-policy', 'file-access', 'bpf-programs'] as const;
const policyNames = ['seed', 'rollout', 'after'] as const;
const bytecode = import.meta.filename;
const client = { perSecond: 1000, burst: 1000, userAgent: 'bench' } as const;
const max = { agentWritesPerMinute: 6, operatorWritesPerMinute: 30 } as const;

interface Phase {
  readonly nodes: number;
  readonly name: string;
  readonly seconds: number;
  readonly agents: RequestCounts;
  readonly operator: RequestCounts;
  readonly bytes: number;
  readonly apiCpuMs: number;
  readonly apiMiB: number;
  /** By guard: until all agents had programmed what is new. */
  readonly reachedMs: Readonly<Record<string, number>>;
}

/** @throws {Error} when a process ends, or policies do not reach all agents in four minutes and 2 s a node. */
export async function fleet(options: PartOptions): Promise<Report> {
  const { shrink, kubeconfig, progress } = options;
  const sizes = (options.nodes ?? NODES).map((count) => Math.max(1, Math.ceil(count / shrink)));
  raiseFileLimit();
  const phases: Phase[] = [];
  for (const nodes of new Set(sizes)) {
    progress(`fleet: ${nodes} nodes`);
    phases.push(...(await measure(nodes, options)));
  }
  return {
    title: `A fleet of agents without kernels, ${podsPerNode} pods on each node; API: ${kubeconfig ?? 'rampart apiserver'}`,
    columns: [
      'requests',
      'a second',
      'at most',
      'MiB',
      'watches',
      'API MiB',
      'API CPU s',
      'reached all after',
    ],
    rows: phases.map(rowOf),
    verdicts: phases.filter(({ name }) => name === 'rest').flatMap(verdictsOf),
    notes: [
      'Requests: of agents and operator. At most: in one second. MiB: on the wire, in both directions.',
      `Start: until all agents have programmed the policies that are there; the operator runs already. Of more than ${STARTED_AT_ONCE}, the next ${STARTED_AT_ONCE} when these have.`,
      'Roll-out: of a NetworkPolicy, a KivePolicy and an XdpProgram; each agent reports the last two.',
      'API back: it was away, and three new policies are there when it comes back; the times are from then on.',
      ...(kubeconfig === undefined
        ? []
        : ['That API went on: the proxy before it cut all connections for 3 s.']),
    ],
  };
}

async function measure(count: number, options: PartOptions): Promise<Phase[]> {
  const { shrink, signal, kubeconfig, progress } = options;
  await using stack = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const api = stack.use(await MeasuredApi.open(kubeconfig, directory, signal));
  const objects = new FleetObjects();
  const withClient = async <T>(work: (of: KubeClient) => Promise<T>): Promise<T> => {
    using direct = new KubeClient(api.access, client);
    return await work(direct);
  };
  if (!api.isOwn) {
    stack.defer(() => withClient((of) => objects.remove(of, AbortSignal.timeout(patienceMs(count)))));
  }
  await withClient((of) => objects.definitions(of, signal));
  progress(`fleet: ${count} nodes: making ${count * podsPerNode} pods`);
  const nodes = await withClient((of) => objects.nodes(of, count, signal));
  const operator = stack.use(FleetProcess.operator(api.kubeconfig));
  await withClient((of) => applyPolicies(of, policyNames[0], bytecode));
  await sleep(SETTLE_MS / shrink, undefined, { signal });

  const phases: Phase[] = [];
  let usage: ApiUsage = await api.usage(signal);
  const startedMs = Date.now();
  const agents = stack.use(new AgentProcesses());
  /** Requests in between belong to no phase. */
  const skip = async (): Promise<void> => {
    await Promise.all([agents.counts(signal), operator.counts(signal)]);
    usage = await api.usage(signal);
  };
  const phase = async (name: string, work: () => Promise<Record<string, number>>): Promise<void> => {
    progress(`fleet: ${count} nodes: ${name}`);
    const [beganMs, before] = [performance.now(), usage];
    const reachedMs = await work();
    const seconds = (performance.now() - beganMs) / 1000;
    const [ofAgents, ofOperator] = await Promise.all([agents.counts(signal), operator.counts(signal)]);
    usage = await api.usage(signal);
    const measured: Phase = {
      ...{ nodes: count, name, seconds, reachedMs, agents: ofAgents, operator: ofOperator },
      bytes: usage.bytes - before.bytes,
      // For a process that was restarted meanwhile, its own time.
      apiCpuMs: usage.cpuMs >= before.cpuMs ? usage.cpuMs - before.cpuMs : usage.cpuMs,
      apiMiB: usage.rssMiB,
    };
    phases.push(measured);
    progress(`fleet: ${JSON.stringify(rowOf(measured).cells)}`);
  };
  const reached = async (policy: string, sinceMs: number, many = count): Promise<Record<string, number>> => {
    const deadlineMs = performance.now() + patienceMs(count);
    for (;;) {
      const now = await agents.reached(policy, signal);
      const missing = programming.filter((guard) => now[guard]?.agents !== many);
      if (missing.length === 0) {
        if (many === count) await sleep(SETTLE_MS / shrink, undefined, { signal });
        return Object.fromEntries(programming.map((guard) => [guard, (now[guard]?.lastMs ?? 0) - sinceMs]));
      }
      if (performance.now() > deadlineMs) {
        const so = missing.map((guard) => `${guard} on ${now[guard]?.agents ?? 0}`);
        throw new Error(`of ${many} agents, policy ${policy} has reached ${so.join(', ')}`);
      }
      await sleep(LOOK_MS, undefined, { signal });
    }
  };

  await phase('start', async () => {
    for (let from = 0; ; from += STARTED_AT_ONCE) {
      const some = nodes.slice(from, from + STARTED_AT_ONCE);
      agents.start({ kubeconfig: api.kubeconfig, directory, nodes: some });
      const started = await reached(policyNames[0], startedMs, from + some.length);
      if (from + some.length === count) return started;
      progress(`fleet: ${from + some.length} of ${count} nodes have started`);
    }
  });
  await sleep((2 * SETTLE_MS) / shrink, undefined, { signal });
  await skip();
  await phase('rest', async () => {
    await sleep(REST_MS / shrink, undefined, { signal });
    return {};
  });
  await phase('roll-out', async () => {
    const sinceMs = Date.now();
    await withClient((of) => applyPolicies(of, policyNames[1], bytecode));
    return await reached(policyNames[1], sinceMs);
  });
  await phase('API back', async () => {
    await api.restart(signal);
    const sinceMs = Date.now();
    await withClient((of) => applyPolicies(of, policyNames[2], bytecode));
    return await reached(policyNames[2], sinceMs);
  });
  if (!api.isOwn) {
    progress(`fleet: ${count} nodes: removing the policies`);
    const patience = AbortSignal.timeout(patienceMs(count));
    await withClient((of) => objects.removePolicies(of, policyNames, AbortSignal.any([signal, patience])));
  }
  return phases;
}

function rowOf(phase: Phase): ReportRow {
  const { nodes, name, seconds, agents, operator, bytes, apiCpuMs, apiMiB, reachedMs } = phase;
  const requests = sum(agents.requests) + sum(operator.requests);
  const watches = sum(agents.watches) + sum(operator.watches);
  const maxPerSecond = Math.max(0, ...Object.values(together(agents.bySecond, operator.bySecond)));
  const mib = bytes / 1024 / 1024;
  const reached = Object.entries(reachedMs).map(([guard, ms]) => [guard, `${(ms / 1000).toFixed(1)} s`]);
  return {
    label: `${nodes} nodes, ${name}`,
    cells: {
      requests: String(requests),
      'a second': (requests / seconds).toFixed(1),
      'at most': String(maxPerSecond),
      MiB: mib.toFixed(1),
      watches: String(watches),
      'API MiB': apiMiB.toFixed(0),
      'API CPU s': (apiCpuMs / 1000).toFixed(1),
      'reached all after': reached.map(([, text]) => text).join(', '),
    },
    values: {
      ...{ nodes, phase: name, seconds, requests, maxPerSecond, watches, bytes, apiMiB, apiCpuMs },
      requestsPerSecond: requests / seconds,
      bytesPerSecond: bytes / seconds,
      agentsMiB: agents.heldMiB,
      operatorMiB: operator.heldMiB,
      agentRequests: reported(agents.requests),
      operatorRequests: reported(operator.requests),
      agentWatches: reported(agents.watches),
      operatorWatches: reported(operator.watches),
      ...Object.fromEntries(Object.entries(reachedMs).map(([guard, ms]) => [`${guard} reachedMs`, ms])),
    },
  };
}

function verdictsOf({ nodes, agents, operator, seconds }: Phase): Verdict[] {
  const rate = (counts: RequestCounts): number => (writes(counts) * 60) / seconds;
  const [ofAgent, ofOperator] = [rate(agents) / nodes, rate(operator)];
  return [
    {
      target: `${nodes} nodes: an agent at rest writes at most ${max.agentWritesPerMinute} times a minute`,
      measured: ofAgent.toFixed(1),
      // A renewal more or less at the edge of the time that is counted.
      met: Math.round(ofAgent) <= max.agentWritesPerMinute,
    },
    {
      target: `${nodes} nodes: the operator at rest writes at most ${max.operatorWritesPerMinute} times a minute`,
      measured: ofOperator.toFixed(1),
      met: ofOperator <= max.operatorWritesPerMinute,
    },
  ];
}

function writes({ requests }: RequestCounts): number {
  return sum(
    Object.fromEntries(Object.entries(requests).filter(([what]) => !/^(get|list|watch) /.test(what))),
  );
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** `list pods 10, watch pods 10`, the most first. */
function reported(counts: Readonly<Record<string, number>>): string {
  const used = Object.entries(counts).filter(([, count]) => count !== 0);
  return used
    .toSorted(([, a], [, b]) => b - a)
    .map(([what, count]) => `${what} ${count}`)
    .join(', ');
}
