/** Events about containers that start and end, instead of polling. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { Backoff } from '../time/backoff.ts';
import { sleep, systemClock } from '../time/clock.ts';
import type { CriConnection } from './connection.ts';
import { codec } from './schema.ts';

/**
 * Where the events come from: `cri` is the interface's own stream (containerd 1.7, CRI-O 1.26 and later), `containerd` the
 * stream of any containerd on the same socket, `none` that the runtime has neither and has to be asked.
 */
export type EventSource = 'cri' | 'containerd' | 'none';

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** Something happened to this container. The runtime's lists may show it only a moment later. */
  readonly onEvent: (containerId: string | undefined) => void;
  /** The stream that was opened; earlier events are not reported. Undefined when it broke. */
  readonly onSource: (source: EventSource | undefined) => void;
  /** Why the stream broke; it is opened again after a pause. */
  readonly onError: (error: unknown) => void;
}

const PAUSE = { baseMs: 100, maxMs: 2_000 };
/** A runtime without events may be replaced by one with them. */
const NONE_PAUSE_MS = 5 * 60_000;

/** containerd's events of all that CRI runs. An exec's end is an exit too, and is dropped below. */
const filters = ['/tasks/start', '/tasks/exit', '/containers/create', '/containers/delete'].map(
  (topic) => `namespace==k8s.io,topic=="${topic}"`,
);

/** Follows the runtime's events until the signal aborts; connects again whenever the stream breaks. Never rejects. */
export async function followEvents(connection: CriConnection, options: FollowOptions): Promise<void> {
  const { signal, onSource } = options;
  const backoff = new Backoff(PAUSE);
  while (!signal.aborted) {
    const source = await followOnce(connection, options, () => backoff.reset());
    if (signal.aborted) return;
    onSource(source);
    const pauseMs = source === 'none' ? NONE_PAUSE_MS : backoff.nextMs();
    await sleep(systemClock, pauseMs, signal).catch(() => undefined);
  }
}

/** Follows the best available stream until it breaks; returns `none` if the runtime has no stream. */
async function followOnce(
  connection: CriConnection,
  { signal, onEvent, onSource, onError }: FollowOptions,
  onAlive: () => void,
): Promise<'none' | undefined> {
  const sources = {
    cri: () => criEvents(connection, signal),
    containerd: () => containerdEvents(connection, signal),
  } as const;
  for (const source of ['cri', 'containerd'] as const) {
    onSource(source);
    try {
      for await (const id of sources[source]()) {
        onAlive();
        onEvent(id);
      }
      return undefined;
    } catch (error) {
      if (signal.aborted) return undefined;
      if (error instanceof RampartError && error.code === errorCodes.UNSUPPORTED) continue;
      onError(error);
      return undefined;
    }
  }
  return 'none';
}

async function* criEvents(connection: CriConnection, signal: AbortSignal): AsyncGenerator<string> {
  for await (const { containerId } of connection.stream('GetContainerEvents', {}, signal)) yield containerId;
}

async function* containerdEvents(
  connection: CriConnection,
  signal: AbortSignal,
): AsyncGenerator<string | undefined> {
  for await (const { topic, event } of connection.stream('Subscribe', { filters }, signal)) {
    if (topic !== '/tasks/exit' || event === undefined) {
      yield undefined;
      continue;
    }
    // Probes that run commands end every few seconds, on every pod of the node.
    const { containerId, id } = codec.decode('TaskExit', event.value);
    if (id === containerId) yield containerId;
  }
}
