/** Events about containers that start and end, so that no polling is needed. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { Backoff } from '../time/backoff.ts';
import { sleep, systemClock } from '../time/clock.ts';
import type { CriConnection } from './connection.ts';
import { codec } from './schema.ts';

/**
 * Where the events come from: `cri` is the CRI's own stream (containerd 1.7, CRI-O 1.26 and later), `containerd` is
 * containerd's stream on the same socket (in any version), `none` means that the runtime has neither and has to be polled.
 */
export type EventSource = 'cri' | 'containerd' | 'none';

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** Called when something happened to a container; undefined if it is unknown which. The runtime's lists may show it slightly later. */
  readonly onEvent: (containerId: string | undefined) => void;
  /** Called with the stream that was opened, which does not report earlier events, or with undefined when it broke. */
  readonly onSource: (source: EventSource | undefined) => void;
  /** Called with the error that broke the stream, which is reopened after a pause. */
  readonly onError: (error: unknown) => void;
}

const PAUSE = { baseMs: 100, maxMs: 2_000 };
/** Pause before trying again after a runtime without events, which may be replaced by one that has them. */
const NONE_PAUSE_MS = 5 * 60_000;

/** containerd's events about the containers of the CRI. The end of an exec is also an exit, and is dropped below. */
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
    // Drops ends of execs: those of probes occur every few seconds, in every pod of the node.
    const { containerId, id } = codec.decode('TaskExit', event.value);
    if (id === containerId) yield containerId;
  }
}
