/**
 * Encodes commands as nf_tables messages. Rules and elements are text in nft's language, of which this parses what compile.ts writes.
 * The bytes are the same as libnftables' for the same text (encode.property.test.ts), so nft lists them the same way.
 */
import type { NftablesBatch } from './nftables-batch.ts';
import { encodeRule } from './encode-rule.ts';
import {
  addressBytes,
  commentData,
  elementKey,
  elementRange,
  unreadable,
  verdictOf,
} from './encode-values.ts';
import type { Chain, Command, ElementSet, TableObject } from './objects.ts';

/** The lengths of attributes have 16 bits; an element has up to some hundred bytes. */
const elementsPerMessage = 400;

/** Types of keys: their number in nft (include/datatype.h), and their size in a key. */
const keyTypes: Readonly<Record<string, { readonly type: number; readonly sizeBytes: number }>> = {
  ipv4_addr: { type: 7, sizeBytes: 4 },
  ipv6_addr: { type: 8, sizeBytes: 16 },
  inet_proto: { type: 12, sizeBytes: 4 },
  inet_service: { type: 13, sizeBytes: 4 },
};
const BITS_OF_TYPE = 6;
const NFT_DATA_VERDICT = 0xffffff00;
const setFlags = { interval: 4, map: 8 } as const;
const INTERVAL_END = 1;
/** What nft stores with a set: the byte order of key and data, which matters when listing it (libnftnl/udata.h). */
const byteOrder = { host: 0, network: 2 } as const;
/** Of the last element of a set of ranges: nothing follows to end it. */
const openInterval = Buffer.of(1, 4, 1, 0, 0, 0);
const hooks: Readonly<Record<string, number>> = { input: 1, forward: 2, output: 3 };

export class Encoder {
  readonly #batch: NftablesBatch;
  /** Of elements, by their text: a pod is in the sets of many peers. */
  readonly #keys = new Map<string, Buffer>();
  #sets = 0;

  constructor(batch: NftablesBatch) {
    this.#batch = batch;
  }

  /** @throws {RampartError} `UNSUPPORTED` for what it cannot parse; the batch must not be sent then. */
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
        return batch.message('newObject', () => {
          batch.text(2, object.name);
          batch.number(3, 1);
          batch.nest(4, () => {
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
      const [, type = '', hook = '', priority] =
        /^type (\w+) hook (\w+) priority (-?\d+); policy accept;$/.exec(base) ?? [];
      const number = hooks[hook];
      if (number === undefined) throw unreadable(base);
      batch.nest(4, () => {
        batch.number(1, number);
        batch.number(2, Number(priority));
      });
      batch.number(5, 1);
      batch.text(7, type);
    }
    if (comment !== undefined) batch.data(12, commentData(comment));
  }

  #set({ kind, name, type, interval }: ElementSet): void {
    const batch = this.#batch;
    const fields = (type.split(' : ')[0] ?? '').split(' . ').map((field) => {
      const known = keyTypes[field];
      if (known === undefined) throw unreadable(type);
      return known;
    });
    const order = fields.length === 1 ? byteOrder.network : byteOrder.host;
    batch.text(2, name);
    batch.number(3, (interval ? setFlags.interval : 0) | (kind === 'map' ? setFlags.map : 0));
    batch.number(
      4,
      fields.reduce((all, field) => (all << BITS_OF_TYPE) | field.type, 0),
    );
    batch.number(
      5,
      fields.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    );
    if (kind === 'map') {
      batch.number(6, NFT_DATA_VERDICT);
      batch.number(7, 0);
    }
    batch.number(10, ++this.#sets);
    const data = kind === 'map' ? [1, 4, byteOrder.host, 0, 0, 0] : [];
    batch.data(13, Buffer.from([0, 4, order, 0, 0, 0, ...data]));
  }

  #delete({ kind, name }: TableObject): void {
    const batch = this.#batch;
    if (kind === 'chain') batch.message('deleteChain', () => batch.text(3, name));
    else if (kind !== 'counter') batch.message('deleteSet', () => batch.text(2, name));
    else
      batch.message('deleteObject', () => {
        batch.text(2, name);
        batch.number(3, 1);
      });
  }

  #elements(isNew: boolean, set: ElementSet, keys: readonly string[]): void {
    const batch = this.#batch;
    // Tens of thousands: without a function for each.
    const isPlain = !set.interval && !(isNew && set.kind === 'map');
    for (let from = 0; from < keys.length; from += elementsPerMessage) {
      batch.message(isNew ? 'newElements' : 'deleteElements', () => {
        batch.text(2, set.name);
        batch.nest(3, () => {
          const end = Math.min(from + elementsPerMessage, keys.length);
          for (let at = from; at < end; at++) {
            const key = keys[at] as string;
            if (isPlain) batch.keyItem(this.#key(set.type, key));
            else this.#element(set, key);
          }
        });
      });
    }
  }

  #key(type: string, key: string): Buffer {
    // Addresses of the two families, and keys of one or more fields, have no text in common.
    let bytes = this.#keys.get(key);
    if (bytes === undefined) this.#keys.set(key, (bytes = elementKey(type, key)));
    return bytes;
  }

  #element({ type, interval, elements }: ElementSet, key: string): void {
    const batch = this.#batch;
    if (!interval) {
      return batch.item(() => {
        batch.value(1, this.#key(type, key));
        batch.verdictValue(2, ...verdictOf(elements.get(key) ?? ''));
      });
    }
    // A range is encoded as its first address, and the one after its last, if there is one.
    const { family, low, high } = elementRange(key);
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
