/** Texts of the page. Names come from those who run workloads: what cannot be seen is shown as an escape. */
import { visibleText } from '../lib/output/printable.ts';

export { visibleText as shown };

/** `1 object`, `2 objects` */
export function counted(count: number, one: string, more = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : more}`;
}

/** The time of day, with the date if it was another day. */
export function clock(timeMs: number, nowMs = Date.now()): string {
  const [time, now] = [new Date(timeMs), new Date(nowMs)];
  const two = (part: number): string => String(part).padStart(2, '0');
  const day = `${two(time.getMonth() + 1)}-${two(time.getDate())} `;
  const isToday = time.toDateString() === now.toDateString();
  return `${isToday ? '' : day}${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** `Pod shop/web` */
export function objectText(object: {
  readonly kind: string;
  readonly namespace: string | null;
  readonly name: string;
}): string {
  const { kind, namespace, name } = object;
  return visibleText(`${kind} ${namespace ? `${namespace}/` : ''}${name}`);
}
