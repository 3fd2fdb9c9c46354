/** Who may read the page's data: whoever had the link first. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A link with a token that works once, and the cookie that it is exchanged for. Both end with the process. */
export class Session {
  /** For the fragment of the link: browsers send fragments to nobody. */
  readonly token: string = randomBytes(32).toString('base64url');
  readonly #secret = randomBytes(32).toString('base64url');
  readonly #cookie: string;
  #isUsed = false;

  /** @param port - Of the server: cookies do not tell ports apart, and two of these processes may run. */
  constructor(port: number) {
    this.#cookie = `rampart-ui-${port}`;
  }

  /** @returns the `Set-Cookie` header; `used` if somebody has exchanged the token before; `wrong` for another token. */
  exchange(token: string): { readonly setCookie: string } | 'used' | 'wrong' {
    if (!isSame(token, this.token)) return 'wrong';
    if (this.#isUsed) return 'used';
    this.#isUsed = true;
    return { setCookie: `${this.#cookie}=${this.#secret}; Path=/; HttpOnly; SameSite=Strict` };
  }

  /** @param header - The `Cookie` header of a request. */
  admits(header = ''): boolean {
    return header.split(';').some((pair) => {
      const [name = '', value = ''] = pair.trim().split('=');
      return name === this.#cookie && isSame(value, this.#secret);
    });
  }
}

/** Takes the same time whatever they have in common. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
