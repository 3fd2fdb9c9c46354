/** The health of this guard in an agent. */
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { PartHealth } from '../../../guard/context.ts';
import type { SensorStats } from '../../../lib/sensor/options.ts';

/** The sensor looks into its ring each second; what waits longer than this waits for ever. */
const STUCK_MS = 30_000;

export interface NodeParts {
  readonly containers: { readonly synced: Promise<void> };
  readonly sensor: () => SensorStats;
  /** What there is was looked at. */
  readonly looked: () => boolean;
  /** Somebody is known to be the loader of this kernel. */
  readonly hasLoader: () => boolean;
}

export function registerNodeHealth(health: PartHealth, parts: NodeParts, clock: Clock = systemClock): void {
  const ready = (name: string, is: () => boolean, why: string): void =>
    void health.ready(name, () => (is() ? undefined : why));
  let containersKnown = false;
  void parts.containers.synced.then(
    () => (containersKnown = true),
    () => undefined,
  );
  ready('containers', () => containersKnown, 'the container runtime has not listed them yet');
  ready('files', parts.looked, 'not examined yet');
  ready('loader', parts.hasLoader, 'no agent is known to watch the files of this kernel yet');
  const ring = new RingWatch(parts.sensor, clock);
  health.alive('sensor', () => ring.problem());
}

/** Notices a ring that nobody reads any more. */
export class RingWatch {
  readonly #stats: () => SensorStats;
  readonly #clock: Clock;
  #received = -1;
  #sinceMs = 0;

  constructor(stats: () => SensorStats, clock: Clock) {
    this.#stats = stats;
    this.#clock = clock;
  }

  /** To be asked now and then. */
  problem(): string | undefined {
    const { produced, received, folded, lost } = this.#stats();
    const waiting = produced - received - folded - lost.ringFull - lost.noReturn - lost.consumer;
    const nowMs = this.#clock.monotonicMs();
    if (waiting <= 0 || received !== this.#received) {
      this.#received = received;
      this.#sinceMs = nowMs;
      return undefined;
    }
    const seconds = Math.floor((nowMs - this.#sinceMs) / 1000);
    return nowMs - this.#sinceMs < STUCK_MS
      ? undefined
      : `${waiting} accesses are waiting in the ring buffer; none has been read for ${seconds} s`;
  }
}
