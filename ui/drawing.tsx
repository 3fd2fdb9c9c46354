/** A layout as SVG. One shape is in the tab order, and arrow keys lead to the others. */
import { useEffect, useRef, useState } from 'preact/hooks';

import type { DrawnItem } from '../apps/ui/report.ts';
import type { Label, Layout, Shape } from './layout/layout.ts';
import { neighbourOf } from './layout/neighbour.ts';

interface DrawingProps {
  readonly layout: Layout;
  readonly title: string;
  readonly selected: DrawnItem | undefined;
  readonly select: (item: DrawnItem) => void;
}

const ARROW = 4;

export function Drawing({ layout, title, selected, select }: DrawingProps) {
  const { width, height, frames, lines, labels, shapes } = layout;
  const svg = useRef<SVGSVGElement>(null);
  const isMoving = useRef(false);
  const [current, setCurrent] = useState(0);
  // A new picture may have fewer shapes than `current`.
  const active = Math.min(current, Math.max(shapes.length - 1, 0));
  useEffect(() => {
    if (!isMoving.current) return;
    isMoving.current = false;
    svg.current?.querySelector<SVGGElement>('[tabindex="0"]')?.focus();
  }, [active]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const to = neighbourOf(shapes, active, event.key);
    const shape = shapes[active];
    if ((event.key === 'Enter' || event.key === ' ') && shape !== undefined) select(shape.item);
    else if (to === undefined) return;
    else if (to !== active) {
      isMoving.current = true;
      setCurrent(to);
    }
    // Otherwise the arrow key would also scroll the page.
    event.preventDefault();
  };
  return (
    <svg
      ref={svg}
      class="drawing"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="group"
      aria-label={title}
      onKeyDown={onKeyDown}
    >
      <g aria-hidden="true">
        {frames.map(({ x, y, width: w, height: h }) => (
          <rect class="frame" x={x} y={y} width={w} height={h} rx={4} />
        ))}
        {lines.map(({ from: [x1, y1], to: [x2, y2], isArrow }) => (
          <path
            class="line"
            d={`M${x1} ${y1}L${x2} ${y2}${isArrow === true ? `m${-ARROW} ${-ARROW}l${ARROW} ${ARROW} ${ARROW} ${-ARROW}` : ''}`}
          />
        ))}
        {labels.map((label) => (
          <Text {...label} />
        ))}
      </g>
      {shapes.map((shape, at) => (
        <Item
          key={keyOf(shape.item)}
          shape={shape}
          isActive={at === active}
          isSelected={selected !== undefined && keyOf(selected) === keyOf(shape.item)}
          choose={() => {
            setCurrent(at);
            select(shape.item);
          }}
        />
      ))}
      <g class="ink" aria-hidden="true">
        {shapes.map(({ item, labels: own }) => (
          <g key={keyOf(item)} class={`item ${item.tone}`}>
            {own.map((label) => (
              <Text {...label} />
            ))}
          </g>
        ))}
      </g>
    </svg>
  );
}

/** A key that the item keeps in later pictures. */
export function keyOf({ at, timeMs }: DrawnItem): string {
  return JSON.stringify([at, timeMs]);
}

interface ItemProps {
  readonly shape: Shape;
  readonly isActive: boolean;
  readonly isSelected: boolean;
  readonly choose: () => void;
}

function Item({ shape, isActive, isSelected, choose }: ItemProps) {
  const { item, x, y, width, height, isRound, share = 0 } = shape;
  return (
    <g
      class={`item ${item.tone} ${isRound === true ? 'round' : ''}`}
      role="button"
      // Lower case as in the SVG specification: attribute names are case-sensitive in SVG.
      tabindex={isActive ? 0 : -1}
      aria-label={item.text}
      aria-pressed={isSelected}
      onClick={choose}
    >
      <title>{item.text}</title>
      <rect x={x} y={y} width={width} height={height} rx={isRound === true ? width / 2 : 3} />
      {share > 0 && (
        <rect class="bar" x={x + 2} y={y + height - 5} width={(width - 4) * share} height={3} rx={1.5} />
      )}
    </g>
  );
}

function Text({ x, y, text, full, anchor, isVertical, style }: Label) {
  if (text === '') return null;
  return (
    <text
      class={style}
      x={x}
      y={y}
      dominant-baseline="central"
      text-anchor={anchor ?? 'start'}
      transform={isVertical === true ? `rotate(-90 ${x} ${y})` : undefined}
    >
      {full !== undefined && <title>{full}</title>}
      {text}
    </text>
  );
}
