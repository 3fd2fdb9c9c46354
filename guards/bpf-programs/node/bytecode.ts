/** Provides the bytecode of each parent: from a file immediately, from an image once it has been pulled. */
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { forTenant } from '../../../lib/oci/tenant-error.ts';
import type { Parent } from '../engine/parent.ts';
import type { BytecodeImage } from '../spec-schema.ts';
import { fileState, readObjectFile } from './bytecode-file.ts';
import type { BytecodeVerification } from './bytecode-verification.ts';

/** The current state of a parent's bytecode. */
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
  /** Programs declared by the labels of the image, with their types; undefined if it has no such labels. */
  readonly types?: Readonly<Record<string, string>> | undefined;
  /** Why this may not be the newest version. */
  readonly stale?: string | undefined;
  /** Why it may not be loaded: the error about its signatures. */
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
  /** If set, bytecode in files must be allowed by it. */
  readonly verification?: BytecodeVerification | undefined;
  /** Called when the state of a parent has changed. */
  readonly onChange: () => void;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/** How often an image with the pull policy Always is pulled again: its tag may have moved. */
const ALWAYS_MS = 60_000;
const RETRY = { baseMs: 1_000, maxMs: 60_000 };
/** A cached image is available sooner than this: its object need not report in between that it is being pulled. */
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
  /** The first pull of an image; a pass may wait for it. */
  first: Promise<void> | undefined;
  /** When to ask the registry again, by the monotonic clock; Infinity: only after a change. */
  dueMs: number;
}

export class BytecodeSource implements Disposable {
  readonly #options: BytecodeOptions;
  /** Files with bytecode, keyed by path. */
  readonly #files = new Map<string, FileEntry>();
  /** Keyed by the parent's key. */
  readonly #images = new Map<string, ImageEntry>();

  constructor(options: BytecodeOptions) {
    this.#options = options;
  }

  /**
   * The state of a parent's bytecode. Starts fetching it if it is missing; `onChange` is called once it is available. Files are checked
   * each time.
   */
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
   * Waits briefly for images that are being pulled for the first time; `onChange` is not called for those that arrive meanwhile.
   *
   * @returns whether there were any to wait for.
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

  /** Forgets all other parents. */
  keepOnly(parents: ReadonlySet<string>): void {
    for (const [key, { stop }] of this.#images) {
      if (parents.has(key)) continue;
      stop.abort();
      this.#images.delete(key);
    }
  }

  /** Milliseconds until an image has to be looked up in its registry again. */
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
        // Retried, since the image may be signed later.
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
    // Called even if nothing changed: whoever waits needs to know when the next attempt is due.
    if (entry.first === undefined) this.#options.onChange();
  }

  #failureOf(error: unknown, parent: Parent): string {
    return `${parent.fields.bytecode}.image: ${messageOf(this.#reported(error, parent))}`;
  }

  /** Logs the complete error, and returns the error to show in the object. */
  #reported(error: unknown, parent: Parent): unknown {
    this.#options.logger.warn(
      { parent: parent.key, err: error },
      'cannot use an image with bytecode, retrying',
    );
    return isOfTenant(parent) ? forTenant(error) : error;
  }
}

/** Whether the parent belongs to a tenant. Its author chooses the registry's host, and must not learn from errors what listens there. */
export const isOfTenant = ({ kind }: Parent): boolean => kind.scope === 'Namespaced';

function failed(message: string): BytecodeState {
  return { is: 'failed', message };
}
