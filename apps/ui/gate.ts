/** Who may look at the page, and at what. */
import type { IncomingHttpHeaders } from 'node:http';

import type { FindingFeed } from './finding-feed.ts';
import type { Refusal, Site } from './refusal.ts';
import type { UiPicture, UiReport } from './report.ts';

/**
 * What one user sees. Failed reads are part of the result: the only thing thrown is the reason of the signal, which aborts when the user no
 * longer waits.
 */
export interface View {
  report(signal: AbortSignal): Promise<UiReport>;
  /** The picture of a guard; undefined for guards without one. */
  picture(guard: string, signal: AbortSignal): Promise<UiPicture> | undefined;
  readonly findings: FindingFeed;
}

/** Decides by a link, by a token, or by asking the API server. Its promises never reject. */
export interface Gate {
  readonly site: Site;
  /** Whether the page asks for a token if there is no session. */
  readonly takesTokens: boolean;
  /** @returns the `Set-Cookie` header of a session, or the reason for a refusal. */
  exchange(token: string): Promise<string | Refusal>;
  admit(headers: IncomingHttpHeaders): Promise<View | Refusal>;
}

export function isRefusal(answer: View | Refusal): answer is Refusal {
  return 'why' in answer;
}

/** The bearer token of an `Authorization` header; empty without one. */
export function bearerIn(authorization = ''): string {
  return /^Bearer (\S+)$/i.exec(authorization)?.[1] ?? '';
}
