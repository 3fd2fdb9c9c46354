/** The three main questions, with their answers, at the top of the page. */
import type { ComponentChildren } from 'preact';

import type { GuardReport } from '../apps/status/report.ts';
import type { UiReport } from '../apps/ui/report.ts';
import type { Decisions } from './decisions.ts';
import { totalOf } from './hours.ts';
import { seesNodes } from './sees-nodes.ts';
import { counted, shown } from './text.ts';

interface Said {
  readonly tone: 'ok' | 'warn' | 'bad' | '';
  readonly answer: string;
  readonly more: ComponentChildren;
}

interface AnswersProps {
  readonly report: UiReport;
  readonly decisions: Decisions;
}

export function Answers({ report, decisions }: AnswersProps) {
  return (
    <section class="card answers" aria-label="At a glance">
      <Answer question="Is everything guarded that was asked for?" {...guardedAnswer(report)} />
      <Answer question="What was found in the last 24 hours?" {...foundAnswer(report, decisions)} />
      <Answer question="Was anything missed?" {...missedAnswer(report)} />
    </section>
  );
}

function Answer({ question, tone, answer, more }: Said & { readonly question: string }) {
  return (
    <div>
      <h2 class="question">{question}</h2>
      <div class={`answer ${tone}`}>{answer}</div>
      <div>{more}</div>
    </div>
  );
}

function guardedAnswer({ status, failure }: UiReport): Said {
  if (status === null)
    return { tone: 'warn', answer: 'Unknown', more: shown(failure ?? 'The status cannot be read.') };
  const { guards } = status;
  const sum = (of: (guard: GuardReport) => number): number =>
    guards.reduce((all, guard) => all + of(guard), 0);
  const objects = sum((guard) => guard.objects ?? 0);
  if (status.guarded && objects === 0)
    return {
      tone: '',
      answer: 'Nothing is asked for yet',
      more: 'No guard has an object to guard by. Below are examples to begin with.',
    };
  if (status.guarded)
    return { tone: 'ok', answer: `Yes: ${counted(objects, 'object')}`, more: 'All are guarded.' };
  if (status.problems.length === 0)
    return { tone: 'warn', answer: 'Unknown', more: 'You may not read all that was asked for.' };
  const first = status.problems[0]?.why ?? '';
  return {
    tone: 'bad',
    answer: `No: ${sum((guard) => guard.notGuarded)} of ${counted(objects, 'object')} not guarded`,
    more: (
      <>
        {shown(failure === null ? first : failure)} <a href="#not-guarded">Why</a>
      </>
    ),
  };
}

function foundAnswer({ findings: { hours, isLive, note } }: UiReport, { counts, total }: Decisions): Said {
  const { all, guards } = totalOf(hours);
  const by = [...guards].map(([guard, count]) => `${guard} ${count.toLocaleString('en')}`).join(', ');
  const decide = counts.map(({ what, count }) => counted(count, ...what)).join(', ');
  const blind = isLive ? '' : `New findings are not seen: ${note}`;
  const more = shown([decide, by, blind].filter((part) => part !== '').join('. '));
  if (all === 0 && total === 0)
    return { tone: isLive ? 'ok' : 'warn', answer: isLive ? 'Nothing' : 'Unknown', more };
  const waiting =
    total === 0 ? '' : `, ${total.toLocaleString('en')} ${total === 1 ? 'needs' : 'need'} a decision`;
  return { tone: total > 0 ? 'warn' : '', answer: `${counted(all, 'finding')}${waiting}`, more };
}

function missedAnswer({ status, failure, findings: { missed, isLive } }: UiReport): Said {
  if (status === null || failure !== null)
    return { tone: 'bad', answer: 'Nothing is seen now', more: shown(failure ?? '') };
  const lost = status.nodes.flatMap(({ losses }) => losses).reduce((sum, { count }) => sum + count, missed);
  const away = status.nodes.filter(({ agent }) => agent !== 'running').map(({ name }) => name);
  const blind = status.nodes.filter(({ guards }) =>
    Object.values(guards).some((one) => one.blindSpots.length > 0),
  );
  const more = (
    <>
      {away.length > 0 && shown(`No agent runs on ${away.join(', ')}. `)}
      {!isLive && 'The findings are not read now. '}
      Since the agents started.
      {blind.length > 0 && (
        <>
          {' '}
          <a href="#nodes">Not everything is visible</a> on {shown(blind.map(({ name }) => name).join(', '))}.
        </>
      )}
    </>
  );
  if (lost > 0) return { tone: 'bad', answer: `${lost.toLocaleString('en')} lost`, more };
  if (!seesNodes(status))
    return { tone: 'warn', answer: 'Unknown', more: 'You may not read what agents lost.' };
  if (status.nodes.length === 0) return { tone: 'warn', answer: 'Unknown', more: 'No agent is known.' };
  if (away.length > 0 || !isLive) return { tone: 'bad', answer: 'Not all is seen now', more };
  return { tone: 'ok', answer: 'Nothing lost', more };
}
