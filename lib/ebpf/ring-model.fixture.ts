/** A model of the kernel's side of a ring buffer, for tests and benchmarks that want no kernel. */
import type { RingMemory } from './ring.ts';

/** BPF_RINGBUF_BUSY_BIT and BPF_RINGBUF_DISCARD_BIT (include/uapi/linux/bpf.h). */
export const BUSY: number = 2 ** 31;
export const DISCARD: number = 2 ** 30;

export const u64 = (value: bigint): bigint => BigInt.asUintN(64, value);
/** Bytes a record takes in the ring: header and padding included. */
export const spanOf = (length: number): number => Math.ceil((length + 8) / 8) * 8;

/** A record in the ring, as the model remembers it. */
export interface Reservation {
  readonly position: bigint;
  readonly payload: Uint8Array;
  state: 'busy' | 'committed' | 'discarded';
}

/** The producer half of kernel/bpf/ringbuf.c over plain memory; it writes each byte to both halves. */
export class ModelProducer implements RingMemory {
  readonly consumer: ArrayBuffer = new ArrayBuffer(8);
  readonly producer: ArrayBuffer = new ArrayBuffer(8);
  readonly data: ArrayBuffer;
  readonly sizeBytes: number;
  readonly #view: DataView;

  constructor(sizeBytes: number, position: bigint) {
    this.sizeBytes = sizeBytes;
    this.data = new ArrayBuffer(2 * sizeBytes);
    this.#view = new DataView(this.data);
    this.consumerPosition = position;
    this.producerPosition = position;
  }

  get consumerPosition(): bigint {
    return new DataView(this.consumer).getBigUint64(0, true);
  }
  set consumerPosition(value: bigint) {
    new DataView(this.consumer).setBigUint64(0, value, true);
  }
  get producerPosition(): bigint {
    return new DataView(this.producer).getBigUint64(0, true);
  }
  set producerPosition(value: bigint) {
    new DataView(this.producer).setBigUint64(0, value, true);
  }

  /** __bpf_ringbuf_reserve: refuses what would bring the producer more than size - 1 ahead. */
  reserve(payload: Uint8Array): Reservation | undefined {
    const position = this.producerPosition;
    const next = u64(position + BigInt(spanOf(payload.length)));
    if (u64(next - this.consumerPosition) > BigInt(this.sizeBytes - 1)) return undefined;
    this.setHeader(position, payload.length + BUSY);
    this.producerPosition = next;
    return { position, payload, state: 'busy' };
  }

  /** A program writes its record, then bpf_ringbuf_commit. */
  settle(record: Reservation, state: 'committed' | 'discarded'): void {
    const start = this.#offset(record.position) + 8;
    for (const [i, byte] of record.payload.entries()) this.#setByte(start + i, byte);
    record.state = state;
    this.setHeader(record.position, record.payload.length + (state === 'discarded' ? DISCARD : 0));
  }

  setHeader(position: bigint, length: number): void {
    for (const half of [0, this.sizeBytes]) this.#view.setUint32(this.#offset(position) + half, length, true);
  }

  #offset(position: bigint): number {
    return Number(position % BigInt(this.sizeBytes));
  }

  #setByte(offset: number, byte: number): void {
    const inRing = offset % this.sizeBytes;
    this.#view.setUint8(inRing, byte);
    this.#view.setUint8(inRing + this.sizeBytes, byte);
  }
}
