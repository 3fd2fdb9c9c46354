/**
 * Packets all the while that something is done: of those that no state of it allows none may pass, and of those that each state allows
 * none may be refused.
 */
import { createSocket, type Socket } from 'node:dgram';
import { setTimeout as delay } from 'node:timers/promises';

import type { Host } from './listeners.fixture.ts';
import { connects, type ProbeOptions } from './probe.fixture.ts';

export interface Pair extends Pick<ProbeOptions, 'port' | 'family'> {
  readonly from: Host;
  readonly to: Host;
}

export interface Watched {
  readonly never: readonly Pair[];
  readonly always?: readonly Pair[];
}

/** Between two rounds. */
const PAUSE_MS = 2;

export class Probing {
  /** A line for each packet that passed and should not have, or the other way round. */
  readonly wrong: string[] = [];
  rounds = 0;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(watched: Watched) {
    this.#running = this.#run(watched);
  }

  async #run({ never, always = [] }: Watched): Promise<void> {
    const probes = [
      ...never.map((pair) => ({ pair, wrong: ['answered'] })),
      // A lost packet may only have been slow.
      ...always.map((pair) => ({ pair, wrong: ['refused'] })),
    ];
    while (!this.#stop.signal.aborted) {
      await Promise.all(
        probes.map(async ({ pair: { from, to, port = 80, family = 4 }, wrong }) => {
          const outcome = await connects(from, to.addresses[family], port);
          if (wrong.includes(outcome)) {
            this.wrong.push(`${from.name} -> ${to.name} ${port}, IPv${family}: ${outcome}`);
          }
        }),
      );
      this.rounds++;
      await delay(PAUSE_MS);
    }
  }

  /** Returns once the last answers are there. */
  async stop(): Promise<readonly string[]> {
    this.#stop.abort();
    await this.#running;
    return this.wrong;
  }
}

/** Datagrams to port 80 over IPv4, one after the other: as none is answered, each is the first of a connection. */
export async function sendDatagrams(from: Host, to: Host): Promise<Disposable> {
  const socket: Socket = createSocket('udp4').on('error', () => {});
  await from.namespace.runTick(() => socket.bind());
  const timer = setInterval(() => socket.send('?', 80, to.addresses[4], () => {}), 1);
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      socket.close();
    },
  };
}
