/** The health of this guard in an agent. */
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { PartHealth } from '../../../guard/context.ts';
import type { Ask } from '../../../lib/telemetry/health.ts';
import type { SensorStats } from '../../../lib/sensor/options.ts';

/** The sensor reads its ring every second; records that wait longer than this show that it no longer does. */
const STUCK_MS = 30_000;

/** The part that the guard cannot watch on a machine without a container runtime, for messages. */
export const withoutRuntime = 'files in containers (no container runtime responds)';

export interface NodeParts {
  /** Whether the container runtime has reported its containers, or the machine has no runtime. */
  readonly containers: () => boolean;
  /** Why there is no container runtime; undefined if there is one. */
  readonly absence: () => string | undefined;
  readonly sensor: () => SensorStats;
  /** Whether all existing objects were examined. */
  readonly looked: () => boolean;
  /** Whether it is known which agent watches the files of this kernel: this one, or another on the same kernel. */
  readonly hasLoader: () => boolean;
}

export function registerNodeHealth(health: PartHealth, parts: NodeParts, clock: Clock = systemClock): void {
  const ready = (name: string, is: () => boolean, why: string, remark?: Ask): void =>
    void health.ready(name, () => (is() ? undefined : why), remark);
  ready('containers', parts.containers, 'the container runtime has not listed them yet', () =>
    parts.absence() === undefined
      ? undefined
      : 'no container runtime responds, so traps for pods watch nothing',
  );
  ready('files', parts.looked, 'not examined yet');
  ready('loader', parts.hasLoader, 'no agent is known to watch the files of this kernel yet');
  health.alive('sensor', ringProblem(parts.sensor, clock));
}

/** Detects a ring that is no longer read. Call the result now and then: it returns the problem, if there is one. */
export function ringProblem(stats: () => SensorStats, clock: Clock): () => string | undefined {
  let lastReceived = -1;
  let sinceMs = 0;

  return () => {
    const { produced, received, folded, lost } = stats();
    const waiting = produced - received - folded - lost.ringFull - lost.noReturn - lost.consumer;
    const nowMs = clock.monotonicMs();
    if (waiting <= 0 || received !== lastReceived) {
      lastReceived = received;
      sinceMs = nowMs;
      return undefined;
    }
    const seconds = Math.floor((nowMs - sinceMs) / 1000);
    return nowMs - sinceMs < STUCK_MS
      ? undefined
      : `${waiting} accesses are waiting in the ring buffer; none has been read for ${seconds} s`;
  };
}
