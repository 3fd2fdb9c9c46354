/**
 * Where an API is to be served, as it is written on a command line.
 *
 * @module
 */
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';

/** @throws {RampartError} `INPUT` */
export function listenAddress(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3] ?? -1);
  if (match === null || port < 0 || port > 65_535) {
    throw new RampartError(errorCodes.INPUT, {
      what: `"${text}" is not an address to serve the API on`,
      next: 'Use host:port such as 127.0.0.1:7443 or [::1]:7443.',
    });
  }
  return { host: match[1] ?? match[2] ?? '', port };
}
