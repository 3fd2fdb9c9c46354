import type { StatusReport } from '../apps/status/report.ts';
import { seesNodes } from './sees-nodes.ts';
import { shown } from './text.ts';

interface LossesProps {
  readonly status: StatusReport;
  /** Findings that this page could not get. */
  readonly missed: number;
}

/** Losses since the agents started, on all nodes together. */
export function Losses({ status, missed }: LossesProps) {
  const sums = new Map<string, number>([['findings, not read by this page', missed]]);
  for (const { guard, what, count } of status.nodes.flatMap(({ losses }) => losses)) {
    const name = guard === null ? what : `${guard}: ${what}`;
    sums.set(name, (sums.get(name) ?? 0) + count);
  }
  const all = [...sums.values()].reduce((sum, count) => sum + count, 0);
  const isKnown = seesNodes(status);
  return (
    <section class="card" id="losses" aria-labelledby="losses-title">
      <div class="head">
        <h2 id="losses-title">Losses</h2>
        <span class={`tag ${all > 0 ? 'bad' : isKnown ? 'ok' : 'warn'}`}>
          {all > 0 ? all.toLocaleString('en') : isKnown ? 'none' : 'unknown'}
        </span>
      </div>
      <dl class="losses">
        {[...sums].map(([name, count]) => (
          <>
            <dt>{shown(name)}</dt>
            <dd>{count.toLocaleString('en')}</dd>
          </>
        ))}
      </dl>
      {!isKnown && <p class="note dim">You may not read what agents lost.</p>}
    </section>
  );
}
