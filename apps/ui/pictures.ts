/** The pictures of the guards, read when a page requests them. */
import type { Guard } from '../../guard/guard.ts';
import type { Picture } from '../../guard/picture.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { SingleFlightCache } from '../../lib/time/single-flight-cache.ts';
import type { StatusChoice } from '../status/ask.ts';
import { StatusReader } from '../status/reader.ts';
import { nextCommand } from './next-command.ts';
import type { DrawnPicture, FindingsState, UiPicture } from './report.ts';

/** If another page requests a picture, one of this age is reused. */
const FRESH_MS = 2_000;
/**
 * A picture is reused for this many times as long as its reading took: at most a tenth of the time is spent on reading, since a large
 * cluster has many pods and reports.
 */
const FRESH_TIMES = 10;

interface PicturesOptions {
  readonly guards: readonly Guard[];
  readonly choice: StatusChoice;
  /** The kept findings of a guard, oldest first. */
  readonly findingsOf: (guard: string) => ReadFinding[];
  /** Whether new findings are seen, and if not, why. */
  readonly live: () => Pick<FindingsState, 'isLive' | 'note'>;
  /** The API is that of a `rampart standalone` on this machine. */
  readonly isThisMachine: boolean;
  readonly clusterWords: readonly string[];
}

export class Pictures {
  /** The guards that have a picture. */
  readonly guards: readonly string[];
  readonly #options: PicturesOptions;
  readonly #answers: SingleFlightCache<UiPicture>;

  constructor(options: PicturesOptions) {
    this.#options = options;
    this.guards = options.guards.filter(({ picture }) => picture !== undefined).map(({ name }) => name);
    this.#answers = new SingleFlightCache({
      fresh: { sinceEndMs: (tookMs) => Math.max(FRESH_MS, FRESH_TIMES * tookMs) },
      maxEntries: this.guards.length,
    });
  }

  /**
   * Reads each picture at most once at a time; undefined if the guard has none. Failures are part of the result. @throws only the reason of
   * the signal
   */
  read(name: string, signal: AbortSignal): Promise<UiPicture> | undefined {
    const guard = this.#options.guards.find((one) => one.name === name);
    if (guard?.picture === undefined) return undefined;
    return this.#answers.get(name, (untilNobodyWaits) => this.#read(guard, untilNobodyWaits), { signal });
  }

  async #read(guard: Guard, signal: AbortSignal): Promise<UiPicture> {
    const { choice, findingsOf, live, isThisMachine } = this.#options;
    try {
      const drawn = await guard.picture?.();
      if (drawn === undefined) throw new TypeError(`${guard.name} has no picture`);
      using client = new KubeClient(clusterAccess(choice));
      const reader = new StatusReader({ client, namespace: choice.namespace, signal });
      const picture = await drawn.read({
        ...reader.context(),
        findings: findingsOf(guard.name),
        isThisMachine,
      });
      const { isLive, note } = live();
      return {
        failure: null,
        picture: this.#drawn(picture, [
          ...reader.notRead.map(({ resource, why }) => `You may not read ${resource}: ${why}`),
          ...(isLive ? [] : [`New findings are not seen: ${note}`]),
        ]),
      };
    } catch (error) {
      return { picture: null, failure: messageOf(error) };
    }
  }

  #drawn({ items, notes, ...picture }: Picture, more: readonly string[]): DrawnPicture {
    return {
      ...picture,
      notes: [...notes, ...more],
      items: items.map(({ next, nextOnNode, ...item }) => ({
        ...item,
        command: nextCommand(
          { ...(next && { next }), ...(nextOnNode && { nextOnNode }) },
          this.#options.clusterWords,
        ),
      })),
    };
  }
}
