/** Our table, as it is in the kernel. */
import type { Nftables } from './nftables.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { parseJsonListing } from './listing-json.ts';
import { parseTextListing } from './listing-text.ts';
import { tableName } from './names.ts';
import type { TableObject, TableObjects } from './objects.ts';

/** nft fails; a missing capability or library is something else. */
export function isRefusal(error: unknown): error is RampartError {
  return error instanceof RampartError && error.code === errorCodes.SYSTEM;
}

/** Of a table that is read or deleted: there is none. */
export function isMissing(error: unknown): boolean {
  return isRefusal(error) && error.message.includes('No such file or directory');
}

/** To compare it with what should be there. Undefined: there is none. @throws {RampartError} */
export function readTable(nft: Nftables): Map<string, TableObject> | undefined {
  const listing = list(nft, false);
  return listing === undefined ? undefined : parseTextListing(listing);
}

/** With its rules as data, except for comments of chains. Undefined: there is none. @throws {RampartError} */
export function readRules(nft: Nftables): TableObjects | undefined {
  const listing = list(nft, true);
  return listing === undefined ? undefined : parseJsonListing(listing);
}

function list(nft: Nftables, json: boolean): string | undefined {
  try {
    return nft.list(`list table ${tableName}`, { stateless: true, json });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
