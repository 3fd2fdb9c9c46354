/** Ages as kubectl prints them (apimachinery `pkg/util/duration/duration.go`, HumanDuration). */

/**
 * The time since a timestamp: in two units if the number of the first is small (`3h5m`), otherwise in one (`12h`).
 *
 * @param timestamp in RFC 3339. The result is `<invalid>` for any other text, and for a time more than a second in the future.
 */
export function ageSince(timestamp: string, now: Date): string {
  const sinceMs = now.getTime() - Date.parse(timestamp);
  if (Number.isNaN(sinceMs)) return '<invalid>';
  const seconds = Math.trunc(sinceMs / 1000);
  // Clocks may differ slightly; if the difference is larger, the time is wrong.
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  const minutes = Math.trunc(seconds / 60);
  const hours = Math.trunc(minutes / 60);
  const days = Math.trunc(hours / 24);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return two(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  if (hours < 24 * 8) return two(days, 'd', hours % 24, 'h');
  if (hours < 24 * 365 * 2) return `${days}d`;
  if (hours < 24 * 365 * 8) return two(Math.trunc(days / 365), 'y', days % 365, 'd');
  return `${Math.trunc(days / 365)}y`;
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
