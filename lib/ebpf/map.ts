/** Maps: key-value stores shared between eBPF programs and this process. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { errno, fileCalls, libbpf, libc, type Pointer, syscallNumbers, viewMemory } from './ffi.ts';
import { ENOTSUPP, errnoName, FixedBuffer } from './libc.ts';

const ENOENT = 2;
const E2BIG = 7;
const EINVAL = 22;
const BPF_MAP_UPDATE_BATCH = 26;
/** Offsets of the fields of `batch` in `union bpf_attr` (include/uapi/linux/bpf.h). */
const batchAt = { keys: 16, values: 24, count: 32, mapFd: 36, sizeBytes: 56 } as const;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/** One map of an object, which is released with the object. Keys and values are bytes in kernel layout. */
export class BpfMap {
  readonly name: string;
  readonly #owned: () => Pointer;
  #fd = -1;
  #batch: FixedBuffer | undefined;

  /** @param owned - Returns the map; throws `DISPOSED` if its object is closed, since the memory is then freed. */
  constructor(owned: () => Pointer, name: string) {
    this.#owned = owned;
    this.name = name;
  }

  get #pointer(): Pointer {
    return this.#owned();
  }

  /** The map's descriptor, which the object owns; -1 before the object is loaded. */
  get fd(): number {
    const pointer = this.#pointer;
    // Cached, because the descriptor never changes once it exists, and getting it takes as long as a change of the map.
    if (this.#fd < 0) this.#fd = libbpf().mapFd(pointer);
    return this.#fd;
  }

  get maxEntries(): number {
    return libbpf().mapMaxEntries(this.#pointer);
  }

  /** Set it before the object is loaded. */
  set maxEntries(entries: number) {
    if (libbpf().mapSetMaxEntries(this.#pointer, entries) !== 0) throw this.#failed('resize', errno());
  }

  get keySizeBytes(): number {
    return libbpf().mapKeySize(this.#pointer);
  }

  get valueSizeBytes(): number {
    return libbpf().mapValueSize(this.#pointer);
  }

  /** Call it before the object is loaded. */
  setSizes(keySizeBytes: number, valueSizeBytes: number): void {
    const lib = libbpf();
    if (
      lib.mapSetKeySize(this.#pointer, keySizeBytes) !== 0 ||
      lib.mapSetValueSize(this.#pointer, valueSizeBytes) !== 0
    )
      throw this.#failed('resize', errno());
  }

  /** enum bpf_map_type. */
  get type(): number {
    return libbpf().mapType(this.#pointer);
  }

  /** BPF_F_* of bpf.h. */
  get flags(): number {
    return libbpf().mapFlags(this.#pointer);
  }

  /** Whether libbpf made the map from a section of global variables (`.rodata`, `.bss`). */
  get internal(): boolean {
    return libbpf().mapIsInternal(this.#pointer);
  }

  /** Whether the object file requests pinning by name (LIBBPF_PIN_BY_NAME); false after {@link neverPin}. */
  get pinnedByName(): boolean {
    return libbpf().mapPinPath(this.#pointer) !== null;
  }

  /** Turns off pinning by name, which the object file may request and which would let others share the map. Call before loading. */
  neverPin(): void {
    libbpf().mapSetPinPath(this.#pointer, null);
  }

  /** Replaces this map with that of `fd`. libbpf does not check whether they are compatible: compare first. Call before loading. */
  reuse(fd: number): void {
    if (libbpf().mapReuseFd(this.#pointer, fd) !== 0) throw this.#failed('reuse', errno());
  }

  lookup(key: Uint8Array): Uint8Array | undefined {
    const value = new Uint8Array(this.valueSizeBytes);
    if (libbpf().mapLookup(this.fd, key, value) === 0) return value;
    const code = errno();
    if (code === ENOENT) return undefined;
    throw this.#failed('read', code);
  }

  /** Removes and returns the value of `key`, if it exists. Atomic since 5.14; on older kernels, a write in between is lost. */
  take(key: Uint8Array): Uint8Array | undefined {
    const value = new Uint8Array(this.valueSizeBytes);
    if (libbpf().mapLookupAndDelete(this.fd, key, value) === 0) return value;
    const code = errno();
    if (code === ENOENT) return undefined;
    if (code !== ENOTSUPP && code !== EINVAL) throw this.#failed('take from', code);
    const read = this.lookup(key);
    this.delete(key);
    return read;
  }

  /** @throws {RampartError} `LIMIT`, with the capacity, if the map is full. */
  set(key: Uint8Array, value: Uint8Array): void {
    if (libbpf().mapUpdate(this.fd, key, value, 0) === 0) return;
    const code = errno();
    if (code === E2BIG) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `eBPF map ${this.name} is full`,
        why: `it has ${this.maxEntries} entries`,
        next: 'Watch fewer files, or raise the capacity',
      });
    }
    throw this.#failed('write', code);
  }

  /**
   * Sets the first `count` of the consecutive `keys` to the corresponding `values`, in one call instead of `count`
   * (BPF_MAP_UPDATE_BATCH, hash maps since 5.6).
   *
   * @returns false if the kernel did not set all of them; call {@link set} to get the reason.
   */
  setAll(keys: FixedBuffer, values: FixedBuffer, count: number): boolean {
    const { fd } = this;
    const { bytes, address } = (this.#batch ??= new FixedBuffer(batchAt.sizeBytes));
    bytes.fill(0);
    bytes.writeBigUInt64LE(BigInt(keys.address), batchAt.keys);
    bytes.writeBigUInt64LE(BigInt(values.address), batchAt.values);
    bytes.writeUInt32LE(count, batchAt.count);
    bytes.writeInt32LE(fd, batchAt.mapFd);
    const failed = fileCalls.bpf(syscallNumbers.bpf, BPF_MAP_UPDATE_BATCH, address, batchAt.sizeBytes) !== 0;
    return !failed && bytes.readUInt32LE(batchAt.count) === count;
  }

  /** Removes `key`; false if it did not exist. */
  delete(key: Uint8Array): boolean {
    if (libbpf().mapDelete(this.fd, key) === 0) return true;
    const code = errno();
    if (code === ENOENT) return false;
    throw this.#failed('delete from', code);
  }

  /**
   * The keys, in the kernel's order. While others write, a key may be missed or seen again (kernel/bpf/hashtab.c restarts
   * if the previous key is gone), so the iteration is bounded by the map's capacity.
   */
  *keys(): Generator<Uint8Array, void> {
    const lib = libbpf();
    let key: Uint8Array | null = null;
    for (let left = this.maxEntries; left > 0; left--) {
      const next: Uint8Array = new Uint8Array(this.keySizeBytes);
      if (lib.mapNextKey(this.fd, key, next) !== 0) {
        const code = errno();
        if (code === ENOENT) return;
        throw this.#failed('walk', code);
      }
      yield next;
      key = next;
    }
  }

  /**
   * Maps the values of an array map into this process (data sections are such maps, BPF_F_MMAPABLE since 5.5), so that
   * reads and writes access the kernel's memory directly. The caller disposes it.
   */
  mapMemory(): MappedMemory {
    const sizeBytes = this.valueSizeBytes;
    const address = libc.mmap(null, sizeBytes, PROT_READ_WRITE, MAP_SHARED, this.fd, 0);
    if (BigInt.asUintN(64, BigInt(address)) === MAP_FAILED) throw this.#failed('map', errno());
    return new MappedMemory(BigInt(address), sizeBytes);
  }

  #failed(verb: string, code: number): RampartError {
    return new RampartError(errorCodes.EBPF, {
      what: `cannot ${verb} eBPF map ${this.name}`,
      why: errnoName(code),
    });
  }
}

/** Kernel memory mapped into this process. After it is disposed, its view must not be accessed. */
export class MappedMemory implements Disposable {
  readonly #address: Pointer;
  readonly #sizeBytes: number;
  #view: DataView | undefined;

  constructor(address: Pointer, sizeBytes: number) {
    this.#address = address;
    this.#sizeBytes = sizeBytes;
    this.#view = new DataView(viewMemory(address, sizeBytes));
  }

  get view(): DataView {
    if (this.#view === undefined) {
      throw new RampartError(errorCodes.DISPOSED, { what: 'mapped eBPF memory is unmapped' });
    }
    return this.#view;
  }

  [Symbol.dispose](): void {
    if (this.#view === undefined) return;
    this.#view = undefined;
    libc.munmap(this.#address, this.#sizeBytes);
  }
}
