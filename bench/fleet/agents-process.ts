/** A process of many light agents: started by agents.ts, which sends it commands as messages. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { ContainerSource, SourceContainer } from '../../lib/cri/container-source.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { runLightAgent } from './light-agent.ts';
import { countRequests, type RequestCounts } from './request-counts.ts';

/** A pod of a node, with one container. */
export interface FleetPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly ip: string;
}

export type Asked =
  | {
      readonly ask: 'start';
      readonly kubeconfig: string;
      readonly directory: string;
      readonly nodes: readonly { readonly name: string; readonly pods: readonly FleetPod[] }[];
    }
  | { readonly ask: 'counts' }
  /** When has each guard of each agent programmed the policies of this name? */
  | { readonly ask: 'reached'; readonly name: string };

export type Answer =
  | { readonly answer: 'counts'; readonly counts: RequestCounts }
  /** By guard: the wall clock when the last agent had it, and how many have not. */
  | { readonly answer: 'reached'; readonly guards: Readonly<Record<string, Reached>> };

export interface Reached {
  readonly lastMs: number;
  readonly agents: number;
}

const takeCounts = countRequests();
const stop = new AbortController();
const running: Promise<void>[] = [];
/** By policy name and guard: the agents that have programmed it, and when the last one did. */
const programmed = new Map<string, Map<string, { readonly agents: Set<string>; lastMs: number }>>();

function note(node: string, guard: string, names: ReadonlySet<string>): void {
  for (const key of names) {
    const name = key.slice(key.lastIndexOf('/') + 1);
    let guards = programmed.get(name);
    if (guards === undefined) programmed.set(name, (guards = new Map()));
    let reached = guards.get(guard);
    if (reached === undefined) guards.set(guard, (reached = { agents: new Set(), lastMs: 0 }));
    if (reached.agents.has(node)) continue;
    reached.agents.add(node);
    reached.lastMs = Date.now();
  }
}

function containersOf(node: string, pods: readonly FleetPod[]): ContainerSource {
  const all = new Map(
    pods.map(({ namespace, name, uid, ip }): [string, SourceContainer] => {
      const id = `containerd://${node}-${namespace}-${name}`;
      const pod = { podNamespace: namespace, podName: name, podUid: uid, podIp: ip };
      return [id, { id, name: 'main', ...pod, pid: 1, root: '/' }];
    }),
  );
  return {
    synced: Promise.resolve(),
    list: () => all.values(),
    get: (id) => all.get(id),
    reported: (id) => all.get(id),
    subscribe: () => ({ [Symbol.dispose]: () => undefined }),
  };
}

function start({ kubeconfig, directory, nodes }: Extract<Asked, { ask: 'start' }>): void {
  const access = findClusterAccess({ path: kubeconfig });
  const logger = createLogger({ level: 'error' });
  for (const { name, pods } of nodes) {
    const ofNode = join(directory, name);
    mkdirSync(ofNode, { recursive: true });
    const agent = runLightAgent({
      ...{ access, nodeName: name, directory: ofNode, logger, signal: stop.signal },
      containers: containersOf(name, pods),
      onProgrammed: (guard, names) => note(name, guard, names),
    });
    running.push(agent.catch((error: unknown) => fail(name, error)));
  }
}

function fail(node: string, error: unknown): void {
  if (stop.signal.aborted) return;
  console.error(`the agent of ${node} ended:`, error);
  process.exit(1);
}

function answer(answered: Answer): void {
  process.send?.(answered);
}

process.on('message', (asked: Asked) => {
  if (asked.ask === 'start') start(asked);
  else if (asked.ask === 'counts') answer({ answer: 'counts', counts: takeCounts() });
  else {
    const guards: Record<string, Reached> = {};
    for (const [guard, { agents, lastMs }] of programmed.get(asked.name) ?? []) {
      guards[guard] = { agents: agents.size, lastMs };
    }
    answer({ answer: 'reached', guards });
  }
});

process.on('disconnect', () => process.exit());
process.on('SIGTERM', () => {
  stop.abort();
  void Promise.all(running).then(() => process.exit());
});
