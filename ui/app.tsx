import { useState } from 'preact/hooks';

import type { UiReport } from '../apps/ui/report.ts';
import { Answers } from './answers.tsx';
import { FindingList } from './finding-list.tsx';
import { GuardCards } from './guard-cards.tsx';
import { Losses } from './losses.tsx';
import { Nodes } from './nodes.tsx';
import { NotGuarded } from './not-guarded.tsx';
import { clock, counted, shown } from './text.ts';
import { TokenForm } from './token-form.tsx';
import { useFindings } from './use-findings.ts';
import { useReport } from './use-report.ts';

/** @param refusal - Why the token of the link was not taken; empty if it was. */
export function App({ refusal }: { readonly refusal: string }) {
  const findings = useFindings();
  const { report, checkedMs, failure, needsToken } = useReport(findings.list[0]?.number ?? 0);
  const [only, setOnly] = useState('');
  const toggle = (guard: string): void => setOnly((now) => (now === guard ? '' : guard));
  const guards = report === undefined ? [] : guardNames(report);
  if (needsToken)
    return (
      <main>
        <TokenForm why={failure} />
      </main>
    );
  const isLive = failure === '' && report?.failure === null && report.findings.isLive;
  return (
    <>
      <header>
        <h1>Rampart</h1>
        {report?.status && (
          <span class="dim">
            {shown(report.status.server)} · {counted(report.status.nodes.length, 'node')} ·{' '}
            {counted(report.status.guards.length, 'guard')}
          </span>
        )}
        <span class="right dim">
          <span class={`live ${isLive ? '' : 'not'}`} role="status">
            {isLive ? 'live' : 'not live'}
          </span>
          {checkedMs > 0 && <span>{clock(checkedMs)}</span>}
          <button type="button" onClick={switchTheme} aria-label="Light or dark">
            ◐
          </button>
        </span>
      </header>
      <main>
        {failure !== '' && (
          <p class="card message bad" role="alert">
            {shown(refusal === '' || report !== undefined ? failure : refusal)}
            {checkedMs > 0 && ` What follows is of ${clock(checkedMs)}.`}
          </p>
        )}
        {report?.status?.notRead.map(({ resource, why }) => (
          <p class="card message" key={resource}>
            {shown(`You may not read ${resource}: ${why}`)}
          </p>
        ))}
        {report === undefined ? (
          failure === '' && <p class="dim">Reading …</p>
        ) : (
          <>
            <Answers report={report} />
            <GuardCards report={report} guards={guards} only={only} toggle={toggle} />
            <div class="columns">
              <FindingList
                findings={findings}
                state={report.findings}
                guards={guards}
                only={only}
                choose={setOnly}
              />
              <div class="side">
                <NotGuarded report={report} />
                {report.status && <Nodes status={report.status} />}
                {report.status && <Losses status={report.status} missed={report.findings.missed} />}
              </div>
            </div>
          </>
        )}
      </main>
      <footer>
        Reads what <code>rampart status</code> and <code>rampart alerts</code> read, with your own rights.
        Changes nothing.
      </footer>
    </>
  );
}

function guardNames({ status, findings }: UiReport): string[] {
  return [
    ...new Set([
      ...(status?.guards ?? []).map(({ name }) => name),
      ...findings.hours.map(({ guard }) => guard),
    ]),
  ];
}

function switchTheme(): void {
  const { dataset } = document.documentElement;
  const isDark =
    dataset['theme'] === undefined
      ? matchMedia('(prefers-color-scheme: dark)').matches
      : dataset['theme'] === 'dark';
  dataset['theme'] = isDark ? 'light' : 'dark';
}
