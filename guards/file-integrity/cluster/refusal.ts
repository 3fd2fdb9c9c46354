/**
 * Writes that the API refuses: because of a quota, a webhook, a missing right. A retry does not help soon, so
 * it is reported where users look, and the remaining work continues.
 */
import { KubeError } from '../../../lib/kube/client/client-errors.ts';

/** Not found, a conflict or an object that exists already, expired, too many requests: worth another try. */
const triedAgain: ReadonlySet<number> = new Set([404, 409, 410, 429]);

export function isRefusal(error: unknown): error is KubeError {
  if (!(error instanceof KubeError) || triedAgain.has(error.status)) return false;
  // All that is in it goes soon.
  return !(error.details?.causes ?? []).some(({ reason }) => reason === 'NamespaceTerminating');
}

/** @returns why it was refused; undefined if it was not. @throws what is not a refusal */
export async function refusalOf(write: Promise<unknown>): Promise<KubeError | undefined> {
  try {
    await write;
    return undefined;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error;
  }
}
