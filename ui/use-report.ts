/** The report of the server, asked for again and again. */
import { useEffect, useState } from 'preact/hooks';

import type { UiReport } from '../apps/ui/report.ts';

const POLL_MS = 5_000;

export interface PolledReport {
  readonly report: UiReport | undefined;
  /** When the server said so last, milliseconds since 1970. */
  readonly checkedMs: number;
  /** Why the server gives none now; empty if it does. */
  readonly failure: string;
}

/** @param eager - Changes when something has happened: then it asks at once. */
export function useReport(eager: number): PolledReport {
  const [polled, setPolled] = useState<PolledReport>({ report: undefined, checkedMs: 0, failure: '' });
  const [tag, setTag] = useState('');
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    void (async () => {
      try {
        const response = await fetch('status.json', {
          signal,
          headers: tag === '' ? {} : { 'If-None-Match': tag },
        });
        if (response.status === 304) setPolled((last) => ({ ...last, checkedMs: Date.now(), failure: '' }));
        else if (response.ok) {
          const report = (await response.json()) as UiReport;
          setTag(response.headers.get('ETag') ?? '');
          setPolled({ report, checkedMs: Date.now(), failure: '' });
        } else {
          const failure = await response.text();
          setPolled((last) => ({ ...last, failure }));
        }
      } catch {
        if (signal.aborted) return;
        setPolled((last) => ({
          ...last,
          failure: 'rampart ui does not answer: it has ended, or cannot be reached.',
        }));
      }
      setTimeout(() => signal.aborted || setRound((one) => one + 1), POLL_MS);
    })();
    return () => stop.abort();
    // Not `tag`: it is what the answer gave.
  }, [round, eager]);
  return polled;
}
