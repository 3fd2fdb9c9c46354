/** The last lines of libbpf's and the verifier's log, for an error. */
export function shownLog(log: string): string | undefined {
  const lines = log.split('\n').filter((line) => line.trim() !== '');
  return lines.length === 0 ? undefined : lines.slice(-15).join('\n');
}
