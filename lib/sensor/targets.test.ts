import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import type { BpfMap } from '../ebpf/map.ts';
import { BpfObject } from '../ebpf/object.ts';
import { RampartError } from '../errors/errors.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { everyAccess, may, type FileIdentity } from './access.ts';
import { monotonicNs } from './clock.ts';
import { target as targetAt, targetKey } from './layout.ts';
import { sensorSkip } from './sensor.fixture.ts';
import { Targets, type Watcher } from './targets.ts';

const OBJECT_FILE = new URL('./bpf/sensor.bpf.o', import.meta.url);

/** The committed object with its maps in the kernel and no program. */
class KernelTargets implements Disposable {
  readonly #object: BpfObject;
  readonly map: BpfMap;

  constructor(capacity: number) {
    this.#object = BpfObject.open(readFileSync(OBJECT_FILE), 'sensor');
    try {
      for (const program of this.#object.programs()) program.autoload = false;
      this.#object.map('ring').maxEntries = 4096;
      this.map = this.#object.map('targets');
      this.map.maxEntries = capacity;
      this.#object.load();
    } catch (error) {
      this.#object[Symbol.dispose]();
      throw error;
    }
  }

  clear(): void {
    for (const key of [...this.map.keys()]) this.map.delete(key);
  }

  /** "inode:device" -> what the kernel has for it. */
  content(): Map<string, { filter: number; generation: number; id: number }> {
    const content = new Map<string, { filter: number; generation: number; id: number }>();
    for (const key of this.map.keys()) {
      const value = this.map.lookup(key);
      assert.ok(value);
      const keyView = new DataView(key.buffer);
      const view = new DataView(value.buffer);
      content.set(
        `${keyView.getBigUint64(targetKey.inode, true)}:${keyView.getUint32(targetKey.device, true)}`,
        {
          filter: view.getUint32(targetAt.filter, true),
          generation: view.getUint32(targetAt.generation, true),
          id: view.getUint32(targetAt.id, true),
        },
      );
    }
    return content;
  }

  [Symbol.dispose](): void {
    this.#object[Symbol.dispose]();
  }
}

const file = (inode: bigint, device: number, generation = 1): FileIdentity => ({ inode, device, generation });
const isLimit = (error: unknown): boolean => error instanceof RampartError && error.code === 'RAMPART_LIMIT';

suite('targets in the kernel', { skip: sensorSkip }, () => {
  test('a file stays until its last watcher is gone; the filter is what all of them want together', () => {
    using kernel = new KernelTargets(8);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    const reads: Watcher = { filter: may.READ };
    const writes: Watcher = { filter: may.WRITE | may.APPEND };
    const shadow = file(7n, 3);
    targets.add(shadow, reads);
    targets.add(shadow, writes);
    targets.add(shadow, writes);
    const [entry] = kernel.content().values();
    assert.equal(entry?.filter, may.READ | may.WRITE | may.APPEND);
    assert.deepEqual([...targets.watchersOf(entry?.id ?? 0)], [reads, writes]);
    targets.delete(shadow, reads);
    assert.equal(kernel.content().get('7:3')?.filter, may.WRITE | may.APPEND);
    targets.delete(shadow, reads);
    targets.delete(shadow, writes);
    assert.equal(kernel.content().size, 0);
    assert.equal(targets.size, 0);
  });

  test('the ends of the key: the greatest inode number and device', () => {
    using kernel = new KernelTargets(4);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    targets.add(file(2n ** 64n - 1n, 0xffff_ffff, 0xffff_ffff), { filter: everyAccess });
    assert.equal(kernel.content().get('18446744073709551615:4294967295')?.generation, 0xffff_ffff);
  });

  test('a full map is LIMIT naming the capacity, and changes nothing', () => {
    using kernel = new KernelTargets(3);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    const watcher: Watcher = { filter: may.READ };
    for (let inode = 1n; inode <= 3n; inode++) targets.add(file(inode, 1), watcher);
    const before = kernel.content();
    assert.throws(
      () => targets.add(file(4n, 1), watcher),
      (error: unknown) => isLimit(error) && /inode 4, .*limit of 3 watched files/.test(String(error)),
    );
    assert.deepEqual(kernel.content(), before);
    assert.equal(targets.size, 3);
    // A watched file can still change, a recycled number takes the place of its file, and a freed place is
    // used.
    targets.add(file(2n, 1), { filter: may.WRITE });
    targets.add(file(3n, 1, 2), watcher);
    targets.delete(file(1n, 1), watcher);
    targets.add(file(4n, 1), watcher);
    assert.deepEqual([...kernel.content().keys()].toSorted(), ['2:1', '3:1', '4:1']);
  });

  test('records in the ring when a watcher leaves still find it, the last one and any other', () => {
    using kernel = new KernelTargets(4);
    const seen: { readonly inKernel: number; readonly watchers: number }[] = [];
    const targets = new Targets<Watcher>(kernel.map, () => {
      seen.push({ inKernel: kernel.content().size, watchers: [...targets.watchersOf(1)].length });
    });
    const [first, last] = [{ filter: everyAccess }, { filter: everyAccess }];
    targets.add(file(1n, 1), first);
    targets.add(file(1n, 1), last);
    targets.delete(file(1n, 1), first);
    targets.delete(file(1n, 1), last);
    assert.deepEqual(seen, [
      { inKernel: 1, watchers: 2 },
      { inKernel: 0, watchers: 1 },
    ]);
    assert.deepEqual([...targets.watchersOf(1)], []);
  });

  test('an operation is reported to the watchers at its beginning, for some seconds', () => {
    using kernel = new KernelTargets(4);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    const [first, last] = [{ filter: everyAccess }, { filter: everyAccess }];
    const before = monotonicNs();
    targets.add(file(1n, 1), first);
    targets.add(file(1n, 1), last);
    targets.delete(file(1n, 1), first);
    assert.deepEqual(new Set(targets.watchersAt(1, before)), new Set([first, last]));
    assert.deepEqual([...targets.watchersAt(1, monotonicNs())], [last]);
    targets.delete(file(1n, 1), last);
    targets.forgetLeft();
    assert.deepEqual(new Set(targets.watchersAt(1, before)), new Set([first, last]));
    targets.forgetLeft();
    assert.deepEqual([...targets.watchersAt(1, before)], []);
  });

  test('an older file of the number never comes back into the kernel', () => {
    using kernel = new KernelTargets(4);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    const [a, b, c] = [{ filter: may.READ }, { filter: may.WRITE }, { filter: may.EXEC }];
    targets.add(file(1n, 1, 1), a);
    targets.add(file(1n, 1, 1), b);
    targets.add(file(1n, 1, 2), c);
    targets.delete(file(1n, 1, 2), c);
    // a and b are called only now, after their file is gone.
    targets.delete(file(1n, 1, 1), a);
    assert.equal(kernel.content().size, 0);
    targets.delete(file(1n, 1, 1), b);
    assert.equal(kernel.content().size, 0);
    assert.equal(targets.size, 0);
  });

  test('random watches: the kernel has what the model has', () => {
    const CAPACITY = 3;
    using kernel = new KernelTargets(CAPACITY);
    const watchers: readonly Watcher[] = [
      { filter: may.READ },
      { filter: may.WRITE },
      { filter: may.READ | may.EXEC },
    ];
    // Few files and few watchers, so that most steps meet one another.
    const step = fc.record({
      verb: fc.constantFrom('add', 'delete'),
      inode: fc.bigInt({ min: 1n, max: 2n }),
      device: fc.constantFrom(8, 9),
      generation: fc.constantFrom(1, 2),
      watcher: fc.nat({ max: watchers.length - 1 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
        kernel.clear();
        const targets = new Targets<Watcher>(kernel.map, () => undefined);
        const model = new Model(CAPACITY);
        for (const { verb, inode, device, generation, watcher: index } of steps) {
          const watcher = watchers[index];
          assert.ok(watcher);
          const place = `${inode}:${device}`;
          if (verb === 'delete') {
            targets.delete(file(inode, device, generation), watcher);
            model.delete(place, generation, watcher);
          } else if (model.add(place, generation, watcher)) {
            targets.add(file(inode, device, generation), watcher);
          } else {
            assert.throws(() => targets.add(file(inode, device, generation), watcher), isLimit);
          }
          model.compare(kernel.content(), targets);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('random watches, many added together: as if they were added one after the other', () => {
    const CAPACITY = 3;
    using kernel = new KernelTargets(CAPACITY);
    const watchers: readonly Watcher[] = [{ filter: may.READ }, { filter: may.WRITE }];
    const one = fc.record({
      inode: fc.bigInt({ min: 1n, max: 2n }),
      device: fc.constantFrom(8, 9),
      generation: fc.constantFrom(1, 2),
      watcher: fc.constantFrom(...watchers),
    });
    const step = fc.record({
      added: fc.array(one, { maxLength: 6 }),
      deleted: fc.array(one, { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
        kernel.clear();
        const targets = new Targets<Watcher>(kernel.map, () => undefined);
        const model = new Model(CAPACITY);
        for (const { added, deleted } of steps) {
          const failures = targets.addAll(
            added.map(({ inode, device, generation, watcher }) => ({
              identity: file(inode, device, generation),
              watcher,
            })),
          );
          const refused = added.map(
            ({ inode, device, generation, watcher }) => !model.add(`${inode}:${device}`, generation, watcher),
          );
          assert.deepEqual(failures.map(isLimit), refused);
          model.compare(kernel.content(), targets);
          for (const { inode, device, generation, watcher } of deleted) {
            targets.delete(file(inode, device, generation), watcher);
            model.delete(`${inode}:${device}`, generation, watcher);
          }
          model.compare(kernel.content(), targets);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('of many targets that the kernel accepts in part, those are watched; the others are reported and can be added later', () => {
    using kernel = new KernelTargets(5);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    // Only the sensor writes to this map. Here foreign entries simulate a kernel that has no memory for more.
    const foreign = [101, 102].map((inode) => new Uint8Array(new BigUint64Array([BigInt(inode), 0n]).buffer));
    for (const key of foreign) kernel.map.set(key, new Uint8Array(targetAt.sizeBytes));
    const [a, b] = [{ filter: may.READ }, { filter: may.WRITE }];
    const wanted = [1n, 2n, 3n, 4n, 4n].map((inode, at) => ({
      identity: file(inode, 1),
      watcher: at === 4 ? b : a,
    }));
    const failures = targets.addAll(wanted);
    // The kernel decides which one has no room; watchers of the same file get the same error.
    assert.equal(failures[3], failures[4]);
    assert.equal(failures.slice(0, 4).filter(isLimit).length, 1);
    assert.equal(targets.size, 3);
    for (const key of foreign) kernel.map.delete(key);
    assert.deepEqual(
      [...kernel.content().keys()].toSorted(),
      ['1:1', '2:1', '3:1', '4:1'].filter((_, at) => failures[at] === undefined),
    );
    assert.deepEqual(targets.addAll(wanted), [undefined, undefined, undefined, undefined, undefined]);
    assert.equal(kernel.content().get('4:1')?.filter, may.READ | may.WRITE);
    assert.equal(targets.size, 4);
  });

  test('more files together than fit into one call of the kernel', () => {
    const FILES = 3000;
    using kernel = new KernelTargets(FILES);
    const targets = new Targets<Watcher>(kernel.map, () => undefined);
    const watcher = { filter: everyAccess };
    const wanted = Array.from({ length: FILES }, (_, at) => ({ identity: file(BigInt(at), 1, at), watcher }));
    assert.ok(targets.addAll(wanted).every((failure) => failure === undefined));
    const content = kernel.content();
    assert.equal(content.size, FILES);
    for (const [key, { generation, filter }] of content) {
      assert.equal(key, `${generation}:1`);
      assert.equal(filter, everyAccess);
    }
  });
});

/**
 * The expected content of the map: for each inode number and device the watched file that was begun last.
 * Files begin in order, and one that lost its place to a newer one stays out.
 */
class Model {
  readonly #capacity: number;
  readonly #watchers = new Map<string, Set<Watcher>>();
  readonly #inKernel = new Map<string, number>();
  readonly #ids = new Map<number, string>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** False when the map is full. */
  add(place: string, generation: number, watcher: Watcher): boolean {
    const life = `${place}:${generation}`;
    const known = this.#watchers.get(life);
    if (known) {
      known.add(watcher);
      return true;
    }
    if (!this.#inKernel.has(place) && this.#inKernel.size === this.#capacity) return false;
    this.#watchers.set(life, new Set([watcher]));
    this.#inKernel.set(place, generation);
    return true;
  }

  delete(place: string, generation: number, watcher: Watcher): void {
    const life = `${place}:${generation}`;
    const known = this.#watchers.get(life);
    known?.delete(watcher);
    if (known?.size !== 0) return;
    this.#watchers.delete(life);
    if (this.#inKernel.get(place) === generation) this.#inKernel.delete(place);
  }

  compare(content: ReturnType<KernelTargets['content']>, targets: Targets<Watcher>): void {
    assert.deepEqual([...content.keys()].toSorted(), [...this.#inKernel.keys()].toSorted());
    assert.equal(targets.size, this.#inKernel.size);
    for (const [place, entry] of content) {
      assert.equal(entry.generation, this.#inKernel.get(place));
      const life = `${place}:${entry.generation}`;
      const watchers = [...(this.#watchers.get(life) ?? [])];
      assert.deepEqual([...targets.watchersOf(entry.id)], watchers);
      assert.equal(
        entry.filter,
        watchers.reduce((all, { filter }) => all | filter, 0),
      );
      // An id belongs to one life of one file.
      assert.equal(this.#ids.get(entry.id) ?? life, life);
      this.#ids.set(entry.id, life);
    }
  }
}
