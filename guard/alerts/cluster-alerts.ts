/** Alerts of a cluster, from the logs of the pods that write findings. */
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

interface Writer {
  readonly what: string;
  /** As in deploy/base; those of policy servers are set by Kubewarden (server-objects.ts of policy-audit). */
  readonly labels: Readonly<Record<string, string>>;
  /** The container's name in deploy/base; if a pod has no such container, its first one is used. */
  readonly container: string;
}

const nameLabel = 'app.kubernetes.io/name';
const writers: readonly Writer[] = [
  { what: 'agent', labels: { [nameLabel]: 'rampart-agent' }, container: 'agent' },
  { what: 'operator', labels: { [nameLabel]: 'rampart-operator' }, container: 'operator' },
  {
    what: 'policy server',
    labels: { 'app.kubernetes.io/component': 'policy-server', 'app.kubernetes.io/part-of': 'kubewarden' },
    container: '',
  },
];

/** Which kind of writer a pod is; undefined for other pods of the namespace. */
function writerOf({ metadata: { labels = {} } }: Pod): Writer | undefined {
  return writers.find((writer) =>
    Object.entries(writer.labels).every(([name, value]) => labels[name] === value),
  );
}

/** How many lines are read of a log without a start time; not all of them are alerts. */
const LOG_LINES = 1000;
/** How many logs are read at a time, before they are followed. */
const READING = 16;

/**
 * Passes on the last alerts of all agents, operators and policy servers and, when following, new ones, also of pods that start later. Ends
 * without an error when the signal aborts.
 *
 * @throws {KubeError} if pods may not be listed, or their logs may not be read; {@link RampartError} `API_UNREACHABLE` if the API does not
 * answer at the start, `NOT_FOUND` if there is no such pod and it does not follow.
 */
export async function clusterAlerts(access: ClusterAccess, request: AlertRequest): Promise<void> {
  const { follow, handler, signal } = request;
  using client = new KubeClient(access);
  try {
    const { items } = await client.list(pods, { namespace: systemNamespace }, { signal });
    const logs = new Map<string, WriterLog>();
    for (const pod of items) {
      const writer = writerOf(pod);
      if (writer !== undefined) logs.set(keyOf(pod), new WriterLog(client, writer, pod, request));
    }
    if (logs.size === 0 && !follow) throw noAgents(access);
    const where = `in ${access.server.href}, namespace ${systemNamespace}`;
    const there = writers.flatMap(({ what }) => {
      const count = [...logs.values()].filter((log) => log.what === what).length;
      return count === 0 ? [] : [counted(count, what)];
    });
    handler.say(
      there.length === 0
        ? `waiting for agents ${where}: none found`
        : `alerts of ${there.join(', ')} ${where}`,
    );
    const waiting = [...logs.values()];
    await Promise.all(
      Array.from({ length: READING }, async () => {
        for (let log = waiting.shift(); log !== undefined; log = waiting.shift()) await log.readLast();
      }),
    );
    await handler.live();
    if (follow) await followAll(client, logs, request);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The log of one pod. */
class WriterLog {
  readonly #client: KubeClient;
  readonly #request: AlertRequest;
  readonly what: string;
  readonly #name: string;
  readonly #node: string;
  readonly #container: string | undefined;
  readonly #position = new LogPosition();
  readonly #gone = new AbortController();

  constructor(
    client: KubeClient,
    { what, container }: Writer,
    { metadata, spec }: Pod,
    request: AlertRequest,
  ) {
    this.#client = client;
    this.what = what;
    this.#request = request;
    this.#name = metadata.name ?? '';
    this.#node = spec?.nodeName ?? 'no node';
    const names = (spec?.containers ?? []).map(({ name }) => name);
    this.#container = names.includes(container) ? container : names[0];
  }

  /**
   * Reads the existing lines; a log that cannot be read now is reported, unless the user has no right to it.
   */
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

  /** Runs until the pod is gone or the signal aborts. @throws {KubeError} if the log may not be read. */
  async follow(): Promise<void> {
    const { handler } = this.#request;
    const signal = AbortSignal.any([this.#request.signal, this.#gone.signal]);
    const backoff = new Backoff({ baseMs: 250, maxMs: 5000 });
    let isReported = false;
    while (!signal.aborted) {
      let why = 'its container has ended';
      try {
        const sinceTime = this.#position.sinceTime;
        await this.#read({ follow: true, sinceTime, signal }, () => {
          if (isReported) handler.say(`the log of ${this.#shown} continues`);
          isReported = false;
          backoff.reset();
        });
      } catch (error) {
        if (signal.aborted) return;
        // A kubelet that has not seen a new pod yet answers 404, too (kubernetes/pkg/kubelet/server/server.go, getContainerLogs).
        if (isNotFound(error) && (await this.#isGone(signal))) return;
        if (isForbidden(error)) throw error;
        why = messageOf(error);
      }
      if (!isReported) {
        handler.say(
          `the log of ${this.#shown} ended (${why}); retrying. Without ${withArticle(this.what)} there are no alerts`,
        );
        isReported = true;
      }
      await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
    }
  }

  /** Whether the API has no such pod. A list, since whoever reads alerts may list pods. */
  async #isGone(signal: AbortSignal): Promise<boolean> {
    const named = { fieldSelector: `metadata.name=${this.#name}`, signal };
    const found = await this.#client.list(pods, { namespace: systemNamespace }, named).catch(() => undefined);
    return found?.items.length === 0;
  }

  /** Called when the pod is gone. */
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

function withArticle(what: string): string {
  return `${/^[aeiou]/.test(what) ? 'an' : 'a'} ${what}`;
}

async function followAll(
  client: KubeClient,
  logs: ReadonlyMap<string, WriterLog>,
  request: AlertRequest,
): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([request.signal, stop.signal]);
  let failure: { readonly error: unknown } | undefined;
  const running = new Map<string, WriterLog>();
  const follow = (key: string, log: WriterLog): void => {
    running.set(key, log);
    log.follow().catch((error: unknown) => {
      failure ??= { error };
      stop.abort();
    });
  };
  for (const [key, log] of logs) follow(key, log);
  const cache = new IndexedCache({ type: pods });
  using _subscription = cache.subscribe(({ type, object }) => {
    const key = keyOf(object);
    const writer = writerOf(object);
    if (type === 'deleted') {
      running.get(key)?.end();
      running.delete(key);
    } else if (writer !== undefined && !running.has(key) && object.spec?.nodeName !== undefined) {
      request.handler.say(`another ${writer.what}: ${object.metadata.name} on ${object.spec.nodeName}`);
      follow(key, new WriterLog(client, writer, object, request));
    }
  });
  await runReflector({ client, cache, signal, namespace: systemNamespace });
  if (failure !== undefined) throw failure.error;
}

/** Differs for a pod that was recreated with the same name. */
function keyOf({ metadata }: KubeObject): string {
  return `${metadata.name} ${metadata.uid}`;
}

function noAgents({ server }: ClusterAccess): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, {
    what: `no agent in ${server.href}`,
    why: `namespace ${systemNamespace} has no pod with the label ${nameLabel}=rampart-agent, and none of the operator or a policy server`,
    next: 'For rampart standalone use --data with its directory',
  });
}

/** Remembers how far a log with timestamps was read. */
export class LogPosition {
  #lastNs: bigint | undefined;
  /** The lines with exactly the last timestamp. */
  readonly #atLast = new Set<string>();

  /** The time from which to request the log; undefined before the first line. In whole seconds (metav1.Time), so lines repeat. */
  get sinceTime(): string | undefined {
    return this.#lastNs === undefined ? undefined : apiTime(Number(this.#lastNs / 1_000_000n));
  }

  /** The line without its timestamp; undefined if it was taken already. */
  take(line: string): string | undefined {
    const space = line.indexOf(' ');
    const ns = space < 0 ? undefined : apiTimeNs(line.slice(0, space));
    // The server sends no timestamps: duplicates cannot be detected.
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
