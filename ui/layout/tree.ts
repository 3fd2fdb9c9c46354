/** A layout as a tree map: directories as frames around what is in them (squarified: Bruls, Huizing, van Wijk, 2000). */
import type { DrawnItem, DrawnPicture } from '../../apps/ui/report.ts';
import { type Box, fitted, type Label, type Layout, type Shape } from './layout.ts';

const HEAD = 17;
const PAD = 3;
const [MIN_LABEL_WIDTH, MIN_LABEL_HEIGHT] = [26, 14];

interface Part {
  readonly name: string;
  readonly size: number;
  readonly item: DrawnItem | undefined;
  readonly parts: readonly Part[];
}

interface Branch {
  readonly branches: Map<string, Branch>;
  item: DrawnItem | undefined;
}

export function treeLayout({ items }: Pick<DrawnPicture, 'items'>, width: number): Layout {
  const root: Branch = { branches: new Map(), item: undefined };
  for (const item of items) {
    let at = root;
    for (const name of item.at) {
      const below = at.branches.get(name) ?? { branches: new Map<string, Branch>(), item: undefined };
      at.branches.set(name, below);
      at = below;
    }
    at.item = item;
  }
  // Flat enough to be read, and tall enough for many.
  const height = items.length === 0 ? 0 : Math.min(140 + items.length * 14, 360);
  const drawn = { frames: [] as Box[], labels: [] as Label[], shapes: [] as Shape[] };
  place(partOf('', root).parts, { x: 0, y: 0, width, height }, drawn);
  return { width, height, lines: [], ...drawn };
}

function partOf(name: string, { branches, item }: Branch): Part {
  const [only, ...others] = branches;
  // A directory with a single entry is merged with it, under both names: `etc/ssl`.
  if (only !== undefined && others.length === 0 && item === undefined && name !== '') {
    const [below, branch] = only;
    return partOf(`${name.replace(/\/$/, '')}/${below}`, branch);
  }
  const parts = [...branches].map(([below, branch]) => partOf(below, branch));
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  if (parts.length === 0) return { name, size: Math.max(1, item?.value ?? 1), item, parts };
  // The directory itself has changed, too.
  const own = item === undefined ? [] : [{ name: '.', size: 1, item, parts: [] }];
  return { name, size: size + own.length, item: undefined, parts: [...parts, ...own] };
}

interface Drawn {
  readonly frames: Box[];
  readonly labels: Label[];
  readonly shapes: Shape[];
}

function place(parts: readonly Part[], box: Box, drawn: Drawn): void {
  const sorted = parts.toSorted((a, b) => b.size - a.size);
  for (const [part, own] of squarified(sorted, box)) {
    if (part.item !== undefined) drawn.shapes.push(leaf(part.name, part.item, own));
    else directory(part, own, drawn);
  }
}

function leaf(name: string, item: DrawnItem, { x, y, width, height }: Box): Shape {
  const [w, h] = [Math.max(width - 2, 1), Math.max(height - 2, 1)];
  const hasLabel = w >= MIN_LABEL_WIDTH && h >= MIN_LABEL_HEIGHT;
  const middle = { x: x + 1 + w / 2, anchor: 'middle' } as const;
  const isTall = h >= 32 && item.mark !== '';
  const labels = hasLabel
    ? [
        fitted(name, { ...middle, y: y + 1 + h / 2 - (isTall ? 7 : 0), width: w - 6 }),
        ...(isTall ? [fitted(item.mark, { ...middle, y: y + 1 + h / 2 + 8, width: w - 6 })] : []),
      ]
    : [];
  return { item, x: x + 1, y: y + 1, width: w, height: h, labels };
}

function directory(part: Part, { x, y, width, height }: Box, drawn: Drawn): void {
  drawn.frames.push({ x: x + 1, y: y + 1, width: Math.max(width - 2, 1), height: Math.max(height - 2, 1) });
  const hasHead = height > HEAD + 2 * PAD + 10 && width > 40;
  if (hasHead)
    drawn.labels.push(
      fitted(part.name, { x: x + 7, y: y + 2 + HEAD / 2, width: width - 14, keep: 'end', style: 'dim' }),
    );
  const top = hasHead ? HEAD : 0;
  const pad = Math.min(PAD, width / 4, height / 4);
  place(
    part.parts,
    {
      x: x + pad,
      y: y + pad + top,
      width: Math.max(width - 2 * pad, 1),
      height: Math.max(height - 2 * pad - top, 1),
    },
    drawn,
  );
}

/** Fills a box with rows along its shorter side; a row takes parts as long as its boxes become squarer. */
function squarified(parts: readonly Part[], whole: Box): (readonly [Part, Box])[] {
  const placed: (readonly [Part, Box])[] = [];
  let left = parts;
  let box = whole;
  while (left.length > 0) {
    const total = left.reduce((sum, { size }) => sum + size, 0);
    const scale = (box.width * box.height) / total;
    const side = Math.min(box.width, box.height);
    let count = 1;
    while (count < left.length && worst(left, count + 1, side, scale) <= worst(left, count, side, scale))
      count++;
    const row = left.slice(0, count);
    const area = row.reduce((sum, { size }) => sum + size, 0) * scale;
    const depth = side === 0 ? 0 : area / side;
    const isWide = box.width >= box.height;
    let along = 0;
    for (const part of row) {
      const length = depth === 0 ? 0 : (part.size * scale) / depth;
      placed.push([
        part,
        isWide
          ? { x: box.x, y: box.y + along, width: depth, height: length }
          : { x: box.x + along, y: box.y, width: length, height: depth },
      ]);
      along += length;
    }
    box = isWide
      ? { ...box, x: box.x + depth, width: Math.max(box.width - depth, 0) }
      : { ...box, y: box.y + depth, height: Math.max(box.height - depth, 0) };
    left = left.slice(count);
  }
  return placed;
}

/** The worst aspect ratio among the first `count` boxes of a row; 1 is a square. */
function worst(parts: readonly Part[], count: number, side: number, scale: number): number {
  const areas = parts.slice(0, count).map(({ size }) => size * scale);
  const sum = areas.reduce((all, area) => all + area, 0);
  const depth = sum / Math.max(side, 1);
  return Math.max(...areas.map((area) => Math.max((depth * depth) / area, area / (depth * depth))));
}
