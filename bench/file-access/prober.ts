/** Finds out from outside when files begin to be watched: opens them over and over until an alert comes. */
import { closeSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

/** Between two rounds over all files: what is measured is late by as much, and a round takes CPU time. */
const PAUSE_MS = 10;
const PATIENCE_MS = 60_000;

export interface Probe {
  /** Opened; it need not be there yet. */
  readonly file: string;
  /** `POLICY CONTAINER_ID PATH`, as the alert has them. */
  readonly key: string;
}

/** Reads the alert lines of an agent. */
export class Prober {
  /** Wall clock of the first access that was alerted, in ms. */
  readonly #firstMs = new Map<string, number>();

  constructor(lines: Readable) {
    createInterface({ input: lines }).on('line', (line) => {
      const alert = JSON.parse(line) as KiveAlert;
      const key = `${alert['kive-policy-name']} ${alert.pod.container.id} ${alert.metadata.path}`;
      if (!this.#firstMs.has(key)) this.#firstMs.set(key, wallMs(alert.timestamp));
    });
  }

  get pace(): string {
    return `${PAUSE_MS} ms after each round`;
  }

  /** Opens all until each was alerted once. @returns by key, the time of that access. */
  async probe(probes: readonly Probe[], signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
    let left = probes;
    const endMs = performance.now() + PATIENCE_MS;
    while ((left = left.filter(({ key }) => !this.#firstMs.has(key))).length > 0) {
      if (performance.now() > endMs) throw new Error(`${left.length} files are not watched: ${left[0]?.key}`);
      for (const { file } of left) touch(file);
      await sleep(PAUSE_MS, undefined, { signal });
    }
    return this.#firstMs;
  }
}

function touch(file: string): void {
  try {
    closeSync(openSync(file, 'r'));
  } catch {
    // It is created later.
  }
}

/** With the fraction that Date.parse cuts. */
function wallMs(timestamp: string): number {
  const [, seconds = '', fraction = '0'] = /^(.*)\.(\d+)Z$/.exec(timestamp) ?? [];
  return Date.parse(`${seconds}Z`) + Number(`0.${fraction}`) * 1000;
}
