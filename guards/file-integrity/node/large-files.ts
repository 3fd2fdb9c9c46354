/**
 * Reads large files after a scan. The scan's findings in other files are already reported, so they do not wait for
 * large ones. The last known state of a large file is kept until it is read.
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
  /** Whether changes must not be reported now; a scan follows then. */
  readonly isHeld: () => boolean;
  /** Called when a large file was read. */
  readonly onRead: () => void;
}

export class LargeFiles {
  readonly #options: LargeFilesOptions;
  /** Files to read; the first one is being read. */
  readonly #paths = new Set<ByteString>();
  #running: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined;

  constructor(options: LargeFilesOptions) {
    this.#options = options;
  }

  get paths(): ReadonlySet<ByteString> {
    return this.#paths;
  }

  /** Adds files to read; a file that waits or is being read is not added twice. */
  add(paths: Iterable<ByteString>): void {
    for (const path of paths) this.#paths.add(path);
  }

  /** Reads the waiting files, and compares them with the current baseline. */
  start(job: IntegrityJob, provider: IntegrityProvider): void {
    if (this.#running !== undefined || this.#paths.size === 0) return;
    // This provider reads all files in its scans.
    if (provider.readLarge === undefined) return this.#paths.clear();
    const stop = new AbortController();
    this.#running = { stop, ended: this.#run(job, provider, stop.signal) };
  }

  /** Stops reading; the files wait for the next start. */
  async stop(): Promise<void> {
    this.#running?.stop.abort();
    await this.#running?.ended;
  }

  /** Call when a new baseline was made: it contains the current state of these files. */
  clear(): void {
    this.#paths.clear();
  }

  async #run(job: IntegrityJob, provider: IntegrityProvider, signal: AbortSignal): Promise<void> {
    const { findings, isHeld, logger, nowMs, onRead, progress } = this.#options;
    try {
      // More files may be added meanwhile.
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
