import { FindingCounts } from './finding-counts.ts';

/** Takes a finding of a guard: a line as `findingLine` writes it. Never waits. */
export type FindingSink = (guard: string, line: string) => void;

/** All findings of a process. Each is counted, and passed to all outputs: stdout, the socket of `rampart alerts`. */
export class FindingStream {
  readonly counts = new FindingCounts();
  readonly #outputs: FindingSink[] = [];

  readonly sink: FindingSink = (guard, line) => {
    this.counts.add(guard, line);
    for (const output of this.#outputs) output(guard, line);
  };

  /** Adds an output. Call before any guard runs. */
  to(output: FindingSink): void {
    this.#outputs.push(output);
  }
}
