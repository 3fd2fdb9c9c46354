/** A finding as sent to the page: the complete finding, the next command, and whether a user has to decide on it. */
import type { Guard } from '../../guard/guard.ts';
import type { LineKind } from '../../guard/line-kind.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';
import { visibleJson } from '../../lib/output/printable.ts';
import { nextCommand } from './next-command.ts';
import type { UiFinding } from './report.ts';

/**
 * @param clusterWords - The options that name the cluster or the machine, for the suggested commands.
 * @returns a function that makes the JSON of a {@link UiFinding}.
 */
export async function findingLines(
  guards: readonly Guard[],
  clusterWords: readonly string[],
): Promise<(read: ReadFinding) => string> {
  const kinds = new Map<string, LineKind>();
  for (const { lines } of guards) for (const kind of (await lines?.()) ?? []) kinds.set(kind.kind, kind);
  return (read) => {
    const view = kinds.get(read.head.kind)?.view(read);
    const finding: UiFinding = {
      finding: read.keys as UiFinding['finding'],
      command: nextCommand(view, clusterWords),
      decision: view?.decision ?? null,
    };
    return visibleJson(JSON.stringify(finding));
  };
}
