/** Unix sockets by their path, however long it is. */
import { closeSync, constants, openSync } from 'node:fs';
import { basename, dirname } from 'node:path';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** `sun_path` has 108 bytes with its NUL (unix(7)); libuv cuts a longer one and does not say so. */
const MAX_BYTES = 107;

/** The path to give to `listen` or `connect`. Keep it until the socket is closed. */
export class SocketPath implements Disposable {
  readonly address: string;
  readonly #directory: number | undefined;

  /** @throws {RampartError} `INPUT` for a name that is too long by itself; what `open(2)` throws for a missing directory. */
  constructor(path: string) {
    if (Buffer.byteLength(path) <= MAX_BYTES) {
      this.address = path;
      return;
    }
    const directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
    this.#directory = directory;
    // The same file, by a short name.
    this.address = `/proc/self/fd/${directory}/${basename(path)}`;
    if (Buffer.byteLength(this.address) <= MAX_BYTES) return;
    closeSync(directory);
    throw new RampartError(errorCodes.INPUT, {
      what: `the socket ${path}`,
      why: `the path of a unix socket is limited to about 80 bytes`,
      next: 'Choose a shorter path',
    });
  }

  [Symbol.dispose](): void {
    if (this.#directory !== undefined) closeSync(this.#directory);
  }
}
