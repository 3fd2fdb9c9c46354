/**
 * The Secrets in an agent's configuration: used for callbacks whose trap names no Secret.
 *
 * Whoever may write a policy chooses where its alerts are sent. Therefore credentials are only sent to the origin that they are configured
 * for. From a Secret that is configured without an origin, only the certificate authority is used.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { isSecretName } from './callback-queue.ts';

export interface CallbackDefault {
  /** `https://host[:port]` in the form of URLs; undefined: for all https callbacks. */
  readonly origin: string | undefined;
  /** `namespace/name`. */
  readonly secret: string;
}

/**
 * Parses texts of the form `[ORIGIN=]NAMESPACE/NAME`, at most one for each origin.
 *
 * @throws {RampartError} `INPUT` for an invalid https origin or name of a Secret, or if an origin is given twice.
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

/** The default for this callback: the one for its origin, otherwise the one for all https callbacks. */
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

/** The origin of https that the text consists of; empty if it is anything else. */
function originOf(text: string): string {
  const url = URL.parse(text);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return '';
  return url.pathname === '/' && !/[?#]/.test(text) ? url.origin : '';
}

function refused(why: string, next: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: 'a Secret for callbacks cannot be used', why, next });
}
