/** AIDE's failures as RampartErrors. */
import { errorCodes, RampartError, type ErrorCode } from '../../../lib/errors/errors.ts';
import { printable } from '../report/printable.ts';

/** aide(1), exit status. */
const codes: Readonly<Record<number, readonly [code: ErrorCode, next: string]>> = {
  14: [errorCodes.SYSTEM, 'Check the disk of its databases. The baseline is unchanged'],
  15: [errorCodes.UNSUPPORTED, 'Install AIDE 0.18 or 0.19'],
  17: [errorCodes.INPUT, 'Correct the configuration'],
  19: [errorCodes.UNSUPPORTED, 'Initialize again with this version of AIDE'],
  22: [errorCodes.LIMIT, 'Allow more memory, or select fewer files'],
  24: [errorCodes.CORRUPT, 'Initialize again'],
};
/** 0.19 does not say why it could not write all of its database, and removes what there was: a full disk, most often. */
const full = /No space left on device|Disk quota exceeded|\(remove incompletely written database\)/;
/** Lines of what it said that are told. */
const maxLines = 20;

/**
 * @param run what AIDE was doing: `make a baseline`
 * @param messages what it said on stderr, one character a byte
 */
export function aideFailure(
  run: string,
  { code, why }: { readonly code: number | undefined; readonly why: string },
  messages: string,
): RampartError {
  const lines = messages
    .split('\n')
    .map((line) => printable(line.trim()))
    .filter((line) => line !== '');
  // What ended it comes last, but for a configuration with many faults, which are told one by one.
  const errors = lines.filter((line) => line.startsWith('ERROR'));
  const told = (errors.length > 0 ? errors : lines).slice(-maxLines);
  const isFull = told.some((line) => full.test(line));
  const [known, next] = (code === undefined ? undefined : codes[code]) ?? [
    errorCodes.SYSTEM,
    'The state of the files is unknown. The baseline is unchanged',
  ];
  return new RampartError(isFull ? errorCodes.FULL : known, {
    what: `AIDE could not ${run}`,
    why: code === undefined ? why : `${why} (exit code ${code})`,
    next: isFull ? 'Free space on the file system of its databases. The baseline is unchanged' : next,
    ...(told.length > 0 && { detail: told.join('\n') }),
  });
}
