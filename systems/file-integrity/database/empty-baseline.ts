/**
 * A baseline of nothing would never change, and hide that nothing is guarded. AIDE only warns (`rule tree is empty`).
 *
 * @module
 */
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';

/** @param unread - Files that are selected and could not be read. */
export function emptyBaseline(unread: number): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: 'no baseline was created',
    why:
      unread === 0
        ? 'the configuration selects no file that exists'
        : `none of the files that the configuration selects could be read (${unread} failed)`,
    next: "Check its rules, and the mount point of the machine's root file system",
  });
}
