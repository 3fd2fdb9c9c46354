/** The date to print before a time, unless it is today: the time alone would be taken for today's. */
export function dateBefore(timeMs: number, nowMs: number): string {
  const dateOf = (ms: number): string => {
    const date = new Date(ms);
    const two = (value: number): string => String(value).padStart(2, '0');
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  };
  const date = dateOf(timeMs);
  return date === dateOf(nowMs) ? '' : `${date} `;
}
