import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { DrawnItem, DrawnPicture } from '../../apps/ui/report.ts';
import { Random, seed } from '../../lib/testing/depth.fixture.ts';
import { chainsLayout } from './chains.ts';
import { gridLayout } from './grid.ts';
import { lanesLayout } from './lanes.ts';
import { type Box, cut, type Layout, widthOf } from './layout.ts';
import { neighbourOf } from './neighbour.ts';
import { treeLayout } from './tree.ts';

function item(at: readonly string[], value = 1, more: Partial<DrawnItem> = {}): DrawnItem {
  return { at, value, tone: 'ok', mark: 'mark', text: at.join(' '), command: null, ...more };
}

function picture(items: readonly DrawnItem[], more: Partial<DrawnPicture> = {}): DrawnPicture {
  return {
    form: 'grid',
    title: 't',
    axes: ['row', 'column'],
    unit: 'u',
    items,
    legend: [],
    notes: [],
    ...more,
  };
}

const long = '/'.padEnd(200, 'a-long-name/');
const widths = [1, 40, 330, 1240];

function overlap(a: Box, b: Box): boolean {
  const apart =
    a.x + a.width <= b.x + 0.01 ||
    b.x + b.width <= a.x + 0.01 ||
    a.y + a.height <= b.y + 0.01 ||
    b.y + b.height <= a.y + 0.01;
  return !apart;
}

/** Checks that hold for every picture. */
function assertDrawn(
  { shapes, labels, width, height }: Layout,
  items: readonly DrawnItem[],
  what: string,
): void {
  assert.equal(shapes.length, items.length, what);
  for (const [at, one] of shapes.entries()) {
    const { x, y, width: w, height: h } = one;
    assert.ok([x, y, w, h].every(Number.isFinite) && w > 0 && h > 0, `${what}: ${JSON.stringify(one)}`);
    assert.ok(x >= -0.01 && y >= -0.01 && x + w <= width + 0.01 && y + h <= height + 0.01, `${what}: within`);
    for (const other of shapes.slice(at + 1)) assert.ok(!overlap(one, other), `${what}: apart`);
    for (const label of one.labels) assert.ok(widthOf(label.text) <= w + 0.01, `${what}: ${label.text}`);
  }
  for (const { text, full } of labels) assert.ok(full === undefined || text !== full, what);
}

suite('layouts of pictures', () => {
  test('a grid: every cell in its row and column, wider than there is room for rather than unreadable', () => {
    for (const width of widths) {
      const names = ['a', long, 'shop/web'];
      const items = names.flatMap((row) => names.map((column) => item([row, column])));
      const layout = gridLayout(picture(items), width);
      assertDrawn(layout, items, `grid of ${width}`);
      assert.ok(layout.shapes.every((shape) => shape.width >= 28));
    }
    assertDrawn(gridLayout(picture([]), 300), [], 'an empty grid');
  });

  test('chains: in their order, each below its title', () => {
    for (const width of widths.slice(1)) {
      const items = ['eth0', long, 'lo'].flatMap((chain) =>
        [3, 1, 0].map((value) => item([chain, `${value} ${long}`], value, { proceedOn: 'pass' })),
      );
      const layout = chainsLayout(picture(items), width);
      assertDrawn(layout, items, `chains of ${width}`);
      const [first, second] = layout.shapes;
      assert.ok((first?.y ?? 0) < (second?.y ?? 0));
    }
  });

  test('a tree map: areas by value, no box over another', () => {
    const random = new Random(seed);
    for (const width of [330, 1240]) {
      const items = Array.from({ length: 120 }, (_, at) =>
        item(
          ['/', 'etc', `d${random.below(5)}`, ...(random.chance(0.5) ? ['deep'] : []), `f${at}`],
          1 + random.below(9),
        ),
      );
      assertDrawn(treeLayout(picture(items), width), items, `tree of ${width}, seed ${seed}`);
    }
    const items = [item(['/', 'a'], 3), item(['/', 'b'], 1), item(['/', 'b', 'c'], 1)];
    const { shapes } = treeLayout(picture(items), 400);
    assert.equal(shapes.length, 3);
    const area = (at: number): number => (shapes[at]?.width ?? 0) * (shapes[at]?.height ?? 0);
    assert.ok(area(0) > area(1));
  });

  test('lanes: dots at their time', () => {
    const span = { fromMs: 0, toMs: 1000 };
    for (const width of [330, 1240]) {
      const items = ['/etc/shadow', long].flatMap((file) =>
        ['/usr/bin/cat', long].flatMap((process) =>
          [0, 500, 1000].map((timeMs) => item([file, process], 10_000, { timeMs })),
        ),
      );
      const layout = lanesLayout(picture(items, { span }), width);
      assertDrawn(layout, items, `lanes of ${width}`);
    }
  });

  test('marks text that is cut at either end, and counts wide characters twice', () => {
    assert.equal(cut('short', 1000), 'short');
    const width = widthOf('12345');
    assert.equal(cut('1234567', width), '1234…');
    assert.equal(cut('1234567', width, 'end'), '…4567');
    assert.equal(cut('default/db', width + 1, 'end'), '…/db');
    assert.equal(cut('漢字漢字', width), '漢字…');
    assert.equal(cut('12', 3), '');
  });

  test('arrow keys lead to what is there, and stop at the edge', () => {
    const { shapes } = gridLayout(
      picture(['a', 'b'].flatMap((row) => ['x', 'y'].map((at) => item([row, at])))),
      300,
    );
    const go = (from: number, key: string): number | undefined => neighbourOf(shapes, from, key);
    assert.deepEqual(
      [go(0, 'ArrowRight'), go(0, 'ArrowDown'), go(3, 'ArrowUp'), go(3, 'ArrowLeft'), go(0, 'ArrowLeft')],
      [1, 2, 1, 2, 0],
    );
    assert.deepEqual([go(1, 'Home'), go(1, 'End'), go(1, 'a')], [0, 3, undefined]);
  });
});
