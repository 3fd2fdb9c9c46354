/** The health of this guard in an agent. */
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { PartHealth } from '../../../guard/context.ts';
import type { Ask } from '../../../lib/telemetry/health.ts';
import type { SensorStats } from '../../../lib/sensor/options.ts';

/** The sensor looks into its ring each second; what waits longer than this waits for ever. */
const STUCK_MS = 30_000;

/** The files that the guard cannot see on a machine without a container runtime. */
export const withoutRuntime = 'files in containers (no container runtime responds)';

export interface NodeParts {
  /** The container runtime has reported its containers, or the machine has no runtime. */
  readonly containers: () => boolean;
  /** Why there is no container runtime; undefined: there is one. */
  readonly absence: () => string | undefined;
  readonly sensor: () => SensorStats;
  /** All existing objects were examined. */
  readonly looked: () => boolean;
  /** The loader of this kernel is known. */
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

/** Notices a ring that is no longer read; call it now and then. */
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
