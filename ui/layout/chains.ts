/** A layout with programs below each other, in the order in which a packet passes them. */
import type { DrawnItem, DrawnPicture } from '../../apps/ui/report.ts';
import { cut, fitted, type Label, type Layout, type Line, type Shape, widthOf } from './layout.ts';

const [TITLE, BOX, ARROW, BETWEEN] = [24, 34, 24, 18];
const [MIN_COLUMN, GUTTER] = [380, 28];

export function chainsLayout({ items }: Pick<DrawnPicture, 'items'>, width: number): Layout {
  const chains = [...Map.groupBy(items, ({ at }) => at[0] ?? '')];
  const columns = Math.max(1, Math.min(chains.length, Math.floor((width + GUTTER) / (MIN_COLUMN + GUTTER))));
  const column = Math.min((width - GUTTER * (columns - 1)) / columns, 640);
  const ends = Array.from({ length: columns }, () => 0);
  const max = Math.max(1, ...items.map(({ value }) => value));
  const parts = chains.map(([title, members]) => {
    const shortest = ends.indexOf(Math.min(...ends));
    const top = ends[shortest] ?? 0;
    ends[shortest] = top + TITLE + members.length * (ARROW + BOX) + BETWEEN;
    return chainAt(title, members, { x: shortest * (column + GUTTER), y: top, width: column }, max);
  });
  return {
    ...{ width, height: Math.max(0, Math.max(...ends) - BETWEEN) + 1, frames: [] },
    lines: parts.flatMap(({ lines }) => lines),
    labels: parts.flatMap(({ labels }) => labels),
    shapes: parts.flatMap(({ shapes }) => shapes),
  };
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

function chainAt(
  title: string,
  members: readonly DrawnItem[],
  { x, y, width }: Place,
  max: number,
): Pick<Layout, 'labels' | 'lines' | 'shapes'> {
  const labels: Label[] = [fitted(title, { x, y: y + TITLE / 2, width, style: 'strong' })];
  const lines: Line[] = [];
  const shapes = members.map((item, at): Shape => {
    const top = y + TITLE + at * (ARROW + BOX) + ARROW;
    lines.push({ from: [x + 16, top - ARROW + 2], to: [x + 16, top - 2], isArrow: true });
    const before = members[at - 1]?.proceedOn;
    const when = before === undefined ? 'a packet arrives' : before === '' ? '' : `after ${before}`;
    labels.push(fitted(when, { x: x + 28, y: top - ARROW / 2, width: width - 28, style: 'dim' }));
    const mark = cut(item.mark, width / 2);
    const rest = width - widthOf(mark) - 32;
    return {
      ...{ item, x, y: top, width, height: BOX, share: item.value / max },
      labels: [
        fitted(item.at[1] ?? '', { x: x + 10, y: top + BOX / 2, width: rest, style: 'strong' }),
        { x: x + width - 10, y: top + BOX / 2, text: mark, anchor: 'end' },
      ],
    };
  });
  return { labels, lines, shapes };
}
