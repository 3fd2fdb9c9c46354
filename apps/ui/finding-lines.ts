/** What the page gets of a finding: the whole of it, and the command to go on with. */
import type { Guard } from '../../guard/guard.ts';
import type { LineKind } from '../../guard/line-kind.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';
import { commandLine } from '../../lib/output/command-line.ts';
import { visibleJson } from '../../lib/output/printable.ts';
import type { UiFinding } from './report.ts';

/**
 * @param clusterWords - The options that name the cluster or the machine, for the commands.
 * @returns a function that makes JSON of a {@link UiFinding}.
 */
export async function findingLines(
  guards: readonly Guard[],
  clusterWords: readonly string[],
): Promise<(read: ReadFinding) => string> {
  const kinds = new Map<string, LineKind>();
  for (const { lines } of guards) for (const kind of (await lines?.()) ?? []) kinds.set(kind.kind, kind);
  return (read) => {
    const { next } = kinds.get(read.head.kind)?.view(read) ?? {};
    const command = next && commandLine(['rampart', ...next, ...clusterWords]);
    const finding: UiFinding = { finding: read.keys as UiFinding['finding'], command: command ?? null };
    return visibleJson(JSON.stringify(finding));
  };
}
