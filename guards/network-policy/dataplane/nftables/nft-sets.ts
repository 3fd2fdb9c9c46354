/** Sets and maps of nftables as data. */
import type { Address, AddressRange, Family } from '../../engine/rules.ts';
import type { Verdict } from './rule.ts';

interface SetOf<Kind extends 'set' | 'map', Holds extends string, Element> {
  readonly kind: Kind;
  readonly name: string;
  readonly holds: Holds;
  readonly family: Family;
  /** Keyed by their keys, as nft lists these. */
  readonly elements: ReadonlyMap<string, Element>;
}

export type AddressElements = SetOf<'set', 'addresses', undefined>;
export type RangeElements = SetOf<'set', 'ranges', AddressRange>;
export type EndpointElements = SetOf<'set', 'endpoints', EndpointElement>;
export type PairElements = SetOf<'set', 'pairs', AddressPair>;
/** Verdicts by address. */
export type VerdictElements = SetOf<'map', 'verdicts', Verdict>;
/** Names of counters, or of limits, by address. */
export type ObjectElements = SetOf<'map', 'counters' | 'limits', string>;

export interface EndpointElement {
  readonly address: Address;
  /** IANA's protocol number. */
  readonly protocol: number;
  readonly port: number;
}

export interface AddressPair {
  readonly first: Address;
  readonly second: Address;
}

/** A set of another program, as listed: it differs from any of ours, and can only be deleted. */
export interface UnknownSet {
  readonly kind: 'set' | 'map';
  readonly name: string;
  readonly holds: 'unknown';
  readonly type: string;
  readonly elements: ReadonlyMap<string, undefined>;
}

export type ElementSet =
  | AddressElements
  | RangeElements
  | EndpointElements
  | PairElements
  | VerdictElements
  | ObjectElements
  | UnknownSet;

/** Parses the elements of a listing. Undefined if one of them does not have the form of ours. */
export function elementsOf<Item, Element>(
  items: readonly Item[],
  read: (item: Item) => readonly [string, Element] | undefined,
): Map<string, Element> | undefined {
  const elements = items.map(read).filter((element) => element !== undefined);
  return elements.length === items.length ? new Map(elements) : undefined;
}
