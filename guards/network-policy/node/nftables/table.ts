/** Our table, as it is in the kernel. */
import type { Nftables } from './nftables.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { parseTextListing } from './listing-text.ts';
import { shortDirection, tableName } from './names.ts';
import type { TableObject } from './objects.ts';

/** nft fails; a missing capability or library is something else. */
export function isRefusal(error: unknown): error is RampartError {
  return error instanceof RampartError && error.code === errorCodes.SYSTEM;
}

/** Of a table that is read or deleted: there is none. */
export function isMissing(error: unknown): boolean {
  return isRefusal(error) && error.message.includes('No such file or directory');
}

/** Undefined: there is none. @throws {RampartError} */
export function readTable(nft: Nftables): Map<string, TableObject> | undefined {
  try {
    return parseTextListing(nft.list(`list table ${tableName}`, { stateless: true }));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whether packets pass it: it has more than what has the kernel track connections. */
export function isEnforcing(nft: Nftables): boolean {
  try {
    nft.list(`list chain ${tableName} ${shortDirection.ingress}`);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
