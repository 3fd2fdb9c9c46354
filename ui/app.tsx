import { useMemo, useState } from 'preact/hooks';

import type { UiReport } from '../apps/ui/report.ts';
import { Answers } from './answers.tsx';
import { type Decisions, openDecisions } from './decisions.ts';
import { FindingList } from './finding-list.tsx';
import { GuardCards } from './guard-cards.tsx';
import { GuardPicture } from './guard-picture.tsx';
import { Losses } from './losses.tsx';
import { Nodes } from './nodes.tsx';
import { NotGuarded } from './not-guarded.tsx';
import { Starters } from './starters.tsx';
import { seesNodes } from './sees-nodes.ts';
import { clock, counted, shown } from './text.ts';
import { TokenForm } from './token-form.tsx';
import { type Findings, useFindings } from './use-findings.ts';
import { useReport } from './use-report.ts';

/** @param refusal - Why the token of the link was not taken; empty if it was. */
export function App({ refusal }: { readonly refusal: string }) {
  const findings = useFindings();
  const { report, checkedMs, failure, needsToken } = useReport(findings.list[0]?.number ?? 0);
  const [only, setOnly] = useState('');
  const [drawn, setDrawn] = useState('');
  const decisions = useDecisions(findings);
  const toggle = (guard: string): void => {
    const hasPicture = report?.pictures.includes(guard) === true;
    const isChosen = only === guard && (drawn === guard || !hasPicture);
    setOnly(isChosen ? '' : guard);
    setDrawn(isChosen || !hasPicture ? '' : guard);
  };
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
            {shown(report.status.server)} ·{' '}
            {seesNodes(report.status) && `${counted(report.status.nodes.length, 'node')} · `}
            {counted(report.status.guards.length, 'guard')}
          </span>
        )}
        <span class="right dim">
          <span class={`live ${isLive ? '' : 'not'}`} role="status">
            {isLive ? 'live' : 'not live'}
          </span>
          {checkedMs > 0 && <span>{clock(checkedMs)}</span>}
          {report?.who && (
            <span class="who" title={`Read with the rights of ${shown(report.who)}`}>
              {shown(report.who)}
            </span>
          )}
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
            <Answers report={report} decisions={decisions} />
            {isNothingAsked(report) && <Starters />}
            <GuardCards report={report} guards={guards} only={only} drawn={drawn} toggle={toggle} />
            {drawn !== '' && <GuardPicture guard={drawn} close={() => setDrawn('')} />}
            <div class="columns">
              <FindingList
                findings={findings}
                decisions={decisions}
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
        Shows what <code>rampart status</code> and <code>rampart alerts</code> show, as far as you may read
        it. Changes nothing.
      </footer>
    </>
  );
}

const DAY_MS = 86_400_000;

function useDecisions({ list }: Findings): Decisions {
  return useMemo(() => openDecisions(list, Date.now() - DAY_MS), [list]);
}

function isNothingAsked({ status }: UiReport): boolean {
  return status?.guarded === true && status.guards.every(({ objects }) => objects === 0);
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
