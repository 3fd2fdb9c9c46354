/** A layout in rows and columns. */
import type { DrawnPicture } from '../../apps/ui/report.ts';
import { cut, fitted, type Label, type Layout, type Shape, widthOf } from './layout.ts';

const ROW = 30;
const GAP = 2;
/** The names of narrower columns are written vertically. */
const MIN_FOR_NAMES = 66;
const [MIN_COLUMN, MAX_COLUMN] = [30, 150];
const [MAX_ROW_NAME, MAX_COLUMN_NAME] = [240, 120];

export function gridLayout({ items, axes }: Pick<DrawnPicture, 'axes' | 'items'>, width: number): Layout {
  const rows = [...new Set(items.map(({ at }) => at[0] ?? ''))];
  const columns = [...new Set(items.map(({ at }) => at[1] ?? ''))];
  const corner = `${axes[0] ?? ''} ↓ ${axes[1] ?? ''} →`;
  const longest = Math.max(widthOf(corner), ...rows.map(widthOf)) + 12;
  const names = Math.min(longest, MAX_ROW_NAME, Math.max(width * 0.38, 90));
  const share = (width - names) / Math.max(columns.length, 1);
  const column = Math.min(Math.max(share, MIN_COLUMN), MAX_COLUMN);
  const isUpright = column < MIN_FOR_NAMES;
  const head = isUpright ? Math.min(Math.max(...columns.map(widthOf), 0), MAX_COLUMN_NAME) + 12 : 28;
  const labels: Label[] = [
    fitted(corner, { x: 0, y: head - 12, width: names - 4, style: 'dim' }),
    ...columns.map((name, at) => {
      const middle = names + (at + 0.5) * column;
      return isUpright
        ? fitted(name, { x: middle, y: head - 6, width: head - 12, isVertical: true, keep: keepOf(name) })
        : fitted(name, { x: middle, y: head - 12, width: column - 8, anchor: 'middle', keep: keepOf(name) });
    }),
    ...rows.map((name, at) =>
      fitted(name, {
        x: names - 10,
        y: head + (at + 0.5) * ROW,
        width: names - 12,
        anchor: 'end',
        keep: keepOf(name),
      }),
    ),
  ];
  const shapes = items.map((item): Shape => {
    const x = names + columns.indexOf(item.at[1] ?? '') * column + GAP / 2;
    const y = head + rows.indexOf(item.at[0] ?? '') * ROW + GAP / 2;
    const [w, h] = [column - GAP, ROW - GAP];
    const place = { x: x + w / 2, y: y + h / 2, anchor: 'middle' } as const;
    return { item, x, y, width: w, height: h, labels: [{ ...place, text: markIn(item.mark, w - 4) }] };
  });
  const whole = names + columns.length * column;
  return {
    width: Math.max(whole, 1),
    height: head + rows.length * ROW,
    frames: [],
    lines: [],
    labels,
    shapes,
  };
}

/** Which part of a long name to keep: the end of `shop/web`, because neighbouring rows or columns show the namespace too. */
function keepOf(name: string): 'end' | 'start' {
  return name.includes('/') ? 'end' : 'start';
}

/** Shortened to its first word, which says most: `✕ 12`, `2 ports`. */
function markIn(mark: string, width: number): string {
  if (widthOf(mark) <= width) return mark;
  return cut(mark.split(' ')[0] ?? '', width);
}
