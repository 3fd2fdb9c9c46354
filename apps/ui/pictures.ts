/** The pictures of the guards, read as often as pages ask for them. */
import type { Guard } from '../../guard/guard.ts';
import type { Picture } from '../../guard/picture.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import type { StatusChoice } from '../status/ask.ts';
import { StatusReader } from '../status/reader.ts';
import { nextCommand } from './next-command.ts';
import type { DrawnPicture, FindingsState, UiPicture } from './report.ts';

/** Answers younger than that are good enough. */
const FRESH_MS = 2_000;
/** At most a tenth of the time is spent on reading: a large cluster has many pods and reports. */
const FRESH_TIMES = 10;

interface PicturesOptions {
  readonly guards: readonly Guard[];
  readonly choice: StatusChoice;
  /** Those of a guard that are kept, oldest first. */
  readonly findingsOf: (guard: string) => ReadFinding[];
  /** Whether new ones are seen, and why not. */
  readonly live: () => Pick<FindingsState, 'isLive' | 'note'>;
  /** The API is that of a `rampart standalone` on this machine. */
  readonly isThisMachine: boolean;
  readonly clusterWords: readonly string[];
  readonly signal: AbortSignal;
}

interface Last {
  readonly answer: Promise<UiPicture>;
  /** Infinite while it is read. */
  freshUntilMs: number;
}

export class Pictures {
  /** Those that have one. */
  readonly guards: readonly string[];
  readonly #options: PicturesOptions;
  readonly #last = new Map<string, Last>();

  constructor(options: PicturesOptions) {
    this.#options = options;
    this.guards = options.guards.filter(({ picture }) => picture !== undefined).map(({ name }) => name);
  }

  /** Reads each at most once at a time; undefined if the guard has none. Failures are in the answer: never rejects. */
  read(name: string): Promise<UiPicture> | undefined {
    const known = this.#last.get(name);
    if (known !== undefined && performance.now() < known.freshUntilMs) return known.answer;
    const guard = this.#options.guards.find((one) => one.name === name);
    if (guard?.picture === undefined) return undefined;
    const beganMs = performance.now();
    const last: Last = { answer: this.#read(guard), freshUntilMs: Infinity };
    void last.answer.then(() => {
      const endedMs = performance.now();
      last.freshUntilMs = endedMs + Math.max(FRESH_MS, FRESH_TIMES * (endedMs - beganMs));
    });
    this.#last.set(name, last);
    return last.answer;
  }

  async #read(guard: Guard): Promise<UiPicture> {
    const { choice, findingsOf, live, isThisMachine, signal } = this.#options;
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
