/** Splits bytes into lines. */
import { errorCodes, RampartError } from '../../errors/errors.ts';

const NEWLINE = 0x0a;

/**
 * Cuts a stream of UTF-8 bytes into lines. A line is decoded when it is complete, so chunks may end anywhere,
 * also inside of a character: the byte of a newline is part of no other character.
 */
export class LineDecoder {
  readonly #maxLineBytes: number;
  readonly #isLenient: boolean;
  readonly #decoder: InstanceType<typeof TextDecoder>;
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  /**
   * A line may have up to `maxLineBytes`, its newline not counted; no more is ever kept.
   *
   * @param isLenient - Takes lines whatever they are: what is not UTF-8 becomes U+FFFD, and what is too long is left out.
   */
  constructor(maxLineBytes: number, isLenient = false) {
    this.#maxLineBytes = maxLineBytes;
    this.#isLenient = isLenient;
    this.#decoder = new TextDecoder('utf-8', { fatal: !isLenient, ignoreBOM: true });
  }

  /** Bytes of the line that is not complete yet. */
  get pendingBytes(): number {
    return this.#partBytes;
  }

  /**
   * The lines that `chunk` completes, without their newlines. The chunk is kept until its last line is complete,
   * so it must not be written to again.
   *
   * @throws {RampartError} `LIMIT` for a line that is too long, `DECODE` for one that is not UTF-8; lines
   *   before it have been yielded.
   */
  *push(chunk: Uint8Array): Generator<string, void> {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#append(chunk.subarray(from, end));
      from = end + 1;
      yield* this.rest();
    }
    if (from < chunk.length) this.#append(chunk.subarray(from));
  }

  #append(part: Uint8Array): void {
    this.#partBytes += part.length;
    if (this.#partBytes > this.#maxLineBytes) {
      this.#parts = [];
      if (this.#isLenient) return;
      throw new RampartError(errorCodes.LIMIT, {
        what: `a line of over ${this.#maxLineBytes} bytes from the Kubernetes API`,
      });
    }
    this.#parts.push(part);
  }

  /**
   * Yields the bytes since the last newline as a line, which may be empty; nothing if a lenient decoder leaves the line out.
   *
   * @throws {RampartError} `DECODE` if the line is not UTF-8, unless the decoder is lenient.
   */
  *rest(): Generator<string, void> {
    const isLeftOut = this.#partBytes > this.#maxLineBytes;
    const [only] = this.#parts;
    const line = this.#parts.length === 1 && only ? only : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partBytes = 0;
    if (isLeftOut) return;
    try {
      yield this.#decoder.decode(line);
    } catch (error) {
      throw new RampartError(errorCodes.DECODE, {
        what: 'a line from the Kubernetes API',
        why: 'it is not UTF-8',
        cause: error,
      });
    }
  }
}
