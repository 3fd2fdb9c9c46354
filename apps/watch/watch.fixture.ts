/** `rampart watch` as a user starts it, for tests. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { testMode } from '../../lib/sensor/sensor.fixture.ts';
import { type Ended, Running } from '../../lib/testing/running.fixture.ts';
import { assertFinding } from '../../guard/stream/finding-schema.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

const top = join(import.meta.dirname, '../..');
export const rampart: string = join(top, 'bin/rampart');

/** A running `rampart watch`; killed at the end when it was not stopped. */
export class Watching extends Running {
  /** Starts it and returns once it says that it watches: from then on every access counts. */
  static async start(...args: readonly string[]): Promise<Watching> {
    return Watching.#start([rampart, ...commandLine(args)]);
  }

  /** The same through the script of package.json: `pid` is that of npm. */
  static startByNpm(...args: readonly string[]): Promise<Watching> {
    return Watching.#start(['npm', 'run', 'rampart', '--', ...commandLine(args)]);
  }

  static async #start(command: readonly string[]): Promise<Watching> {
    const watching = new Watching(command, { cwd: top });
    try {
      await watching.untilSaid(/: watching \d+ path/);
      return watching;
    } catch (error) {
      await watching[Symbol.asyncDispose]();
      throw error;
    }
  }

  alerts(): KiveAlert[] {
    return this.lines.map((line) => {
      assertFinding(line);
      return JSON.parse(line) as KiveAlert;
    });
  }

  /** Resolves with the alerts when there are as many. */
  async untilAlerts(count: number): Promise<KiveAlert[]> {
    await this.until(() => this.lines.length >= count);
    return this.alerts();
  }

  override stop(signal: NodeJS.Signals = 'SIGINT'): Promise<Ended> {
    return super.stop(signal);
  }
}

function commandLine(args: readonly string[]): string[] {
  return ['watch', '--mode', testMode(), ...args];
}

/** Runs `rampart watch` to its end; for command lines that are refused. */
export function refused(args: readonly string[], wrap: readonly string[] = [], program = rampart): Ended {
  const [command = program, ...rest] = [...wrap, program, 'watch', ...args];
  const { status, signal, stdout, stderr, error } = spawnSync(command, rest, {
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (error) throw error;
  return { code: status, signal, stdout, stderr };
}
