/** Findings for the page: the latest kept ones and new ones, from the source that `rampart alerts` reads. */
import type { Guard } from '../../guard/guard.ts';
import { clusterAlerts } from '../../guard/alerts/cluster-alerts.ts';
import { socketAlerts } from '../../guard/alerts/socket-alerts.ts';
import type { AlertHandler, AlertOrigin } from '../../guard/alerts/source.ts';
import { headStart } from '../../guard/stream/finding.ts';
import { findingOf, type ReadFinding, readFinding } from '../../guard/stream/read-finding.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { Backoff } from '../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';
import { FindingHours } from './finding-hours.ts';
import { findingLines } from './finding-lines.ts';
import type { FindingsState, UiFinding } from './report.ts';

const DAY_MS = 86_400_000;
/** How many lines of each kind are kept. */
const KEPT = 10_000;
const KEPT_UNITS = 16 * 1024 * 1024;

interface FindingSourceOptions {
  readonly guards: readonly Guard[];
  /** Called again after each failure: a cluster may have become reachable. @throws if there is no source. */
  readonly origin: () => AlertOrigin;
  /** The options that name the cluster or the machine, for the suggested next commands. */
  readonly clusterWords: readonly string[];
}

export class FindingSource {
  /** Each line is JSON of a `UiFinding`. */
  readonly feed = new LineFeed({ maxLines: KEPT, maxUnits: KEPT_UNITS });
  readonly #options: FindingSourceOptions;
  #hours = new FindingHours();
  /** Findings delivered before the source failed: when it resumes, it delivers them again. */
  #known = new Set<string>();
  #hasAbout = false;
  #isLive = false;
  #note = 'not read yet';
  #missed = 0;

  constructor(options: FindingSourceOptions) {
    this.#options = options;
  }

  state(nowMs = Date.now()): FindingsState {
    return { isLive: this.#isLive, note: this.#note, missed: this.#missed, hours: this.#hours.last(nowMs) };
  }

  /** The kept findings of a guard, oldest first. */
  of(guard: string): ReadFinding[] {
    const start = `{"finding":${headStart}${guard}"`;
    return this.feed.kept().flatMap(({ line }) => {
      const isOfGuard = line.startsWith(start);
      return (isOfGuard && findingOf((JSON.parse(line) as UiFinding).finding)) || [];
    });
  }

  /** Reads until the signal aborts, retrying after failures; `state` says what cannot be read. */
  async run(signal: AbortSignal): Promise<void> {
    const lineOf = await findingLines(this.#options.guards, this.#options.clusterWords);
    const backoff = new Backoff({ baseMs: 500, maxMs: 5_000 });
    const handler: AlertHandler = {
      line: (text) => this.#take(text, lineOf),
      live: async () => {
        this.#isLive = true;
        this.#known.clear();
        backoff.reset();
      },
      say: (text) => (this.#note = text),
      about: (about, isOther) => {
        this.#hasAbout = true;
        this.#hours.takeOver(about, isOther);
      },
      missed: (lines) => (this.#missed += lines),
      gone: () => (this.#isLive = false),
    };
    while (!signal.aborted) {
      try {
        const origin = this.#options.origin();
        const request = { follow: true, sinceMs: Date.now() - DAY_MS, tail: Infinity, handler, signal };
        if (origin.kind === 'socket') await socketAlerts(origin.path, request);
        else await clusterAlerts(origin.access, request);
      } catch (error) {
        this.#note = messageOf(error);
      }
      this.#isLive = false;
      // A socket reports its counts again when it reconnects; lines of logs are counted once, when they are read.
      if (this.#hasAbout) this.#hours = new FindingHours();
      this.#known = new Set(this.feed.kept().map(({ line }) => line));
      await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
    }
  }

  #take(text: string, lineOf: (read: ReadFinding) => string): undefined {
    const read = readFinding(text);
    if (read === undefined) return;
    const line = lineOf(read);
    if (this.#known.has(line)) return;
    this.feed.push(line, `${read.head.guard} ${read.head.kind}`);
    // Lines that a socket has kept are already part of the counts in its head.
    if (!this.#hasAbout || this.#isLive) this.#hours.add(read.head, Number(read.timeNs / 1_000_000n));
  }
}
