/** The page of a process that guards itself: `rampart standalone --ui`. */
import type { Guard } from '../../guard/guard.ts';
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import { headStart } from '../../guard/stream/finding.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { viewerName } from '../../guard/viewer-rights.ts';
import type { LineFeed } from '../../lib/feed/line-feed.ts';
import { feedOf } from './finding-feed.ts';
import { findingLines } from './finding-lines.ts';
import type { View } from './gate.ts';
import { readPageFiles } from './page-files.ts';
import { Pictures } from './pictures.ts';
import { StatusPoll } from './status-poll.ts';
import { TokenGate, type TokenGateOptions } from './token-gate.ts';
import type { UiPart } from './ui-answers.ts';

export { answerUi, pathOf } from './ui-answers.ts';

export interface InProcessOptions extends TokenGateOptions {
  readonly guards: readonly Guard[];
  /** Path of the viewer's kubeconfig: the status is read with its rights. */
  readonly kubeconfig: string;
  /** Each line is the JSON of a finding. */
  readonly feed: LineFeed;
  readonly hours: () => HourCount[];
  /** The options that name this machine, for the suggested next commands. */
  readonly clusterWords: readonly string[];
  readonly failed: UiPart['failed'];
}

/** The page uses the process's own feed: no finding is kept twice. @throws {RampartError} `SYSTEM` if the page is missing. */
export async function inProcessUi(options: InProcessOptions): Promise<UiPart> {
  const { guards, kubeconfig, feed, hours, clusterWords, failed } = options;
  const status = new StatusPoll(guards, { kubeconfig });
  const shown = await findingLines(guards, clusterWords);
  const pictures = new Pictures({
    ...{ guards, choice: { kubeconfig }, clusterWords, isThisMachine: true },
    findingsOf: (guard) =>
      feed.kept().flatMap(({ line }) => {
        const isOfGuard = line.startsWith(`${headStart}${guard}"`);
        return (isOfGuard && readFinding(line)) || [];
      }),
    live: () => ({ isLive: true, note: '' }),
  });
  const view: View = {
    findings: feedOf(feed, (line) => {
      const read = readFinding(line);
      return read && shown(read);
    }),
    picture: (guard, signal) => pictures.read(guard, signal),
    report: async (signal) => ({
      ...(await status.read(signal)),
      who: viewerName,
      pictures: pictures.guards,
      findings: { isLive: true, note: '', missed: 0, hours: hours() },
    }),
  };
  return { page: readPageFiles(), gate: new TokenGate(view, options), failed };
}
