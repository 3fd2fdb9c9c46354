/**
 * Encodes commands as nf_tables messages. The bytes are the same as libnftables' for the text of the same commands
 * (encode.property.test.ts), so nft lists them the same way.
 */
import { addressValue } from '../../engine/addresses.ts';
import type { Address, Family } from '../../engine/rules.ts';
import { encodeRule } from './encode-rule.ts';
import {
  addressBytes,
  addressTextBytes,
  commentData,
  endpointBytes,
  fits,
  inexpressible,
  maxPort,
  maxProtocol,
} from './encode-values.ts';
import type { ElementSet, RangeElements } from './nft-sets.ts';
import type { NftablesBatch } from './nftables-batch.ts';
import type { Chain, Command, TableObject } from './objects.ts';
import { baseText, setTypeText } from './rule-text.ts';

/** Keeps lists below the limit of an attribute, whose length has 16 bits: an element has up to some hundred bytes. */
const elementsPerMessage = 400;

/** Fields of keys: the number of their type in nft (include/datatype.h), and their size in a key. */
const addressFields = { 4: { type: 7, sizeBytes: 4 }, 6: { type: 8, sizeBytes: 16 } } as const;
const protocolField = { type: 12, sizeBytes: 4 } as const;
const portField = { type: 13, sizeBytes: 4 } as const;
const BITS_OF_TYPE = 6;
const NFT_DATA_VERDICT = 0xffffff00;
const setFlags = { interval: 4, map: 8, objects: 64 } as const;
/** NFT_OBJECT_* */
const objectTypes = { counter: 1, limit: 4 } as const;
const mappedObjects = { counters: objectTypes.counter, limits: objectTypes.limit } as const;
const INTERVAL_END = 1;
/**
 * Properties that nft stores with a set: the byte order of key and data, which matters when listing it
 * (libnftnl/udata.h).
 */
const byteOrder = { host: 0, network: 2 } as const;
/** Marks the last range of a set if no address follows it, so that no further element can end it. */
const openInterval = Buffer.of(1, 4, 1, 0, 0, 0);
const MINUTE_SECONDS = 60;
const hooks = { input: 1, forward: 2, output: 3 } as const;

export class Encoder {
  readonly #batch: NftablesBatch;
  /** Encoded addresses: a pod is in the sets of many peers. */
  readonly #addresses = new Map<string, Buffer>();
  #sets = 0;

  constructor(batch: NftablesBatch) {
    this.#batch = batch;
  }

  /** @throws {RampartError} `UNSUPPORTED` for what nftables cannot express; the batch must not be sent then. */
  command(command: Command): void {
    const batch = this.#batch;
    switch (command.do) {
      case 'add table':
        return batch.message('newTable', () => batch.number(2, 0));
      case 'delete table':
        return batch.message('deleteTable');
      case 'add':
        return this.#add(command.object);
      case 'delete':
        return this.#delete(command.object);
      case 'flush chain':
        return batch.message('deleteRule', () => batch.text(2, command.chain));
      case 'add rule':
        return encodeRule(batch, command.chain, command.rule, () => ++this.#sets);
      case 'add element':
      case 'delete element':
        return this.#elements(command.do === 'add element', command.set, command.keys);
    }
  }

  #add(object: TableObject): void {
    const batch = this.#batch;
    switch (object.kind) {
      case 'counter':
      case 'limit':
        return batch.message('newObject', () => {
          batch.text(2, object.name);
          batch.number(3, objectTypes[object.kind]);
          batch.nest(4, () => {
            if (object.kind === 'limit') return batch.rate(object.perMinute, MINUTE_SECONDS, object.burst);
            batch.number64(1, 0);
            batch.number64(2, 0);
          });
        });
      case 'chain':
        return batch.message('newChain', () => this.#chain(object));
      case 'set':
      case 'map':
        return batch.message('newSet', () => this.#set(object));
    }
  }

  #chain({ name, base, comment }: Chain): void {
    const batch = this.#batch;
    batch.text(3, name);
    if (base !== undefined) {
      if ('text' in base) throw inexpressible(baseText(base));
      batch.nest(4, () => {
        batch.number(1, hooks[base.hook]);
        batch.number(2, base.priority);
      });
      batch.number(5, 1);
      batch.text(7, 'filter');
    }
    if (comment !== undefined) batch.data(12, commentData(comment));
  }

  #set(set: ElementSet): void {
    const batch = this.#batch;
    if (set.holds === 'unknown') throw inexpressible(setTypeText(set));
    const address = addressFields[set.family];
    const fields =
      set.holds === 'endpoints'
        ? [address, protocolField, portField]
        : set.holds === 'pairs'
          ? [address, address]
          : [address];
    const isMap = set.holds === 'verdicts';
    const objects = set.holds === 'counters' || set.holds === 'limits' ? mappedObjects[set.holds] : undefined;
    const order = fields.length === 1 ? byteOrder.network : byteOrder.host;
    batch.text(2, set.name);
    batch.number(
      3,
      (set.holds === 'ranges' ? setFlags.interval : 0) |
        (isMap ? setFlags.map : 0) |
        (objects === undefined ? 0 : setFlags.objects),
    );
    batch.number(
      4,
      fields.reduce((all, field) => (all << BITS_OF_TYPE) | field.type, 0),
    );
    batch.number(
      5,
      fields.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    );
    if (isMap) {
      batch.number(6, NFT_DATA_VERDICT);
      batch.number(7, 0);
    }
    if (objects !== undefined) batch.number(15, objects);
    batch.number(10, ++this.#sets);
    const data = isMap ? [1, 4, byteOrder.host, 0, 0, 0] : [];
    batch.data(13, Buffer.from([0, 4, order, 0, 0, 0, ...data]));
  }

  #delete({ kind, name }: TableObject): void {
    const batch = this.#batch;
    if (kind === 'chain') batch.message('deleteChain', () => batch.text(3, name));
    else if (kind === 'set' || kind === 'map') batch.message('deleteSet', () => batch.text(2, name));
    else
      batch.message('deleteObject', () => {
        batch.text(2, name);
        batch.number(3, objectTypes[kind]);
      });
  }

  #elements(isNew: boolean, set: ElementSet, keys: readonly string[]): void {
    const batch = this.#batch;
    const encode = this.#elementEncoder(isNew, set);
    for (let from = 0; from < keys.length; from += elementsPerMessage) {
      batch.message(isNew ? 'newElements' : 'deleteElements', () => {
        batch.text(2, set.name);
        batch.nest(3, () => {
          const end = Math.min(from + elementsPerMessage, keys.length);
          for (let at = from; at < end; at++) encode(keys[at] as string);
        });
      });
    }
  }

  #elementEncoder(isNew: boolean, set: ElementSet): (key: string) => void {
    const batch = this.#batch;
    switch (set.holds) {
      case 'addresses':
        return (address) => batch.keyItem(this.#address(set.family, address));
      case 'verdicts':
        return (address) => {
          const key = this.#address(set.family, address);
          const verdict = isNew ? set.elements.get(address) : undefined;
          if (verdict === undefined) return batch.keyItem(key);
          batch.item(() => {
            batch.value(1, key);
            batch.verdictValue(2, verdict.kind, 'chain' in verdict ? verdict.chain : undefined);
          });
        };
      case 'counters':
      case 'limits':
        return (address) => {
          const key = this.#address(set.family, address);
          const name = isNew ? set.elements.get(address) : undefined;
          if (name === undefined) return batch.keyItem(key);
          batch.item(() => {
            batch.value(1, key);
            batch.text(9, name);
          });
        };
      case 'endpoints':
        return (key) => {
          const endpoint = set.elements.get(key);
          const isKnown =
            endpoint !== undefined && fits(endpoint.protocol, maxProtocol) && fits(endpoint.port, maxPort);
          if (!isKnown) throw inexpressible(key);
          batch.keyItem(endpointBytes(this.#address(set.family, endpoint.address), endpoint));
        };
      case 'pairs':
        return (key) => {
          const pair = set.elements.get(key);
          if (pair === undefined) throw inexpressible(key);
          const [first, second] = [pair.first, pair.second].map((one) => this.#address(set.family, one)) as [
            Buffer,
            Buffer,
          ];
          batch.keyItem(Buffer.concat([first, second]));
        };
      case 'ranges':
        return (key) => this.#range(set, key);
      case 'unknown':
        throw inexpressible(setTypeText(set));
    }
  }

  #address(family: Family, address: Address): Buffer {
    // Addresses of the two families have no text in common.
    let bytes = this.#addresses.get(address);
    if (bytes === undefined) this.#addresses.set(address, (bytes = addressTextBytes(family, address)));
    return bytes;
  }

  /** A range is encoded as its first address, and the one after its last, if there is one. */
  #range({ family, elements }: RangeElements, key: string): void {
    const batch = this.#batch;
    const range = elements.get(key);
    if (range === undefined) throw inexpressible(key);
    const [low, high] = [addressValue(range.first), addressValue(range.last)];
    if (low > high) throw inexpressible(key);
    const isOpen = high === (1n << (family === 4 ? 32n : 128n)) - 1n;
    batch.item(() => {
      batch.value(1, addressBytes(family, low));
      if (isOpen) batch.data(6, openInterval);
    });
    if (isOpen) return;
    batch.item(() => {
      batch.number(3, INTERVAL_END);
      batch.value(1, addressBytes(family, high + 1n));
    });
  }
}
