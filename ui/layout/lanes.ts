/** A layout with a lane for each pair of names, and a dot for each event at its time. */
import type { DrawnPicture } from '../../apps/ui/report.ts';
import { fitted, type Label, type Layout, type Line, type Shape, widthOf } from './layout.ts';

const [GROUP, LANE, NAME, AXIS, BETWEEN] = [22, 24, 16, 22, 6];
/** In narrower pictures the name of a lane is above it. */
const MIN_FOR_NAMES = 560;
const [MIN_RADIUS, MAX_RADIUS] = [4, 10];

type Lanes = Pick<DrawnPicture, 'items' | 'span'>;

export function lanesLayout({ items, span }: Lanes, width: number): Layout {
  const times = items.map(({ timeMs = 0 }) => timeMs);
  const { fromMs, toMs } = span ?? { fromMs: Math.min(...times), toMs: Math.max(...times) };
  const groups = [...Map.groupBy(items, ({ at }) => at[0] ?? '')].map(
    ([name, all]) => [name, [...Map.groupBy(all, ({ at }) => at[1] ?? '')]] as const,
  );
  const isWide = width >= MIN_FOR_NAMES;
  const longest = Math.max(0, ...groups.flatMap(([, lanes]) => lanes.map(([name]) => widthOf(name))));
  const names = isWide ? Math.min(longest + 20, width * 0.3) : 0;
  const [left, right] = [names + MAX_RADIUS, width - MAX_RADIUS];
  const xOf = (timeMs: number): number =>
    left + ((timeMs - fromMs) / Math.max(toMs - fromMs, 1)) * (right - left);
  const labels: Label[] = [];
  const lines: Line[] = [];
  const shapes: Shape[] = [];
  let y = 0;
  for (const [group, lanes] of groups) {
    labels.push(fitted(group, { x: 0, y: y + GROUP / 2, width, style: 'strong', keep: 'end' }));
    y += GROUP;
    for (const [name, all] of lanes) {
      const at = isWide ? y + LANE / 2 : y + NAME / 2;
      labels.push(fitted(name, { x: 8, y: at, width: (isWide ? names : width) - 14, keep: 'end' }));
      if (!isWide) y += NAME;
      const middle = y + LANE / 2;
      lines.push({ from: [left, middle], to: [right, middle] });
      for (const item of all) {
        const radius = Math.min(MIN_RADIUS + Math.log2(Math.max(item.value, 1)), MAX_RADIUS);
        const [x, size] = [xOf(item.timeMs ?? fromMs), 2 * radius];
        shapes.push({
          ...{ item, x: x - radius, y: middle - radius, width: size, height: size },
          ...{ isRound: true, labels: [] },
        });
      }
      y += LANE;
    }
    y += BETWEEN;
  }
  if (items.length > 0) {
    const ticks = isWide ? 5 : 3;
    for (let tick = 0; tick < ticks; tick++) {
      const part = tick / (ticks - 1);
      const timeMs = fromMs + part * (toMs - fromMs);
      const anchor = tick === 0 ? {} : ({ anchor: tick === ticks - 1 ? 'end' : 'middle' } as const);
      const x = tick === 0 ? left : tick === ticks - 1 ? right : xOf(timeMs);
      labels.push({ x, y: y + AXIS / 2, text: hourText(timeMs), style: 'dim', ...anchor });
    }
    y += AXIS;
  }
  return { width, height: y, frames: [], lines, labels, shapes };
}

/** A time of day like `10:42`, in the time zone of the browser. */
function hourText(timeMs: number): string {
  const time = new Date(timeMs);
  return [time.getHours(), time.getMinutes()].map((part) => String(part).padStart(2, '0')).join(':');
}
