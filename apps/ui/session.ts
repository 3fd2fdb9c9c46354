/** Who may read the page of `rampart ui`: whoever had the link first. */
import type { IncomingHttpHeaders } from 'node:http';

import type { Gate, View } from './gate.ts';
import { localSite, type Refusal } from './refusal.ts';
import { cookiesIn, isSame, newSecret } from './secrets.ts';

const cookie = 'rampart-ui';
const toStart = 'Stop rampart ui and start it again: it prints a new link';

/** A link with a token that works once, and the cookie that it is exchanged for. Both end with the process. */
export class LinkGate implements Gate {
  readonly site = localSite;
  readonly takesTokens = false;
  /** Where the page is. Cookies are sent to all ports of a host, but not to other paths: servers on other ports do not know this one. */
  readonly path: string = `/${newSecret(16)}/`;
  /** For the fragment of the link: browsers do not send fragments. */
  readonly token: string = newSecret();
  readonly #secret = newSecret();
  readonly #view: View;
  #isUsed = false;

  constructor(view: View) {
    this.#view = view;
  }

  async exchange(token: string): Promise<string | Refusal> {
    if (!isSame(token, this.token)) return refused('this is not the link of this process');
    if (this.#isUsed) return refused('the link was used before');
    this.#isUsed = true;
    return `${cookie}=${this.#secret}; Path=${this.path}; HttpOnly; SameSite=Strict`;
  }

  async admit(headers: IncomingHttpHeaders): Promise<View | Refusal> {
    const isKnown = cookiesIn(headers.cookie, cookie).some((value) => isSame(value, this.#secret));
    return isKnown ? this.#view : refused('no session');
  }
}

function refused(why: string): Refusal {
  return { status: 401, why: `${why}. ${toStart}` };
}
