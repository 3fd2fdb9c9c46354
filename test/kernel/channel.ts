/**
 * The byte stream from the guest: what the command writes, with two marks in it that the guest's
 * start script adds, one before the command starts and one with its exit code when it has ended.
 */
import { StringDecoder } from 'node:string_decoder';

/** Told what the stream says, in the order of the stream. */
export interface ChannelEvents {
  started(): void;
  /** Output of the command as it came, without the marks. */
  output(text: string): void;
  /** The command has ended; all of its output was given before. Nothing follows. */
  exited(exitCode: number): void;
}

/** First character of a mark: ASCII record separator, which programs hardly ever print. */
const MARK_START = '\x1e';
/** No mark is longer: the word, "start" or "exit" and a number. */
const MARK_LIMIT = 80;

/** The mark for one run; `nonce` must be hard to guess, so that no program prints it by chance. */
export function markFor(nonce: string): string {
  return `${MARK_START}${nonce}`;
}

/** Returns the function that takes the bytes as they come, in pieces of any size. */
export function channelReader(mark: string, events: ChannelEvents): (bytes: Uint8Array) => void {
  const decoder = new StringDecoder('utf8');
  const pattern = new RegExp(`${mark} (?:(start)|exit (\\d+))\n`);
  let held = '';
  let ended = false;

  const emit = (text: string): void => {
    if (text !== '') events.output(text);
  };
  return (bytes) => {
    if (ended) return;
    held += decoder.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    for (;;) {
      const match = pattern.exec(held);
      if (match === null) break;
      emit(held.slice(0, match.index));
      held = held.slice(match.index + match[0].length);
      if (match[1] !== undefined) {
        events.started();
        continue;
      }
      ended = true;
      events.exited(Number(match[2]));
      return;
    }
    // Keep back only what may be the beginning of a mark.
    const start = held.lastIndexOf(MARK_START);
    const isPartOfMark = start >= 0 && held.length - start < MARK_LIMIT;
    emit(isPartOfMark ? held.slice(0, start) : held);
    held = isPartOfMark ? held.slice(start) : '';
  };
}

/** Returns the function that takes text in pieces and gives `onLine` whole lines; `end` gives the rest. */
export function lineSplitter(onLine: (line: string) => void): {
  readonly write: (text: string) => void;
  readonly end: () => void;
} {
  let rest = '';
  return {
    write(text) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) onLine(line.endsWith('\r') ? line.slice(0, -1) : line);
    },
    end() {
      if (rest !== '') onLine(rest);
      rest = '';
    },
  };
}
