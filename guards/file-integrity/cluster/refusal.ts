/**
 * Writes that the API refuses because of a quota, a webhook or a missing right. A retry would not help soon, so the
 * refusal is reported where users look, and other work continues.
 */
import { KubeError } from '../../../lib/kube/client/client-errors.ts';

/** Status codes for which a retry may help: not found, a conflict or an existing object, expired, too many requests. */
const triedAgain: ReadonlySet<number> = new Set([404, 409, 410, 429]);

export function isRefusal(error: unknown): error is KubeError {
  if (!(error instanceof KubeError) || triedAgain.has(error.status)) return false;
  // The namespace is being deleted, and everything in it with it.
  return !(error.details?.causes ?? []).some(({ reason }) => reason === 'NamespaceTerminating');
}

/** @returns the refusal; undefined if the write was not refused. @throws other errors */
export async function refusalOf(write: Promise<unknown>): Promise<KubeError | undefined> {
  try {
    await write;
    return undefined;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error;
  }
}
