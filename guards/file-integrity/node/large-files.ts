/**
 * Reads large files after a scan, while the findings in the others are already reported: no file waits for
 * another one. The last known state of a large file stays until it has been read.
 */
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { ByteString } from '../model/entry.ts';
import type { IntegrityJob, IntegrityProvider, RunOptions } from '../provider/provider.ts';
import type { CurrentFindings } from '../results/findings.ts';

export interface LargeFilesOptions {
  readonly findings: CurrentFindings;
  readonly logger: Logger;
  readonly nowMs: () => number;
  readonly progress: () => RunOptions['onProgress'];
  /** Changes are not reported then; a scan follows. */
  readonly isHeld: () => boolean;
  /** A large file has been read. */
  readonly onRead: () => void;
}

export class LargeFiles {
  readonly #options: LargeFilesOptions;
  /** To be read; the first is being read. */
  readonly #paths = new Set<ByteString>();
  #running: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined;

  constructor(options: LargeFilesOptions) {
    this.#options = options;
  }

  get paths(): ReadonlySet<ByteString> {
    return this.#paths;
  }

  /** Adds files to read; one that waits or is being read is not read twice. */
  add(paths: Iterable<ByteString>): void {
    for (const path of paths) this.#paths.add(path);
  }

  /** Reads the waiting files, and compares them with the present baseline. */
  start(job: IntegrityJob, provider: IntegrityProvider): void {
    if (this.#running !== undefined || this.#paths.size === 0) return;
    // This provider has no large files: it reads all files itself.
    if (provider.readLarge === undefined) return this.#paths.clear();
    const stop = new AbortController();
    this.#running = { stop, ended: this.#run(job, provider, stop.signal) };
  }

  /** Stops reading; the files wait for the next start. */
  async stop(): Promise<void> {
    this.#running?.stop.abort();
    await this.#running?.ended;
  }

  /** A new baseline has their present state. */
  clear(): void {
    this.#paths.clear();
  }

  async #run(job: IntegrityJob, provider: IntegrityProvider, signal: AbortSignal): Promise<void> {
    const { findings, isHeld, logger, nowMs, onRead, progress } = this.#options;
    try {
      // More may come meanwhile.
      while (this.#paths.size > 0 && !signal.aborted) {
        const files = provider.readLarge?.(job, [...this.#paths], { signal, ...progressOf(progress()) });
        for await (const file of files ?? []) {
          if (signal.aborted) return;
          this.#paths.delete(file.path);
          if (!isHeld()) findings.readLarge(file, nowMs());
          onRead();
        }
      }
    } catch (err) {
      if (signal.aborted) return;
      logger.error({ err }, 'large files could not be compared');
      const code = err instanceof RampartError ? err.code : errorCodes.SYSTEM;
      for (const path of this.#paths)
        findings.readLarge({ path, problem: { path, code, message: messageOf(err) } }, nowMs());
      this.#paths.clear();
      onRead();
    } finally {
      this.#running = undefined;
    }
  }
}

function progressOf(onProgress: RunOptions['onProgress']): Pick<RunOptions, 'onProgress'> {
  return onProgress === undefined ? {} : { onProgress };
}
