import type { Server } from 'node:net';

import type { Address } from './address.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';

/**
 * Resolves when the server listens on TCP.
 *
 * @param what - What it serves, for the error.
 * @throws {RampartError} `SYSTEM` if it cannot
 */
export async function listen(server: Server, { host, port }: Address, what: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ host, port }, resolve);
  try {
    await promise;
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot serve ${what} on ${host}:${port}`,
      why: error instanceof Error ? error.message : String(error),
      next: 'Choose another address, or stop the process that uses this one',
      cause: error,
    });
  } finally {
    server.removeListener('error', reject);
  }
}
