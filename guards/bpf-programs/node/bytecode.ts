/** The bytecode of each parent: known at once for a file, after a while for an image. */
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { forTenant } from '../../../lib/oci/tenant-error.ts';
import type { Parent } from '../engine/parent.ts';
import type { BytecodeImage } from '../spec-schema.ts';
import { fileState, readObjectFile } from './bytecode-file.ts';
import type { BytecodeVerification } from './bytecode-verification.ts';

/** The present state of a parent's bytecode. */
export type BytecodeState =
  | { readonly is: 'pending'; readonly message: string }
  | { readonly is: 'failed'; readonly message: string }
  | ({ readonly is: 'ready' } & Omit<PulledBytecode, 'untrusted'> & {
        /** Why it may not be loaded. */
        readonly untrusted?: string | undefined;
      });

/** A file, or an image that has been pulled. */
export interface PulledBytecode {
  readonly digest: string;
  readonly bytes: () => Promise<Uint8Array>;
  /** Programs that the labels of the image declare, with their types; undefined if it has no such labels. */
  readonly types?: Readonly<Record<string, string>> | undefined;
  /** Why it is not known whether this is the newest. */
  readonly stale?: string | undefined;
  /** Why it may not be loaded: an error about its signatures. */
  readonly untrusted?: unknown;
}

/**
 * Gets the bytecode of an image.
 *
 * @throws {Error} whose message says why, and what to do.
 */
export type PullBytecode = (
  image: BytecodeImage,
  parent: Parent,
  signal: AbortSignal,
) => Promise<PulledBytecode>;

export interface BytecodeOptions {
  readonly hostRoot: string;
  readonly pull: PullBytecode;
  /** If given, files must be allowed by it. */
  readonly verification?: BytecodeVerification | undefined;
  /** Called when the state of a parent has changed. */
  readonly onChange: () => void;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/** A tag that is always pulled may point elsewhere. */
const ALWAYS_MS = 60_000;
const RETRY = { baseMs: 1_000, maxMs: 60_000 };
/** A cached image arrives sooner than this: its object need not report first that it is being pulled. */
const SOON_MS = 100;

interface FileEntry {
  readonly key: string;
  readonly digest: string;
}

interface ImageEntry {
  readonly key: string;
  readonly stop: AbortController;
  readonly backoff: Backoff;
  state: BytecodeState;
  running: boolean;
  /** The first pull, which the first pass may await. */
  first: Promise<void> | undefined;
  /** Monotonic; when the registry is queried again. Infinity: not without a change. */
  dueMs: number;
}

export class BytecodeSource implements Disposable {
  readonly #options: BytecodeOptions;
  /** Files of bytecode by path. */
  readonly #files = new Map<string, FileEntry>();
  /** Keyed by the key of the parent. */
  readonly #images = new Map<string, ImageEntry>();

  constructor(options: BytecodeOptions) {
    this.#options = options;
  }

  /** Starts to fetch it if it is missing; `onChange` is called when it has come. Files are checked each time. */
  stateOf(parent: Parent): BytecodeState {
    const { path, image } = parent.bytecode;
    const { bytecode: field } = parent.fields;
    if (image !== undefined && path === undefined) return this.#image(parent, image);
    if (path === undefined || image !== undefined) {
      return failed(`${field}: set exactly one of image and path.`);
    }
    if (isOfTenant(parent)) {
      return failed(
        `${field}.path: a ${parent.kind.kind} may not read files of the node. Use image, or the cluster-scoped kind.`,
      );
    }
    return this.#file(path, field);
  }

  /**
   * Waits a moment for what was requested for the first time: `onChange` is not called for it then.
   *
   * @returns whether something was.
   * @throws the signal's reason
   */
  async soon(signal: AbortSignal): Promise<boolean> {
    const entries = [...this.#images.values()];
    const firsts = entries.flatMap(({ first }) => first ?? []);
    if (firsts.length === 0) return false;
    const pause = new AbortController();
    const late = sleep(systemClock, SOON_MS, AbortSignal.any([signal, pause.signal]));
    try {
      await Promise.race([Promise.all(firsts), late]);
    } finally {
      for (const entry of entries) entry.first = undefined;
      late.catch(() => undefined);
      pause.abort();
    }
    return true;
  }

  /** Forgets the parents that are not among these. */
  keepOnly(parents: ReadonlySet<string>): void {
    for (const [key, { stop }] of this.#images) {
      if (parents.has(key)) continue;
      stop.abort();
      this.#images.delete(key);
    }
  }

  /** Milliseconds until a registry must be queried again. */
  get dueInMs(): number {
    let dueMs = Infinity;
    for (const one of this.#images.values()) if (!one.running) dueMs = Math.min(dueMs, one.dueMs);
    return Math.max(0, dueMs - systemClock.monotonicMs());
  }

  [Symbol.dispose](): void {
    this.keepOnly(new Set());
  }

  #file(path: string, field: string): BytecodeState {
    const { hostRoot, verification } = this.#options;
    try {
      verification?.checkFile(path);
    } catch (error) {
      return failed(`${field}.path: ${messageOf(error)}`);
    }
    try {
      const { key } = fileState(hostRoot, path);
      let known = this.#files.get(path);
      if (known?.key !== key) {
        const read = readObjectFile(hostRoot, path);
        known = { key: read.key, digest: read.digest };
        this.#files.set(path, known);
      }
      const { digest } = known;
      return {
        is: 'ready',
        digest,
        bytes: async () => {
          const read = readObjectFile(hostRoot, path);
          if (read.digest === digest) return read.bytes;
          this.#options.onChange();
          throw new RampartError(errorCodes.SYSTEM, { what: `${path} changed while it was loaded` });
        },
      };
    } catch (error) {
      return failed(
        `${field}.path: ${messageOf(error)}. Put the object file on this node, or use image. Retrying.`,
      );
    }
  }

  #image(parent: Parent, image: BytecodeImage): BytecodeState {
    const key = JSON.stringify([image.url, image.imagepullpolicy, image.imagepullsecret]);
    let entry = this.#images.get(parent.key);
    if (entry?.key !== key) {
      entry?.stop.abort();
      entry = {
        key,
        stop: new AbortController(),
        backoff: new Backoff(RETRY),
        state: { is: 'pending', message: `Pulling ${image.url}.` },
        running: false,
        first: undefined,
        dueMs: 0,
      };
      this.#images.set(parent.key, entry);
      entry.first = this.#pull(entry, parent, image);
    } else if (!entry.running && systemClock.monotonicMs() >= entry.dueMs) {
      void this.#pull(entry, parent, image);
    }
    return entry.state;
  }

  async #pull(entry: ImageEntry, parent: Parent, image: BytecodeImage): Promise<void> {
    entry.running = true;
    const signal = AbortSignal.any([this.#options.signal, entry.stop.signal]);
    const before = entry.state;
    try {
      const { untrusted, ...pulled } = await this.#options.pull(image, parent, signal);
      const bytes = (): Promise<Uint8Array> =>
        pulled.bytes().catch((error: unknown) => {
          throw this.#reported(error, parent);
        });
      if (untrusted === undefined) {
        entry.state = { is: 'ready', ...pulled, bytes };
        entry.backoff.reset();
        entry.dueMs = image.imagepullpolicy === 'Always' ? systemClock.monotonicMs() + ALWAYS_MS : Infinity;
      } else {
        // The image may be signed later.
        const message = `${this.#failureOf(untrusted, parent)}\nRetrying.`;
        entry.state = { is: 'ready', ...pulled, bytes, untrusted: message };
        entry.dueMs = systemClock.monotonicMs() + entry.backoff.nextMs();
      }
    } catch (error) {
      if (signal.aborted) return;
      const message = this.#failureOf(error, parent);
      entry.state = before.is === 'ready' ? { ...before, stale: message } : failed(`${message}\nRetrying.`);
      entry.dueMs = systemClock.monotonicMs() + entry.backoff.nextMs();
    } finally {
      entry.running = false;
    }
    // Notifies even if nothing changed: callers that wait must know when it is due again.
    if (entry.first === undefined) this.#options.onChange();
  }

  #failureOf(error: unknown, parent: Parent): string {
    return `${parent.fields.bytecode}.image: ${messageOf(this.#reported(error, parent))}`;
  }

  /** The error for its object; the log has all of it. */
  #reported(error: unknown, parent: Parent): unknown {
    this.#options.logger.warn(
      { parent: parent.key, err: error },
      'cannot use an image with bytecode, retrying',
    );
    return isOfTenant(parent) ? forTenant(error) : error;
  }
}

/** The author of the object chooses the host, but must not find out what listens there. */
export const isOfTenant = ({ kind }: Parent): boolean => kind.scope === 'Namespaced';

function failed(message: string): BytecodeState {
  return { is: 'failed', message };
}
