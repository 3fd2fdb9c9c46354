/** Where an arrow key leads to in a picture. */
import type { Box } from './layout.ts';

const directions: Readonly<Record<string, readonly [x: number, y: number]>> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};
/** Distance aside counts more than distance along the direction of the key. */
const ASIDE = 3;

/** The index of the next shape; the same at the edge, undefined for a key that does not move. */
export function neighbourOf(shapes: readonly Box[], from: number, key: string): number | undefined {
  if (key === 'Home') return 0;
  if (key === 'End') return shapes.length - 1;
  const direction = directions[key];
  const start = shapes[from];
  if (direction === undefined || start === undefined) return undefined;
  const [dx, dy] = direction;
  let [nearest, min] = [from, Infinity];
  for (const [at, shape] of shapes.entries()) {
    const x = shape.x + shape.width / 2 - start.x - start.width / 2;
    const y = shape.y + shape.height / 2 - start.y - start.height / 2;
    const [ahead, aside] = [x * dx + y * dy, Math.abs(x * dy + y * dx)];
    const distance = ahead + ASIDE * aside;
    if (ahead > 0.5 && distance < min) [nearest, min] = [at, distance];
  }
  return nearest;
}
