/**
 * The types of kernel modules, to which programs are adapted (CO-RE). libbpf reads them with BPF_BTF_GET_NEXT_ID, which needs
 * CAP_SYS_ADMIN (bpf_obj_get_next_id of kernel/bpf/syscall.c): without that, libbpf up to 1.3 gives up, and later versions
 * ignore modules. All users may read these types in /sys/kernel/btf, so they are appended to the kernel's types here.
 */
import { closeSync, constants, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';

import { effectiveCapabilities } from './features/capabilities.ts';
import { type Pointer, withLibbpfLog } from './ffi.ts';
import { FixedBuffer } from './libc.ts';

/** A file for `btf_custom_path`. Dispose it once the object is loaded. */
export interface KernelTypes extends Disposable {
  readonly path: string;
}

/** Rampart's programs use the types of this file system, which is a module in most distributions and built in elsewhere. */
const MODULE = 'overlay';

/** struct btf_header, Documentation/bpf/btf.rst. Fields that later kernels have after `str_len` are not about types. */
const headerAt = { headerBytes: 4, typesAt: 8, typesBytes: 12, stringsAt: 16, stringsBytes: 20 } as const;
const HEADER_BYTES = 24;
const MAGIC = 0xeb9f;
const VERSION = 1;
/**
 * For a file without a name in the file system of a directory, which is deleted when it is closed (open(2), O_TMPFILE;
 * include/uapi/asm-generic/fcntl.h). O_DIRECTORY has another value on arm64.
 */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;

/** Whether the kernel lets libbpf read the types of modules. */
export function mayAskForModules(): boolean {
  return effectiveCapabilities().includes('CAP_SYS_ADMIN');
}

/**
 * The types of the kernel and the module, for a libbpf that may not read the latter; undefined if the module is built in or
 * not loaded.
 *
 * @param directory - Where the kernel provides its types; for tests.
 * @throws {Error} if a file cannot be read or written.
 */
export function typesWithModule(directory = '/sys/kernel/btf'): KernelTypes | undefined {
  const [kernel, module] = [`${directory}/vmlinux`, `${directory}/${MODULE}`];
  if (!existsSync(kernel) || !existsSync(module)) return undefined;
  return nameless(joinTypes(readFileSync(kernel), readFileSync(module)));
}

/** Offsets in struct bpf_object_open_opts, bpf/libbpf.h. By its size, libbpf knows which fields it has. */
const openOptionsAt = { sizeBytes: 0, typesPath: 48 } as const;
const OPEN_OPTIONS_BYTES = 56;

/** Options for bpf_object__open_mem, and the text to which they point. Keep both referenced until it returns. */
export function openOptions(path: string): { readonly options: FixedBuffer; readonly text: FixedBuffer } {
  const text = new FixedBuffer(path.length + 1);
  text.writeText(path);
  const options = new FixedBuffer(OPEN_OPTIONS_BYTES);
  options.bytes.fill(0);
  options.bytes.writeBigUInt64LE(BigInt(OPEN_OPTIONS_BYTES), openOptionsAt.sizeBytes);
  options.bytes.writeBigUInt64LE(BigInt(text.address), openOptionsAt.typesPath);
  return { options, text };
}

/**
 * libbpf requests the types of modules once for each object, and does not load the object if the kernel refuses, even if it
 * needs them only for a weak symbol that an older kernel lacks. This makes it request them now, by naming a function that no
 * kernel has, because now a refusal has no consequence.
 */
export function doNotAskForModules(object: Pointer): void {
  withLibbpfLog((lib) => {
    const program = lib.objectNextProgram(object, null);
    return program === null ? 0 : lib.programSetAttachTarget(program, 0, 'no_kernel_has_this_function');
  });
}

/**
 * Joins the types of the kernel and of a module by appending: a module's type IDs and string offsets continue where the
 * kernel's end (Documentation/bpf/btf.rst, split BTF).
 */
export function joinTypes(kernel: Buffer, module: Buffer): Buffer {
  const [base, split] = [sectionsOf(kernel), sectionsOf(module)];
  return btfOf([base.types, split.types], [base.strings, split.strings]);
}

/** A BTF file with these types and strings. */
export function btfOf(types: readonly Uint8Array[], strings: readonly Uint8Array[]): Buffer {
  const sizeOf = (parts: readonly Uint8Array[]): number => parts.reduce((sum, part) => sum + part.length, 0);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16LE(MAGIC, 0);
  header.writeUInt8(VERSION, 2);
  header.writeUInt32LE(HEADER_BYTES, headerAt.headerBytes);
  header.writeUInt32LE(sizeOf(types), headerAt.typesBytes);
  header.writeUInt32LE(sizeOf(types), headerAt.stringsAt);
  header.writeUInt32LE(sizeOf(strings), headerAt.stringsBytes);
  return Buffer.concat([header, ...types, ...strings]);
}

function sectionsOf(bytes: Buffer): { readonly types: Buffer; readonly strings: Buffer } {
  const at = bytes.readUInt32LE(headerAt.headerBytes);
  const section = (offset: number, size: number): Buffer => {
    const start = at + bytes.readUInt32LE(offset);
    return bytes.subarray(start, start + bytes.readUInt32LE(size));
  };
  return {
    types: section(headerAt.typesAt, headerAt.typesBytes),
    strings: section(headerAt.stringsAt, headerAt.stringsBytes),
  };
}

/** Writes a file without a name, in memory if possible: the root of a container may be read-only. */
function nameless(bytes: Buffer): KernelTypes {
  const fd = openTemporary(['/dev/shm', tmpdir()]);
  try {
    for (let written = 0; written < bytes.length;) written += writeSync(fd, bytes, written);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return { path: `/proc/self/fd/${fd}`, [Symbol.dispose]: () => closeSync(fd) };
}

function openTemporary([directory = '', ...others]: readonly string[]): number {
  try {
    return openSync(directory, O_TMPFILE | constants.O_RDWR, 0o600);
  } catch (error) {
    if (others.length === 0) throw error;
    return openTemporary(others);
  }
}
