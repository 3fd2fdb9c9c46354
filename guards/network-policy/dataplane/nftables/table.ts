/** Our table in the kernel. */
import type { Nftables } from './nftables.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { parseTextListing } from './listing-text.ts';
import { shortDirection, tableName } from './names.ts';
import type { TableObject } from './objects.ts';

/** Whether nft refused the commands; false for a missing capability or library. */
export function isRefusal(error: unknown): error is RampartError {
  return error instanceof RampartError && error.code === errorCodes.SYSTEM;
}

/** Whether the error says that the table to read or delete is missing. */
export function isMissing(error: unknown): boolean {
  return isRefusal(error) && error.message.includes('No such file or directory');
}

/**
 * The objects of the table; undefined if the table is missing.
 *
 * @throws {RampartError}
 */
export function readTable(nft: Nftables): Map<string, TableObject> | undefined {
  try {
    return parseTextListing(nft.list(`list table ${tableName}`, { stateless: true }));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whether the table filters packets, rather than only making the kernel track connections. */
export function isEnforcing(nft: Nftables): boolean {
  try {
    nft.list(`list chain ${tableName} ${shortDirection.ingress}`);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
