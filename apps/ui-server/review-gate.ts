/** Who may look at the page in a cluster: users of its API server, by a bearer token. */
import type { IncomingHttpHeaders } from 'node:http';

import { messageOf } from '../../lib/errors/errors.ts';
import { FairShares } from '../../lib/net/fair-shares.ts';
import { type Clock, systemClock } from '../../lib/time/clock.ts';
import { bearerIn, type Gate, type View } from '../ui/gate.ts';
import type { Refusal, Site } from '../ui/refusal.ts';
import { cookiesIn, newSecret } from '../ui/secrets.ts';
import type { AccessReviews } from './access-reviews.ts';
import type { ApiUser, TokenReviews } from './token-reviews.ts';
import { type Sources, UserView } from './user-view.ts';

export interface ReviewGateOptions {
  readonly sources: Sources;
  readonly tokens: Pick<TokenReviews, 'userOf'>;
  readonly access: Pick<AccessReviews, 'may'>;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

/** Any host name is accepted: a request by another name carries no cookie. TLS ends at the ingress, before this server. */
const site: Site = {
  isOwnName: () => true,
  names: 'the request has no Host that browsers send',
  schemes: ['https', 'http'],
  takesLinks: true,
};

const cookie = 'rampart-ui';
/** A working day; the token may expire earlier. */
const SESSION_MS = 12 * 3_600_000;
/** A user who opens more ends their own oldest session, not those of others. */
const sessionLimits = { total: 1_000, perSource: 20 };
/** A new stream has thousands of findings in memory until they are sent. */
const streamLimits = { total: 400, perSource: 16 };

interface Session extends Disposable {
  readonly token: string;
  readonly untilMs: number;
}

export class ReviewGate implements Gate {
  readonly site = site;
  readonly takesTokens = true;
  readonly #options: ReviewGateOptions;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** Keyed by the value of the cookie. */
  readonly #sessions = new Map<string, Session>();
  readonly #places = new FairShares(sessionLimits);
  readonly #streams = new FairShares(streamLimits);

  constructor(options: ReviewGateOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  async exchange(token: string): Promise<string | Refusal> {
    const user = await this.#userOf(token);
    if ('why' in user) return user;
    const secret = newSecret();
    const place = this.#places.open(user.name, () => void this.#sessions.delete(secret));
    if (!place.grow(1)) return { status: 503, why: 'there are too many sessions' };
    const untilMs = this.#clock.monotonicMs() + SESSION_MS;
    this.#sessions.set(secret, { token, untilMs, [Symbol.dispose]: () => place[Symbol.dispose]() });
    // The cookie has no Path: its default is the page's path as the browser sees it, which an ingress may have rewritten.
    return `${cookie}=${secret}; HttpOnly; Secure; SameSite=Strict`;
  }

  /** A token in the request has priority over a cookie: it comes from a proxy that has authenticated the user. */
  async admit(headers: IncomingHttpHeaders): Promise<View | Refusal> {
    const token = bearerIn(headers.authorization) || this.#tokenOf(headers.cookie);
    const user = await this.#userOf(token);
    if ('why' in user) return user;
    const { sources, tokens, access } = this.#options;
    return new UserView({
      who: user.name,
      sources,
      may: (question) => access.may(user, question),
      isKnown: async () => (await tokens.userOf(token)) !== undefined,
      stream: (end) => {
        const place = this.#streams.open(user.name, end);
        if (!place.grow(1)) end();
        return place;
      },
    });
  }

  async #userOf(token: string): Promise<ApiUser | Refusal> {
    if (token === '')
      return { status: 401, why: 'It takes a bearer token that the API server of this cluster knows' };
    try {
      const user = await this.#options.tokens.userOf(token);
      return user ?? { status: 401, why: 'the API server does not know this token, or it has expired' };
    } catch (error) {
      return { status: 503, why: `whose token it is cannot be found out: ${messageOf(error)}` };
    }
  }

  #tokenOf(header: string | undefined): string {
    for (const secret of cookiesIn(header, cookie)) {
      const session = this.#sessions.get(secret);
      if (session === undefined) continue;
      if (this.#clock.monotonicMs() < session.untilMs) return session.token;
      session[Symbol.dispose]();
      this.#sessions.delete(secret);
    }
    return '';
  }
}
