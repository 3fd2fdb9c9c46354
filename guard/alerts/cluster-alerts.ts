/** Alerts of a cluster, from the logs of its agents' pods. */
import { systemNamespace } from '../guard.ts';
import { apiTime, apiTimeNs } from '../../lib/kube/object/api-time.ts';
import { Backoff } from '../../lib/time/backoff.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../lib/kube/client/client-errors.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';
import type { ClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { IndexedCache } from '../../lib/kube/cache/indexed-cache.ts';
import { type KubeObject, type Pod, pods } from '../../lib/kube/object/object.ts';
import { runReflector } from '../../lib/kube/cache/reflector.ts';
import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import type { AlertRequest } from './source.ts';
import { counted } from '../../lib/output/words.ts';

/** As deploy/base/agent.yaml labels them. */
const agentSelector = 'app.kubernetes.io/name=rampart-agent';
/** As deploy/base/agent.yaml calls it; a pod that has no such container has one that is the agent. */
const agentContainer = 'agent';
/** Of each log, where nothing says since when: the agent's other lines are among them. */
const LOG_LINES = 1000;
/** Logs that are read at a time before following. */
const READING = 16;

/**
 * Hands out the last alerts of all agents and, where it is followed, what comes, also of agents that come later. Ends
 * with the signal, quietly.
 *
 * @throws {KubeError} where pods may not be listed or their logs not be read; {@link RampartError} `API_UNREACHABLE` for no
 *   answer at the beginning, `NOT_FOUND` where no agent is and none is waited for.
 */
export async function clusterAlerts(access: ClusterAccess, request: AlertRequest): Promise<void> {
  const { follow, handler, signal } = request;
  using client = new KubeClient(access);
  try {
    const { items } = await client.list(
      pods,
      { namespace: systemNamespace },
      { labelSelector: agentSelector, signal },
    );
    const agents = new Map(items.map((pod) => [keyOf(pod), new AgentLog(client, pod, request)]));
    if (agents.size === 0 && !follow) throw noAgents(access);
    handler.say(
      agents.size === 0
        ? `waiting for agents in ${access.server.href}, namespace ${systemNamespace}: none found`
        : `alerts of ${counted(agents.size, 'agent')} in ${access.server.href}, namespace ${systemNamespace}`,
    );
    const waiting = [...agents.values()];
    await Promise.all(
      Array.from({ length: READING }, async () => {
        for (let agent = waiting.shift(); agent !== undefined; agent = waiting.shift())
          await agent.readLast();
      }),
    );
    await handler.live();
    if (follow) await followAll(client, agents, request);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

class AgentLog {
  readonly #client: KubeClient;
  readonly #request: AlertRequest;
  readonly #name: string;
  readonly #node: string;
  readonly #container: string | undefined;
  readonly #position = new LogPosition();
  readonly #gone = new AbortController();

  constructor(client: KubeClient, { metadata, spec }: Pod, request: AlertRequest) {
    this.#client = client;
    this.#request = request;
    this.#name = metadata.name ?? '';
    this.#node = spec?.nodeName ?? 'no node';
    const names = (spec?.containers ?? []).map(({ name }) => name);
    this.#container = names.includes(agentContainer) ? agentContainer : names[0];
  }

  /** What the log has; one that cannot be read now is told, unless nobody may read it. */
  async readLast(): Promise<void> {
    const { sinceMs, tail, handler, signal } = this.#request;
    const where =
      sinceMs === undefined
        ? { tailLines: Math.max(LOG_LINES, Math.min(tail, 1e6)) }
        : { sinceTime: apiTime(sinceMs) };
    try {
      await this.#read({ ...where, signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isForbidden(error)) throw error;
      handler.say(`the log of ${this.#shown} cannot be read: ${messageOf(error)}`);
    }
  }

  /** Goes on until the pod is gone or the signal aborts. @throws {KubeError} where the log may not be read. */
  async follow(): Promise<void> {
    const { handler } = this.#request;
    const signal = AbortSignal.any([this.#request.signal, this.#gone.signal]);
    const backoff = new Backoff({ baseMs: 250, maxMs: 5000 });
    let isTold = false;
    while (!signal.aborted) {
      let why = 'its container has ended';
      try {
        const sinceTime = this.#position.sinceTime;
        await this.#read({ follow: true, sinceTime, signal }, () => {
          if (isTold) handler.say(`the log of ${this.#shown} continues`);
          isTold = false;
          backoff.reset();
        });
      } catch (error) {
        if (signal.aborted || isNotFound(error)) return;
        if (isForbidden(error)) throw error;
        why = messageOf(error);
      }
      if (!isTold) {
        handler.say(
          `the log of ${this.#shown} ended (${why}); retrying. Without an agent there are no alerts`,
        );
        isTold = true;
      }
      await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
    }
  }

  /** The pod is gone. */
  end(): void {
    this.#gone.abort();
  }

  get #shown(): string {
    return `${this.#name} on ${this.#node}`;
  }

  async #read(
    options: NonNullable<Parameters<KubeClient['podLog']>[1]>,
    onLine: () => void = () => undefined,
  ): Promise<void> {
    const target = { namespace: systemNamespace, name: this.#name };
    const log = this.#client.podLog(target, { ...options, container: this.#container, timestamps: true });
    for await (const line of log) {
      const text = this.#position.take(line);
      if (text === undefined) continue;
      onLine();
      await this.#request.handler.line(text);
    }
  }
}

async function followAll(
  client: KubeClient,
  agents: ReadonlyMap<string, AgentLog>,
  request: AlertRequest,
): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([request.signal, stop.signal]);
  let failure: { readonly error: unknown } | undefined;
  const running = new Map<string, AgentLog>();
  const follow = (key: string, agent: AgentLog): void => {
    running.set(key, agent);
    agent.follow().catch((error: unknown) => {
      failure ??= { error };
      stop.abort();
    });
  };
  for (const [key, agent] of agents) follow(key, agent);
  const cache = new IndexedCache({ type: pods });
  using _subscription = cache.subscribe(({ type, object }) => {
    const key = keyOf(object);
    if (type === 'deleted') {
      running.get(key)?.end();
      running.delete(key);
    } else if (!running.has(key) && object.spec?.nodeName !== undefined) {
      request.handler.say(`another agent: ${object.metadata.name} on ${object.spec.nodeName}`);
      follow(key, new AgentLog(client, object, request));
    }
  });
  await runReflector({ client, cache, signal, namespace: systemNamespace, labelSelector: agentSelector });
  if (failure !== undefined) throw failure.error;
}

/** A pod that is made anew under its name is another one. */
function keyOf({ metadata }: KubeObject): string {
  return `${metadata.name} ${metadata.uid}`;
}

function noAgents({ server }: ClusterAccess): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, {
    what: `no agent in ${server.href}`,
    why: `namespace ${systemNamespace} has no pod with the label ${agentSelector}`,
    next: 'For rampart standalone use --data with its directory',
  });
}

/** Remembers up to where a log with timestamps was read. */
export class LogPosition {
  #lastNs: bigint | undefined;
  /** The lines of that very moment. */
  readonly #atLast = new Set<string>();

  /** From when on to ask; undefined before the first line. In whole seconds (metav1.Time), so lines repeat. */
  get sinceTime(): string | undefined {
    return this.#lastNs === undefined ? undefined : apiTime(Number(this.#lastNs / 1_000_000n));
  }

  /** The line without its time; undefined where it was taken before. */
  take(line: string): string | undefined {
    const space = line.indexOf(' ');
    const ns = space < 0 ? undefined : apiTimeNs(line.slice(0, space));
    // A server that gives no times: then nothing can be told apart.
    if (ns === undefined) return line;
    const text = line.slice(space + 1);
    if (this.#lastNs !== undefined && ns < this.#lastNs) return undefined;
    if (ns === this.#lastNs) {
      if (this.#atLast.has(text)) return undefined;
    } else {
      this.#lastNs = ns;
      this.#atLast.clear();
    }
    this.#atLast.add(text);
    return text;
  }
}
