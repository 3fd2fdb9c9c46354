/** Access to a guest's memory. Addresses come from the guest: they are unsigned, and may be out of bounds. */
import type { AskedOfHost } from '../messages.ts';
import { GuestFailure } from './failure.ts';

const decoder = new TextDecoder();

/** The buffer is looked up for each access: when a memory grows, it gets a new one. */
export class GuestMemory {
  readonly #memory: WebAssembly.Memory;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
  }

  /** The memory itself, not a copy. @throws {GuestFailure} if it is out of bounds */
  view(address: number, size: number): Uint8Array {
    const [from, length] = [address >>> 0, size >>> 0];
    if (from + length > this.#memory.buffer.byteLength) {
      throw new GuestFailure(
        'trap',
        `the policy passed ${length} bytes at ${from}, which is outside its memory`,
      );
    }
    return new Uint8Array(this.#memory.buffer, from, length);
  }

  copy(address: number, size: number): Uint8Array {
    return this.view(address, size).slice();
  }

  /** Decodes a text; malformed UTF-8 becomes U+FFFD. */
  text(address: number, size: number): string {
    return decoder.decode(this.view(address, size));
  }

  /** The text up to the next zero byte. @throws {GuestFailure} if it is longer than `max` bytes */
  textAt(address: number, max: number): string {
    const from = address >>> 0;
    const there = new Uint8Array(this.#memory.buffer).subarray(from, from + max + 1);
    const end = there.indexOf(0);
    if (end >= 0) return decoder.decode(there.subarray(0, end));
    if (there.length > max) throw new GuestFailure('answer', `the policy returns more than ${max} bytes`);
    throw new GuestFailure('trap', 'the policy passed an unterminated string');
  }

  /** @param at - Addresses and sizes, alternately, of the binding, the namespace, the operation and the payload. */
  hostCall(at: readonly number[]): AskedOfHost {
    const [binding = '', namespace = '', operation = ''] = [0, 2, 4].map((index) =>
      this.text(at[index] ?? 0, at[index + 1] ?? 0),
    );
    return { binding, namespace, operation, payload: this.copy(at[6] ?? 0, at[7] ?? 0) };
  }

  write(address: number, bytes: Uint8Array): void {
    this.view(address, bytes.length).set(bytes);
  }

  u32(address: number): number {
    const at = this.view(address, 4);
    return new DataView(at.buffer, at.byteOffset).getUint32(0, true);
  }

  setU32(address: number, value: number): void {
    const at = this.view(address, 4);
    new DataView(at.buffer, at.byteOffset).setUint32(0, value, true);
  }

  setU64(address: number, value: bigint): void {
    const at = this.view(address, 8);
    new DataView(at.buffer, at.byteOffset).setBigUint64(0, value, true);
  }
}
