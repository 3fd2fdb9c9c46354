/**
 * Files that a configuration includes, as AIDE takes them: regular ones only.
 *
 * @module
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs';

/** @throws where it cannot be read, and where it is a FIFO or a device, which would never end */
export function readRegularFile(path: string): Buffer {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(fd).isFile()) throw new Error('it is not a regular file');
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Whether a file of a directory is to be read: a regular one, and what is not there, so that a link that leads nowhere is
 * an error, as to AIDE, and not passed over with its rules.
 */
export function isIncluded(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
}
