/**
 * What was said of file integrity on the command line, as the guard takes it.
 *
 * @module
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';

import manifest from '../../package.json' with { type: 'json' };
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import type { IntegrityOptions } from '../options.ts';
import type { NodeIntegrityOptions } from './guards.ts';

/** @throws {RampartError} `INPUT` where the root of the host is no directory. */
export function nodeIntegrityOptions(
  { hostRoot, integrityReadRate, integrityWorkers }: IntegrityOptions,
  directory: string,
): NodeIntegrityOptions {
  if (directory === '') {
    throw new RampartError(errorCodes.INPUT, {
      what: '--integrity-directory is empty',
      next: 'Give a path.',
    });
  }
  if (hostRoot === '' || statSync(hostRoot, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--host-root ${JSON.stringify(hostRoot)} is no directory`,
      next: 'Give the directory where the root of the node is mounted, or leave it out on the node itself.',
    });
  }
  return {
    hostRoot: resolve(hostRoot),
    directory: resolve(directory),
    version: manifest.version,
    readBytesPerSecond: integrityReadRate,
    workers: integrityWorkers,
  };
}
