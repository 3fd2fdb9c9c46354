/** The view of one user of the cluster: only objects that the API server allows them to read. */
import type { Guard } from '../../guard/guard.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import type { Asked } from '../status/ask.ts';
import type { FindingFeed, FindingReader } from '../ui/finding-feed.ts';
import type { View } from '../ui/gate.ts';
import type { Pictures } from '../ui/pictures.ts';
import type { FindingsState, UiFinding, UiPicture, UiReport } from '../ui/report.ts';
import type { FindingGroups } from './finding-groups.ts';
import { type AccessQuestion, allFindings, pictureOf, rightsFor } from './rights.ts';
import { type May, statusFor } from './user-status.ts';

/** What is read once for all users, with the rights of the pod. */
export interface Sources {
  readonly guards: readonly Guard[];
  /** The status, or why it cannot be read. @throws only the reason of the signal */
  readonly status: (signal: AbortSignal) => Promise<Asked | { readonly failure: string }>;
  readonly findings: FindingFeed;
  readonly state: () => FindingsState;
  readonly groups: Pick<FindingGroups, 'hours'>;
  readonly pictures: Pick<Pictures, 'guards' | 'read'>;
}

export interface UserViewOptions {
  /** As the API server names the user. */
  readonly who: string;
  readonly sources: Sources;
  /** @throws if the right cannot be reviewed */
  readonly may: May;
  /** Whether the token is still valid. @throws if the token cannot be reviewed */
  readonly isKnown: () => Promise<boolean>;
  /** Registers a stream of findings until the result is disposed. `end` is called if the user has too many streams. */
  readonly stream: (end: () => void) => Disposable;
}

const hidden: UiPicture = {
  picture: null,
  failure: 'it is of the whole cluster, and you may not read all of that',
};

/** Maximum number of lines that wait for an answer of the API server; it exceeds the number of kept lines of all kinds. */
const MAX_WAITING = 200_000;

export class UserView implements View {
  readonly findings: FindingFeed;
  readonly #options: UserViewOptions;

  constructor(options: UserViewOptions) {
    this.#options = options;
    this.findings = {
      epoch: options.sources.findings.epoch,
      follow: (after, reader) => this.#follow(after, reader),
    };
  }

  async report(signal: AbortSignal): Promise<UiReport> {
    const { sources, may, who } = this.#options;
    const common = { who, pictures: sources.pictures.guards };
    try {
      const asked = await sources.status(signal);
      const findings = await this.#state();
      if ('failure' in asked) return { ...common, status: null, failure: asked.failure, findings };
      return { ...common, status: await statusFor(asked, may), failure: null, findings };
    } catch (error) {
      signal.throwIfAborted();
      const failure = `what you may read cannot be found out: ${messageOf(error)}`;
      const findings = { isLive: false, note: failure, missed: 0, hours: [] };
      return { ...common, status: null, failure, findings };
    }
  }

  picture(name: string, signal: AbortSignal): Promise<UiPicture> | undefined {
    const { guards, pictures } = this.#options.sources;
    const guard = guards.find((one) => one.name === name);
    return guard && pictures.guards.includes(name) ? this.#picture(guard, signal) : undefined;
  }

  async #picture(guard: Guard, signal: AbortSignal): Promise<UiPicture> {
    try {
      if (await this.#mayAll(pictureOf(guard)))
        return (await this.#options.sources.pictures.read(guard.name, signal)) ?? hidden;
      return hidden;
    } catch (error) {
      signal.throwIfAborted();
      return { picture: null, failure: `what you may read cannot be found out: ${messageOf(error)}` };
    }
  }

  async #state(): Promise<FindingsState> {
    const { sources, may } = this.#options;
    const state = sources.state();
    if (await may(allFindings)) return state;
    const hours = await sources.groups.hours((rights) => this.#mayAll(rights));
    return { ...state, note: state.isLive ? '' : 'the logs of agents cannot be read now', hours };
  }

  async #mayAll(rights: readonly AccessQuestion[]): Promise<boolean> {
    const answers = await Promise.all(rights.map((right) => this.#options.may(right)));
    return answers.every(Boolean);
  }

  async #shows(line: string): Promise<boolean> {
    const { sources, may, isKnown } = this.#options;
    // Checked for each line: the stream may have been open for hours.
    if (!(await isKnown())) throw new Error('the token is no longer good');
    if (await may(allFindings)) return true;
    const { finding } = JSON.parse(line) as UiFinding;
    const rights = rightsFor(sources.guards, finding, finding);
    return rights !== undefined && (await this.#mayAll(rights));
  }

  /** Sends lines in order, although each may wait for reviews. If a review fails, the stream ends: the next stream sends the rest. */
  #follow(after: number, reader: FindingReader): Disposable {
    let waiting: (() => Promise<void> | void)[] = [];
    let isOver = false;
    let isReporting = false;
    const reportAll = async (): Promise<void> => {
      isReporting = true;
      while (waiting.length > 0) {
        const now = waiting;
        waiting = [];
        for (const notify of now) if (!isOver) await notify();
      }
      isReporting = false;
    };
    const add = (notify: () => Promise<void> | void): void => {
      if (waiting.push(notify) > MAX_WAITING) fail();
      else if (!isReporting) reportAll().catch(fail);
    };
    const fail = (): void => {
      if (isOver) return;
      isOver = true;
      reader.fail();
    };
    const place = this.#options.stream(fail);
    const following = this.#options.sources.findings.follow(after, {
      line: (number, line) =>
        add(async () => {
          if ((await this.#shows(line)) && !isOver) reader.line(number, line);
        }),
      live: () => add(() => reader.live()),
      fail,
    });
    return {
      [Symbol.dispose]: () => {
        isOver = true;
        waiting = [];
        following[Symbol.dispose]();
        place[Symbol.dispose]();
      },
    };
  }
}
