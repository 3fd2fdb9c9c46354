/** Nft's listing of the table that checks sources. */
export interface ListedTable {
  /** Keyed by name: its hook, comment and rules, as nft prints them. */
  readonly chains: ReadonlyMap<string, string>;
  /** Elements, keyed by the name of their set. */
  readonly sets: ReadonlyMap<string, ReadonlySet<string>>;
}

/** @param listing - Empty if the table does not exist. */
export function parseListing(listing: string): ListedTable {
  const chains = new Map<string, string>();
  const sets = new Map<string, ReadonlySet<string>>();
  // An object starts and ends at an indentation of one tab: "\tchain NAME {" ... "\t}".
  for (const [, kind = '', name = '', body = ''] of listing.matchAll(/^\t(\w+) (\S+) \{\n([^]*?)^\t\}$/gm)) {
    if (kind === 'chain') chains.set(name, body);
    if (kind === 'set') sets.set(name, elementsIn(body));
  }
  return { chains, sets };
}

function elementsIn(body: string): ReadonlySet<string> {
  const [, list = ''] = /elements = \{([^}]*)\}/.exec(body) ?? [];
  return new Set(list.split(',').flatMap((element) => element.trim() || []));
}
