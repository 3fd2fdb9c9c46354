/** `verbose`, which AIDE had until 0.16, as the two options of today. */

/** From this number on. */
const levels: readonly (readonly [from: number, log: string, report: string])[] = [
  [221, 'trace', 'added_removed_entries'],
  [201, 'debug', 'added_removed_entries'],
  [21, 'config', 'added_removed_entries'],
  [11, 'info', 'added_removed_entries'],
  [7, 'notice', 'added_removed_entries'],
  [6, 'notice', 'added_removed_attributes'],
  [5, 'warning', 'changed_attributes'],
  [2, 'warning', 'list_entries'],
  [1, 'warning', 'summary'],
  [0, 'error', 'summary'],
];

/** Two lines; `undefined` for what is no number from 0 to 255. As the File Integrity Operator has it. */
export function reportAndLogLevels(verbose: string): readonly string[] | undefined {
  if (!/^\d{1,3}$/.test(verbose) || Number(verbose) > 255) return undefined;
  const level = levels.find(([from]) => Number(verbose) >= from);
  return level === undefined ? undefined : [`log_level=${level[1]}`, `report_level=${level[2]}`];
}
