/**
 * The Secrets of an agent's configuration: for callbacks whose trap names none.
 *
 * Whoever may write a policy chooses where its alerts go. So what is secret is only sent to the origin that it was given
 * for; without an origin a Secret gives the authority to trust, and nothing else of it is used.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { isSecretName } from './callback-queue.ts';

export interface CallbackDefault {
  /** `https://host[:port]` as URLs have it; undefined for all of https. */
  readonly origin: string | undefined;
  /** `namespace/name`. */
  readonly secret: string;
}

/**
 * Reads `[ORIGIN=]NAMESPACE/NAME`, one for each origin.
 *
 * @throws {RampartError} `INPUT` for what is not an origin of https, no name of a Secret, or there twice.
 */
export function parseCallbackDefaults(texts: readonly string[]): CallbackDefault[] {
  const defaults = new Map<string | undefined, CallbackDefault>();
  for (const text of texts) {
    const at = text.lastIndexOf('=');
    const secret = text.slice(at + 1);
    const origin = at === -1 ? undefined : originOf(text.slice(0, at));
    if (origin === '') {
      throw refused('it does not start with an https origin', 'Write https://HOST[:PORT]=NAMESPACE/NAME');
    }
    if (!isSecretName(secret))
      throw refused(`${JSON.stringify(secret)} is not the name of a Secret`, 'Write NAMESPACE/NAME');
    if (defaults.has(origin)) {
      throw refused(
        `there are two Secrets for ${origin ?? 'all callbacks'}`,
        'Give one Secret with all credentials',
      );
    }
    defaults.set(origin, { origin, secret });
  }
  return [...defaults.values()];
}

/** The one for this callback: that of its origin, then the one for all of https. */
export function callbackDefault(
  defaults: readonly CallbackDefault[],
  callback: string,
): CallbackDefault | undefined {
  if (defaults.length === 0) return undefined;
  const url = URL.parse(callback);
  if (url?.protocol !== 'https:') return undefined;
  return (
    defaults.find(({ origin }) => origin === url.origin) ??
    defaults.find(({ origin }) => origin === undefined)
  );
}

/** Empty if it is not exactly an origin of https. */
function originOf(text: string): string {
  const url = URL.parse(text);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return '';
  return url.pathname === '/' && !/[?#]/.test(text) ? url.origin : '';
}

function refused(why: string, next: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: 'a Secret for callbacks cannot be used', why, next });
}
