import type { RampartError } from '../../lib/errors/errors.ts';
import { LineWriter } from '../../lib/output/lines.ts';
import { say } from '../../lib/cli/process.ts';
import type { MetricsRegistry } from '../guard.ts';

/** Writes lines to stdout; ends the process if its reader is gone. The caller disposes of it, which reports how many lines were dropped. */
export class FindingOutput implements AsyncDisposable {
  readonly #out: LineWriter;
  #failure: RampartError | undefined;

  constructor(end: () => void) {
    this.#out = new LineWriter(process.stdout.fd, { name: 'stdout' });
    void this.#out.closed.then((closed) => {
      if (closed.reason === 'disposed') return;
      if (closed.reason === 'failed') this.#failure = closed.error;
      end();
    });
  }

  /** One line, without a newline. Never waits. */
  write(line: string): void {
    this.#out.write(line);
  }

  get dropped(): number {
    return this.#out.dropped;
  }

  /** @throws {RampartError} the reason if stdout has failed. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#out[Symbol.asyncDispose]();
    if (this.#out.dropped > 0) say(`${this.#out.dropped} lines dropped: the reader of stdout is too slow`);
  }
}

/** Registers `rampart_alert_lines_dropped_total`. @throws if the registry already has it. */
export function registerDropped(
  metrics: Pick<MetricsRegistry, 'counter'> | undefined,
  out: Pick<FindingOutput, 'dropped'>,
): void {
  metrics?.counter(
    {
      name: 'rampart_alert_lines_dropped_total',
      help: 'Alert lines dropped because stdout was too slow or closed.',
    },
    () => out.dropped,
  );
}
