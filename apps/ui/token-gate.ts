/** Who may read the page of `rampart standalone --ui`: whoever has the token of the viewer. */
import type { IncomingHttpHeaders } from 'node:http';

import type { Gate, View } from './gate.ts';
import type { Refusal, Site } from './refusal.ts';
import { cookiesIn, isSame, newSecret } from './secrets.ts';

export interface TokenGateOptions {
  readonly site: Site;
  /** Path of the page: `/ui/`. */
  readonly path: string;
  /** Makes the cookie's name unique: cookies are shared between ports, and two of these processes may run on one host. */
  readonly port: string;
  readonly isToken: (token: string) => boolean;
  /** The file with the token, named to users who need it. */
  readonly file: string;
}

/** Accepts a typed token, and the cookie that it is exchanged for. The cookie ends with the process. */
export class TokenGate implements Gate {
  readonly takesTokens = true;
  readonly site: Site;
  readonly #options: TokenGateOptions;
  readonly #cookie: string;
  readonly #secret = newSecret();
  readonly #view: View;

  constructor(view: View, options: TokenGateOptions) {
    this.#view = view;
    this.#options = options;
    this.site = options.site;
    this.#cookie = `rampart-ui-${options.port}`;
  }

  async exchange(token: string): Promise<string | Refusal> {
    const { isToken, path, file } = this.#options;
    if (!isToken(token)) return { status: 401, why: `this is not the token in ${file}` };
    return `${this.#cookie}=${this.#secret}; Path=${path}; HttpOnly; Secure; SameSite=Strict`;
  }

  async admit(headers: IncomingHttpHeaders): Promise<View | Refusal> {
    const isKnown = cookiesIn(headers.cookie, this.#cookie).some((value) => isSame(value, this.#secret));
    return isKnown ? this.#view : { status: 401, why: `The token is in ${this.#options.file}` };
  }
}
