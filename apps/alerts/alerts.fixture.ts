/** `rampart alerts` as a user starts it, for tests. */
import { join } from 'node:path';

import { Running } from '../../lib/testing/running.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');

/** One process; killed at the end. */
export class Alerts extends Running {
  constructor(args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
    super([rampart, 'alerts', ...args], { env });
  }

  /** With `-o json`. */
  get alerts(): KiveAlert[] {
    return this.lines.map((line) => JSON.parse(line) as KiveAlert);
  }

  /** Stops to read stdout, or goes on. */
  read(isReading: boolean): void {
    if (isReading) this.child.stdout?.resume();
    else this.child.stdout?.pause();
  }

  /** As `| head` does. */
  closeStdout(): void {
    this.child.stdout?.destroy();
  }

  /** Waits for its end; of itself, or by a signal. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    return (await (signal === undefined ? this.ended : this.stop(signal))).code;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    // One that is paused would never close.
    this.closeStdout();
    await super[Symbol.asyncDispose]();
  }
}
