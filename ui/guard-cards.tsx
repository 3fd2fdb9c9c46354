/** A card for each guard, which also filters the list of findings, and opens the picture of the guard. */
import type { UiReport } from '../apps/ui/report.ts';
import type { GuardReport } from '../apps/status/report.ts';
import { pictureId } from './guard-picture.tsx';
import { hourly } from './hours.ts';
import { counted, shown } from './text.ts';

interface GuardCardsProps {
  readonly report: UiReport;
  readonly guards: readonly string[];
  /** The guard that the list of findings is limited to; empty: all. */
  readonly only: string;
  /** The guard whose picture is shown; empty: none. */
  readonly drawn: string;
  readonly toggle: (guard: string) => void;
}

export function GuardCards({ report, guards, only, drawn, toggle }: GuardCardsProps) {
  const { status, findings, pictures } = report;
  return (
    <section class="guards" aria-label="Guards">
      {guards.map((name) => {
        const guard = status?.guards.find((one) => one.name === name);
        const counts = hourly(findings.hours, name, Date.now());
        const [tone, word] = stateOf(guard);
        const count = counts.reduce((sum, one) => sum + one, 0);
        return (
          <button
            type="button"
            key={name}
            class="guard"
            aria-pressed={only === name}
            {...(pictures.includes(name) && {
              'aria-expanded': drawn === name,
              ...(drawn === name && { 'aria-controls': pictureId }),
            })}
            onClick={() => toggle(name)}
          >
            <span class="top">
              <span class="name">{shown(name)}</span>
              <span class={`tag ${tone}`}>{word}</span>
            </span>
            <span class="figure">
              {count.toLocaleString('en')} <small>{count === 1 ? 'finding' : 'findings'} in 24 h</small>
            </span>
            <Bars counts={counts} />
            <span class="coverage">{guard && shown(coverage(guard))}</span>
          </button>
        );
      })}
    </section>
  );
}

function stateOf(guard: GuardReport | undefined): [tone: string, word: string] {
  if (guard === undefined) return ['warn', '? unknown'];
  const { state, guarded, objects, notGuarded } = guard;
  if (notGuarded > 0) return ['bad', '✕ not all'];
  if (state === 'off') return ['', '– off'];
  if (state === 'not-installed') return ['', '– not in use'];
  if (state === 'not-running') return ['bad', '✕ not running'];
  if (objects === null) return ['warn', '? may not be read'];
  if (state === 'unknown' || !guarded) return ['warn', '? unknown'];
  return objects === 0 ? ['', '– nothing asked'] : ['ok', '✓ guarded'];
}

function coverage({ objects, notGuarded, on, notOn }: GuardReport): string {
  const what =
    objects === null
      ? 'objects may not be read'
      : notGuarded > 0
        ? `${notGuarded} of ${objects} not guarded`
        : counted(objects, 'object');
  const where = on.length === 1 ? `, on ${on[0] ?? ''}` : on.length > 1 ? `, on ${on.length} nodes` : '';
  return `${what}${where}${notOn.length === 0 ? '' : `; not on ${notOn.map(({ name }) => name).join(', ')}`}`;
}

function Bars({ counts }: { readonly counts: readonly number[] }) {
  const max = Math.max(...counts, 1);
  return (
    <svg viewBox="0 0 96 26" preserveAspectRatio="none" aria-hidden="true">
      {counts.map((count, at) => {
        const height = Math.max(1, (count / max) * 23);
        return <rect x={at * 4} width={3} y={25 - height} height={height} />;
      })}
    </svg>
  );
}
