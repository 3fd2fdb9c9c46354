/**
 * nftables in this process: libnftables takes commands as text and speaks netlink with the kernel. No program is started
 * (docs/decisions/0011-nftables-by-libnftables.md).
 */
import { closeSync, writeFileSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';

import { errno, libc, type Libnftables, libnftables, type Pointer } from '../../../../lib/ebpf/ffi.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

/** `NFT_CTX_OUTPUT_*` of libnftables.h. */
const outputFlags = {
  stateless: 4,
  json: 16,
  numericProtocol: 128,
  numericPriority: 256,
} as const;

interface ListOptions {
  /** Output in JSON, not in nft's own language. */
  readonly json?: boolean;
  /** Omits what packets change: the values of counters. */
  readonly stateless?: boolean;
}

/**
 * A context of libnftables, with a netlink socket in the network namespace that the calling thread had when it was opened.
 * Calls are synchronous. Dispose it after use.
 *
 * @example
 * using nft = new Nftables();
 * nft.run('add table inet mine');
 * process.stdout.write(nft.list('list table inet mine'));
 */
export class Nftables implements Disposable {
  #context: Pointer | null;

  /** @throws {RampartError} `UNSUPPORTED` without libnftables, `SYSTEM` if it cannot create a context. */
  constructor() {
    const lib = libnftables();
    this.#context = lib.ctxNew(0);
    if (this.#context === null) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: 'cannot open nftables',
        why: 'libnftables returned no context',
        next: 'A context requires a netlink socket: is memory available, and does the kernel support nf_tables?',
      });
    }
    lib.ctxBufferOutput(this.#context);
    lib.ctxBufferError(this.#context);
  }

  /**
   * Runs commands as one transaction: all of them, or none.
   *
   * @throws {RampartError} `SYSTEM` with nft's message and the line that failed; nothing was changed then.
   */
  run(commands: string): void {
    // Commands are read from a file: if they are in a buffer, the errors of libnftables 1.0 quote its first line, whichever line failed
    // (erec.c).
    const fd = libc.memfdCreate('nftables', 0);
    if (fd < 0) {
      const why = `memfd_create: ${getSystemErrorName(-errno())}`;
      throw new RampartError(errorCodes.SYSTEM, { what: 'cannot pass commands to nftables', why });
    }
    try {
      writeFileSync(fd, commands);
      this.#run((lib, context) => lib.runCmdFromFilename(context, `/proc/self/fd/${fd}`), 0);
    } finally {
      closeSync(fd);
    }
  }

  /**
   * The output of a `list` command. Protocols and priorities are numbers: their names depend on files of the
   * machine.
   */
  list(command: string, { json = false, stateless = false }: ListOptions = {}): string {
    let flags = outputFlags.numericPriority | outputFlags.numericProtocol;
    if (json) flags |= outputFlags.json;
    if (stateless) flags |= outputFlags.stateless;
    return this.#run((lib, context) => lib.runCmdFromBuffer(context, command), flags);
  }

  #run(call: (lib: Libnftables, context: Pointer) => number, flags: number): string {
    const context = this.#context;
    if (context === null) {
      throw new RampartError(errorCodes.DISPOSED, { what: 'this nftables context was disposed' });
    }
    const lib = libnftables();
    lib.ctxOutputSetFlags(context, flags);
    const result = call(lib, context);
    // Both buffers have to be read: only reading empties them (libnftables.c, nft_ctx_get_output_buffer).
    const output = lib.ctxOutput(context) ?? '';
    const message = lib.ctxError(context) ?? '';
    if (result !== 0) throw nftablesError(message);
    return output;
  }

  [Symbol.dispose](): void {
    if (this.#context === null) return;
    libnftables().ctxFree(this.#context);
    this.#context = null;
  }
}

/**
 * An error of nft: `/proc/self/fd/20:1:1-9: Error: Could not process rule: No such file or directory`, and on the
 * next line the command that failed.
 */
const complaint = /Error: (.*)\n(.*)/;
const shownCharacters = 300;

function nftablesError(message: string): RampartError {
  const [, why, line] = complaint.exec(message) ?? [];
  if (message.includes('Operation not permitted')) {
    return new RampartError(errorCodes.PRIVILEGE, {
      what: 'cannot use nftables',
      why: 'Operation not permitted',
      next: 'Run it with CAP_NET_ADMIN in the user namespace of this network',
    });
  }
  return new RampartError(errorCodes.SYSTEM, {
    what: line ? `nftables refused \`${shorten(line.trim())}\`` : 'nftables refused a change',
    why: why ?? shorten(message.trim() || 'no reason given'),
  });
}

/** Shortens a text for a message. */
export function shorten(text: string): string {
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}...` : text;
}
