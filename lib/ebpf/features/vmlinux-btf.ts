/** Finds type IDs in the kernel's own BTF with libbpf. */
import { constants } from 'node:os';
import { statSync } from 'node:fs';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { errno, libbpf, type Libbpf, type Pointer, viewMemory } from '../ffi.ts';

const path = '/sys/kernel/btf/vmlinux';
const BTF_KIND_STRUCT = 4;
const BTF_KIND_FUNC = 12;

/** The size of the kernel's BTF; undefined if the kernel does not provide it. */
export function vmlinuxBtfSizeBytes(): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}

/** The kernel's BTF. Parsing takes some milliseconds, and as much memory as the file has (megabytes): dispose it soon. */
export class VmlinuxBtf implements Disposable {
  readonly #lib: Libbpf;
  #btf: Pointer | undefined;

  /** @throws {RampartError} `UNSUPPORTED` without BTF, or without libbpf to read it. */
  constructor() {
    this.#lib = libbpf();
    const btf = this.#lib.btfParseRaw(path);
    if (btf === null) {
      const missing = errno() === constants.errno.ENOENT;
      throw new RampartError(errorCodes.UNSUPPORTED, {
        what: `cannot read ${path}`,
        why: missing ? 'there is no such file' : `errno ${errno()}`,
        next: 'The kernel must be built with CONFIG_DEBUG_INFO_BTF, and /sys must be mounted',
      });
    }
    this.#btf = btf;
  }

  /** The type ID of a kernel function; undefined if the kernel has no function with this name. */
  findFunction(name: string): number | undefined {
    return this.#find(name, BTF_KIND_FUNC);
  }

  findStruct(name: string): number | undefined {
    return this.#find(name, BTF_KIND_STRUCT);
  }

  /** The index of a member in a structure, from 0 (Documentation/bpf/btf.rst, BTF_KIND_STRUCT); undefined if it does not exist. */
  findMember(structId: number, name: string): number | undefined {
    const type = this.#lib.btfTypeById(this.#handle, structId);
    if (type === null) return undefined;
    const memberCount = new DataView(viewMemory(type, 12)).getUint32(4, true) & 0xffff;
    const members = new DataView(viewMemory(type + 12n, Math.max(memberCount, 1) * 12));
    for (let index = 0; index < memberCount; index++) {
      const nameOffset = members.getUint32(index * 12, true);
      if (this.#lib.btfNameByOffset(this.#handle, nameOffset) === name) return index;
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    if (this.#btf === undefined) return;
    this.#lib.btfFree(this.#btf);
    this.#btf = undefined;
  }

  #find(name: string, kind: number): number | undefined {
    const id = this.#lib.btfFindByNameKind(this.#handle, name, kind);
    return id > 0 ? id : undefined;
  }

  get #handle(): Pointer {
    if (this.#btf === undefined) {
      throw new RampartError(errorCodes.DISPOSED, { what: `the BTF of ${path} was already disposed` });
    }
    return this.#btf;
  }
}
