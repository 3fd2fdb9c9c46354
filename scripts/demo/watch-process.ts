/** The real `rampart watch`, as a child process. */
import type { SensorModeName } from '../../lib/sensor/modes.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { RampartProcess } from './rampart-process.ts';

export interface WatchOptions {
  readonly mode: string;
  /** Files to watch, inside `directory`. */
  readonly names: readonly string[];
  readonly directory: string;
  readonly signal: AbortSignal;
  /** Called with each alert when it arrives. */
  readonly onAlert: (alert: KiveAlert) => void;
}

/** A running watch. The caller disposes it. */
export class WatchProcess extends RampartProcess {
  /** The mode that it took. */
  mode: SensorModeName = 'raw_tracepoint';

  /**
   * Starts it and waits until it watches.
   *
   * @throws {RampartRefused} when it ends before that.
   */
  static async start({ mode, names, directory, signal, onAlert }: WatchOptions): Promise<WatchProcess> {
    const paths = names.map((name) => `${directory}/${name}`);
    const words = ['watch', '-o', 'json', '--mode', mode, ...paths];
    const watch = new WatchProcess({ words, signal, onAlert });
    try {
      watch.mode = await watch.saysMode(/ watching \d+ paths? by /);
      return watch;
    } catch (error) {
      await watch[Symbol.asyncDispose]();
      throw error;
    }
  }
}
