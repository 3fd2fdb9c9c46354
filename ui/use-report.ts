/** The report of the server, polled. */
import { useEffect, useRef, useState } from 'preact/hooks';

import type { UiReport } from '../apps/ui/report.ts';

const POLL_MS = 5_000;
/** The least time between two polls, however often something happens. */
const MIN_MS = 1_000;

export interface PolledReport {
  readonly report: UiReport | undefined;
  /** When the server last confirmed the report, in milliseconds since 1970. */
  readonly checkedMs: number;
  /** Why the last poll got no report; empty if it got one. */
  readonly failure: string;
  /** Whether the server gives a session to a browser that has a token. */
  readonly needsToken: boolean;
}

const nothing: PolledReport = { report: undefined, checkedMs: 0, failure: '', needsToken: false };

/** @param happened - A change of this number means that something has happened: the next poll comes earlier. */
export function useReport(happened: number): PolledReport {
  const [polled, setPolled] = useState(nothing);
  const hurry = useRef<() => void>(() => undefined);
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      let tag = '';
      while (!stop.signal.aborted) {
        // Made before the request: what happens during it may not be in the answer.
        const { promise: hurried, resolve } = Promise.withResolvers<void>();
        hurry.current = resolve;
        try {
          const headers: HeadersInit = tag === '' ? {} : { 'If-None-Match': tag };
          const response = await fetch('status.json', { signal: stop.signal, headers });
          if (response.status === 304)
            setPolled((last) => ({ ...last, checkedMs: Date.now(), failure: '', needsToken: false }));
          else if (response.ok) {
            const report = (await response.json()) as UiReport;
            tag = response.headers.get('ETag') ?? '';
            setPolled({ report, checkedMs: Date.now(), failure: '', needsToken: false });
          } else {
            const failure = await response.text();
            const needsToken = response.status === 401 && response.headers.has('WWW-Authenticate');
            setPolled((last) => ({ ...last, failure, needsToken }));
          }
        } catch {
          const failure = 'rampart ui does not answer: it has ended, or cannot be reached.';
          if (!stop.signal.aborted) setPolled((last) => ({ ...last, failure }));
        }
        await wait(MIN_MS);
        await Promise.race([hurried, wait(POLL_MS - MIN_MS)]);
      }
    })();
    return () => stop.abort();
  }, []);
  useEffect(() => hurry.current(), [happened]);
  return polled;
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
