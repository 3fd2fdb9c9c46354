import { type Address, parseAddress } from '../../lib/net/address.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';

/** Where standalone and apiserver listen by default. */
export const defaultListen = '127.0.0.1:7443';

/** @throws {RampartError} `INPUT` for an invalid address */
export function listenAddress(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  throw new RampartError(errorCodes.INPUT, {
    what: `"${text}" is not an address to serve the API on`,
    next: 'Use host:port such as 127.0.0.1:7443 or [::1]:7443',
  });
}
