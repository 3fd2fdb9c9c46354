import { readFileSync } from 'node:fs';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';

/** Identifies the running kernel: the same for all nodes that share it, different after each boot. @throws {RampartError} `SYSTEM` */
export function readKernelId(path = '/proc/sys/kernel/random/boot_id'): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'cannot identify this kernel',
      why: String(cause),
      cause,
    });
  }
}
