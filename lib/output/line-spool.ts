/** Lines waiting to be written, as bytes. */

/** Bytes that go out in one write: `buffer` up to `usedBytes`, whole lines. */
export interface Chunk {
  readonly buffer: Buffer;
  usedBytes: number;
  lines: number;
}

/**
 * Lines are encoded together once they are this long, about ten alerts. One line beyond Latin-1 makes
 * all of them two-byte strings, which are much slower to encode: with 64 KiB, one such line in a
 * hundred made the whole three times slower.
 */
const ENCODE_UNITS = 8 * 1024;
const CHUNK_BYTES = 128 * 1024;
/** UTF-8 takes at most three bytes for a UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3;

/** A queue of lines that encodes many at once and hands them out as chunks, oldest first. */
export class LineSpool {
  readonly #full: Chunk[] = [];
  /** The chunk that lines are encoded into. It joins the full ones when it has no more room, or when `first` needs it. */
  #filling: Chunk | undefined;
  /** A used buffer for the next chunk. */
  #spare: Buffer | undefined;
  #pending = '';
  #pendingLines = 0;
  #encodedBytes = 0;

  /** Size of all that waits. Text that is not encoded yet, up to 8 KiB, counts one byte per UTF-16 unit. */
  get sizeBytes(): number {
    return this.#encodedBytes + this.#pending.length;
  }

  /** Adds a line, without its newline. */
  append(line: string): void {
    this.#pending += line + '\n';
    this.#pendingLines++;
    if (this.#pending.length >= ENCODE_UNITS) this.#encode();
  }

  /** The oldest chunk, complete: nothing is appended to it. It stays the first until it is removed. */
  first(): Chunk | undefined {
    if (this.#full.length === 0) {
      if (this.#pendingLines > 0) this.#encode();
      if (this.#filling !== undefined) this.#full.push(this.#filling);
      this.#filling = undefined;
    }
    return this.#full[0];
  }

  /** Drops the oldest chunk; its buffer is reused, so it must no longer be read. */
  removeFirst(): void {
    const chunk = this.#full.shift();
    if (chunk === undefined) return;
    this.#encodedBytes -= chunk.usedBytes;
    if (chunk.buffer.byteLength === CHUNK_BYTES) this.#spare = chunk.buffer;
  }

  /** Drops all lines, and frees the buffers. */
  clear(): void {
    this.#full.length = 0;
    this.#filling = undefined;
    this.#spare = undefined;
    this.#pending = '';
    this.#pendingLines = 0;
    this.#encodedBytes = 0;
  }

  #encode(): void {
    const chunk = this.#chunkWithRoom(this.#pending.length * MAX_BYTES_PER_UNIT);
    const sizeBytes = chunk.buffer.write(this.#pending, chunk.usedBytes, 'utf8');
    chunk.usedBytes += sizeBytes;
    chunk.lines += this.#pendingLines;
    this.#encodedBytes += sizeBytes;
    this.#pending = '';
    this.#pendingLines = 0;
  }

  #chunkWithRoom(sizeBytes: number): Chunk {
    const current = this.#filling;
    if (current !== undefined) {
      if (current.buffer.byteLength - current.usedBytes >= sizeBytes) return current;
      this.#full.push(current);
    }
    let buffer = sizeBytes <= CHUNK_BYTES ? this.#spare : undefined;
    if (buffer !== undefined) this.#spare = undefined;
    // allocUnsafeSlow: a part of Node's shared pool would keep the whole pool alive.
    else buffer = Buffer.allocUnsafeSlow(Math.max(sizeBytes, CHUNK_BYTES));
    this.#filling = { buffer, usedBytes: 0, lines: 0 };
    return this.#filling;
  }
}
