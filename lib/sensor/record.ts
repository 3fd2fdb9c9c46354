/** Decodes records in place: {@link AccessRecord} is a window that is moved, so a batch allocates nothing. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { may, type Access, type FileIdentity, type Verdict } from './access.ts';
import { commSizeBytes, record as at, recordFlags, verdicts } from './layout.ts';
import type { WallClock } from './clock.ts';

/** The texts of one process at one moment; shared between records that carry the same bytes. */
interface Texts {
  readonly comm: string;
  readonly executable: string;
  readonly cwd: string;
  readonly arguments: string;
  readonly cgroup: string;
  readonly from: string;
  readonly to: string;
}

/** How many different texts are remembered; a process that touches a file often does it with the same. */
const REMEMBERED_TEXTS = 4096;

const NUL = '\0';

/** Turns components, leaf first, each ended by NUL, into "/a/b/c". If the kernel's walk was cut off, the beginning is missing. */
export function joinPath(components: string): string {
  const names = components.split(NUL);
  names.pop(); // behind the last NUL
  return `/${names.reverse().join('/')}`;
}

/** Turns argv, as in the kernel, into argv[1..] joined by spaces. */
function joinArguments(bytes: string, cut: boolean): string {
  // When argv itself was cut its last string has no end, but it is still an argument.
  const whole = cut || !bytes.endsWith(NUL) ? bytes : bytes.slice(0, -1);
  const end = whole.indexOf(NUL);
  return end < 0 ? '' : whole.slice(end + 1).replaceAll(NUL, ' ');
}

/** File names are bytes; what is not UTF-8 in them shows as U+FFFD. */
function text(bytes: Buffer, from: number, to: number): string {
  return bytes.toString('utf8', from, to);
}

/** One record of a batch, seen through the fields of {@link Access}. Valid until it is moved on. */
export class AccessRecord implements Access {
  /** How many accesses of this process were folded since its last record; set by the owner of the ledger. */
  folded = 0;
  readonly #clock: WallClock;
  readonly #texts = new Map<string, Texts>();
  readonly #remembered: number;
  #view: DataView = new DataView(new ArrayBuffer(0));
  #bytes: Buffer = Buffer.alloc(0);
  #offset = 0;
  #length = 0;
  #current: Texts | undefined;

  /** @param remembered - How many different texts are kept, some 500 bytes each. */
  constructor(clock: WallClock, remembered: number = REMEMBERED_TEXTS) {
    this.#clock = clock;
    this.#remembered = remembered;
  }

  /** Sets the memory that the next records are in. */
  setMemory(bytes: Uint8Array): void {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** @throws {RampartError} `DECODE` when the `length` bytes at `offset` are no record of this version. */
  moveTo(offset: number, length: number): void {
    const view = this.#view;
    if (length < at.sizeBytes || offset < 0 || offset + length > view.byteLength) {
      throw malformed(`${length} bytes at ${offset}, at least ${at.sizeBytes} expected`);
    }
    const textBytes =
      view.getUint16(offset + at.executableBytes, true) +
      view.getUint16(offset + at.cwdBytes, true) +
      view.getUint16(offset + at.argumentBytes, true) +
      view.getUint16(offset + at.cgroupBytes, true) +
      view.getUint16(offset + at.fromBytes, true) +
      view.getUint16(offset + at.toBytes, true);
    if (at.sizeBytes + textBytes !== length) {
      throw malformed(`a record of ${length} bytes declares ${textBytes} bytes of text`);
    }
    if (view.getUint8(offset + at.verdict) >= verdicts.length) {
      throw malformed(`verdict ${view.getUint8(offset + at.verdict)}`);
    }
    this.#offset = offset;
    this.#length = length;
    this.#current = undefined;
    this.folded = 0;
  }

  #u32(field: number): number {
    return this.#view.getUint32(this.#offset + field, true);
  }

  #u64(field: number): bigint {
    return this.#view.getBigUint64(this.#offset + field, true);
  }

  get timeNs(): bigint {
    return this.#clock.wallNs(this.#u64(at.timeNs));
  }
  /** The kernel's own time of the access, CLOCK_MONOTONIC. */
  get monotonicNs(): bigint {
    return this.#u64(at.timeNs);
  }
  get inode(): bigint {
    return this.#u64(at.inode);
  }
  get device(): number {
    return this.#u32(at.device);
  }
  get mask(): number {
    return this.#u32(at.mask) & ~may.NOT_BLOCK;
  }
  get verdict(): Verdict {
    return verdicts[this.#view.getUint8(this.#offset + at.verdict)] ?? 'unknown';
  }
  /** Id of the target of this access, see Targets. */
  get targetId(): number {
    return this.#u32(at.targetId);
  }
  get foldedTotal(): number {
    return this.#u32(at.foldedTotal);
  }
  get bucketBornNs(): bigint {
    return this.#u64(at.bucketBornNs);
  }
  get tid(): number {
    return this.#u32(at.tid);
  }
  get pid(): number {
    return this.#u32(at.pid);
  }
  get ppid(): number {
    return this.#u32(at.ppid);
  }
  get uid(): number {
    return this.#u32(at.uid);
  }
  get gid(): number {
    return this.#u32(at.gid);
  }
  get cgroupId(): bigint {
    return this.#u64(at.cgroupId);
  }
  get pidNamespace(): number {
    return this.#u32(at.pidNamespace);
  }
  get mountNamespace(): number {
    return this.#u32(at.mountNamespace);
  }
  get #flags(): number {
    return this.#view.getUint8(this.#offset + at.flags);
  }
  get executableTruncated(): boolean {
    return (this.#flags & recordFlags.executableCut) !== 0;
  }
  get executableFile(): FileIdentity | undefined {
    const inode = this.#u64(at.executableInode);
    if (inode === 0n) return undefined;
    return {
      inode,
      device: this.#u32(at.executableDevice),
      generation: this.#u32(at.executableGeneration),
    };
  }
  get cwdTruncated(): boolean {
    return (this.#flags & recordFlags.cwdCut) !== 0;
  }
  get argumentsTruncated(): boolean {
    return (this.#flags & (recordFlags.argumentsCut | recordFlags.argumentsUnreadable)) !== 0;
  }
  get namesOfFileSystem(): boolean {
    return (this.#flags & recordFlags.namesOfFileSystem) !== 0;
  }
  get comm(): string {
    return this.#allTexts().comm;
  }
  get executable(): string {
    return this.#allTexts().executable;
  }
  get cwd(): string {
    return this.#allTexts().cwd;
  }
  get arguments(): string {
    return this.#allTexts().arguments;
  }
  get cgroup(): string {
    return this.#allTexts().cgroup;
  }
  get from(): string {
    return this.#allTexts().from;
  }
  get to(): string {
    return this.#allTexts().to;
  }

  /** The texts; equal bytes are decoded once. Their key is latin1, which has one character for each byte. */
  #allTexts(): Texts {
    if (this.#current !== undefined) return this.#current;
    const key = this.#bytes.toString('latin1', this.#offset + at.flags, this.#offset + this.#length);
    let texts = this.#texts.get(key);
    if (texts === undefined) {
      texts = this.#decodeTexts();
      if (this.#texts.size >= this.#remembered) this.#texts.clear();
      this.#texts.set(key, texts);
    }
    this.#current = texts;
    return texts;
  }

  #decodeTexts(): Texts {
    const bytes = this.#bytes;
    const view = this.#view;
    const flags = this.#flags;
    const comm = this.#offset + at.comm;
    const executable = this.#offset + at.sizeBytes;
    const cwd = executable + view.getUint16(this.#offset + at.executableBytes, true);
    const argv = cwd + view.getUint16(this.#offset + at.cwdBytes, true);
    const cgroup = argv + view.getUint16(this.#offset + at.argumentBytes, true);
    const from = cgroup + view.getUint16(this.#offset + at.cgroupBytes, true);
    const to = from + view.getUint16(this.#offset + at.fromBytes, true);
    const end = this.#offset + this.#length;
    const commEnd = bytes.indexOf(0, comm);
    let path = cwd > executable ? joinPath(text(bytes, executable, cwd)) : '';
    if (flags & recordFlags.executableDeleted) path += ' (deleted)';
    return {
      comm: text(bytes, comm, commEnd < 0 || commEnd > comm + commSizeBytes ? comm + commSizeBytes : commEnd),
      executable: path,
      cwd: joinPath(text(bytes, cwd, argv)),
      arguments: joinArguments(text(bytes, argv, cgroup), (flags & recordFlags.argumentsCut) !== 0),
      cgroup: flags & recordFlags.cgroupCut ? '' : joinPath(text(bytes, cgroup, from)),
      from: to > from ? joinPath(text(bytes, from, to)) : '',
      to: end > to ? joinPath(text(bytes, to, end)) : '',
    };
  }
}

function malformed(why: string): RampartError {
  return new RampartError(errorCodes.DECODE, {
    what: 'cannot decode a record of the sensor',
    why,
    next: 'The eBPF object and this program are from different versions; reinstall',
  });
}
