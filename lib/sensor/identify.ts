/** Gets the kernel's identity of a file from a descriptor, by the program of bpf/identify.h. */
import type { BpfObject } from '../ebpf/object.ts';
import { errnoName, FixedBuffer } from '../ebpf/libc.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { FileIdentity } from './access.ts';
import { identity as at, state as stateAt } from './layout.ts';

/** Runs the identify program of a loaded object; valid while the object is open. */
export class Identifier {
  readonly #found: DataView;
  /** Prepared once, because it is run often, for each path that is followed. */
  readonly #program: () => number;
  /** Two u64, of which the first is the descriptor. */
  readonly #arguments = new FixedBuffer(16);

  /** @param state - `struct state` of the object, mapped. */
  constructor(object: BpfObject, state: DataView) {
    this.#found = new DataView(state.buffer, stateAt.identity, at.sizeBytes);
    this.#arguments.bytes.fill(0);
    this.#program = object.program('identify').prepareRun(this.#arguments);
  }

  /** @param fd - O_PATH is enough. @throws {RampartError} `SYSTEM` when `fd` is not open. */
  identify(fd: number): FileIdentity {
    this.#run(fd);
    const found = this.#found;
    const error = found.getInt32(at.error, true);
    if (error !== 0) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: `cannot identify descriptor ${fd}`,
        why: errnoName(-error),
      });
    }
    return {
      inode: found.getBigUint64(at.inode, true),
      device: found.getUint32(at.device, true),
      generation: found.getUint32(at.generation, true),
    };
  }

  /** The PID of this process in the initial PID namespace. The program returns it for any descriptor. */
  ownPid(): number {
    this.#run(0);
    return this.#found.getUint32(at.pid, true);
  }

  #run(fd: number): void {
    // Extends the sign: a negative number then is no valid descriptor in 64 bits either.
    this.#arguments.bytes.writeInt32LE(fd, 0);
    this.#arguments.bytes.writeInt32LE(fd >> 31, 4);
    this.#program();
  }
}
