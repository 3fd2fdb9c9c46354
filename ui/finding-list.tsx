/** All findings, newest first, with filters. */
import { useEffect, useRef, useState } from 'preact/hooks';

import type { FindingsState } from '../apps/ui/report.ts';
import type { Decisions } from './decisions.ts';
import { FindingRows } from './finding-rows.tsx';
import { totalOf } from './hours.ts';
import { counted, shown } from './text.ts';
import type { Findings } from './use-findings.ts';

/**
 * How many rows are drawn at first, and added each time one scrolls to the end: 10,000 at once would take
 * seconds.
 */
const ROWS = 100;
const HOUR_MS = 3_600_000;
const ranges = [
  ['last 24 h', 24 * HOUR_MS],
  ['last hour', HOUR_MS],
  ['all that is kept', Infinity],
] as const;

interface FindingListProps {
  readonly findings: Findings;
  readonly decisions: Decisions;
  readonly state: FindingsState;
  readonly guards: readonly string[];
  /** The guard whose findings are shown; empty: of all. */
  readonly only: string;
  readonly choose: (guard: string) => void;
}

export function FindingList({ findings, decisions, state, guards, only, choose }: FindingListProps) {
  const [search, setSearch] = useState('');
  const [range, setRange] = useState(0);
  const [isWaitingOnly, setWaitingOnly] = useState(false);
  const [rows, setRows] = useState(ROWS);
  useEffect(() => setRows(ROWS), [search, range, only, isWaitingOnly]);
  const wanted = search.toLowerCase();
  const sinceMs = Date.now() - (ranges[range]?.[1] ?? Infinity);
  const matching = findings.list.filter(
    (one) =>
      (only === '' || one.finding.guard === only) &&
      one.timeMs >= sinceMs &&
      (wanted === '' || one.text.includes(wanted)) &&
      (!isWaitingOnly || decisions.isOpen(one)),
  );
  const isFiltered = wanted !== '' || only !== '' || isWaitingOnly;
  const { all, guards: totals } = totalOf(state.hours);
  return (
    <section class="card findings" aria-labelledby="findings-title">
      <div class="head">
        <h2 id="findings-title">Findings</h2>
        <span class="tag" role="status">
          {matching.length.toLocaleString('en')} listed, {all.toLocaleString('en')} in 24 h
        </span>
        <span class="right">
          <input
            type="search"
            placeholder="path, pod, node, policy"
            aria-label="Search findings"
            value={search}
            onInput={({ currentTarget }) => setSearch(currentTarget.value)}
          />
          <select aria-label="Time" onChange={({ currentTarget }) => setRange(currentTarget.selectedIndex)}>
            {ranges.map(([name]) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </span>
      </div>
      <div class="chips" role="group" aria-label="Guards">
        <button type="button" aria-pressed={only === ''} onClick={() => choose('')}>
          All <b>{all.toLocaleString('en')}</b>
        </button>
        {guards.map((name) => (
          <button type="button" key={name} aria-pressed={only === name} onClick={() => choose(name)}>
            {shown(name)} <b>{(totals.get(name) ?? 0).toLocaleString('en')}</b>
          </button>
        ))}
        {(decisions.total > 0 || isWaitingOnly) && (
          <button type="button" aria-pressed={isWaitingOnly} onClick={() => setWaitingOnly(!isWaitingOnly)}>
            needs a decision <b>{decisions.total.toLocaleString('en')}</b>
          </button>
        )}
      </div>
      {!state.isLive && (
        <p class="end" role="alert">
          {shown(`New findings are not seen: ${state.note}`)}
        </p>
      )}
      <FindingRows findings={matching.slice(0, rows)} decisions={decisions} />
      {matching.length > rows ? (
        <More onSeen={() => setRows((now) => now + ROWS)} left={matching.length - rows} />
      ) : (
        matching.length === 0 && <p class="end dim">{emptyText(findings, isFiltered)}</p>
      )}
    </section>
  );
}

function emptyText({ isComplete, list }: Findings, isFiltered: boolean): string {
  if (!isComplete) return 'Reading …';
  return isFiltered || list.length > 0 ? 'Nothing matches.' : 'Nothing was found.';
}

/** A button that shows more rows once it comes near the view, or is pressed. */
function More({ onSeen, left }: { readonly onSeen: () => void; readonly left: number }) {
  const end = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && onSeen(),
      { rootMargin: '1500px' },
    );
    if (end.current !== null) observer.observe(end.current);
    return () => observer.disconnect();
    // Observe again whenever `left` changes: an IntersectionObserver reports an element that stays in
    // view only once.
  }, [left]);
  return (
    <p class="end" ref={end}>
      <button type="button" onClick={onSeen}>
        Show more of {counted(left, 'finding')}
      </button>
    </p>
  );
}
