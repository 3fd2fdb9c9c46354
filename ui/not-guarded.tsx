import type { UiReport } from '../apps/ui/report.ts';
import { clock, objectText, shown } from './text.ts';

/** Limit of problems shown: with a dead agent, each of thousands of objects may have one. */
const MAX = 100;

export function NotGuarded({ report: { status } }: { readonly report: UiReport }) {
  const problems = status?.problems ?? [];
  return (
    <section class="card" id="not-guarded" aria-labelledby="not-guarded-title">
      <div class="head">
        <h2 id="not-guarded-title">Not guarded, and why</h2>
        <span class={`tag ${status === null ? 'warn' : problems.length > 0 ? 'bad' : 'ok'}`}>
          {status === null ? 'unknown' : problems.length.toLocaleString('en')}
        </span>
      </div>
      <ul class="problems">
        {status !== null && problems.length === 0 && <li class="dim">Nothing.</li>}
        {problems.slice(0, MAX).map(({ guard, object, node, field, why, next, since }) => (
          <li key={[guard, objectText(object), node, field, why].join(' ')}>
            <span class="object">{objectText(object)}</span> <span class="tag">{shown(guard)}</span>
            <div>
              {field !== null && <code>{shown(field)}: </code>}
              {shown(why)}
              {node !== null && shown(` (${node})`)}
              {since !== null && `, since ${clock(Date.parse(since))}`}
            </div>
            <div class="next">{shown(next)}</div>
          </li>
        ))}
        {problems.length > MAX && (
          <li class="dim">
            And {(problems.length - MAX).toLocaleString('en')} more: <code>rampart status</code> has all.
          </li>
        )}
      </ul>
    </section>
  );
}
