/** The state of each guard on each node, and in the operator. */
import type { NodeReport, StatusReport } from '../apps/status/report.ts';
import { seesNodes } from './sees-nodes.ts';
import { counted, shown } from './text.ts';

type Tone = 'ok' | 'warn' | 'bad' | '';

interface Cell {
  readonly tone: Tone;
  /** The reason of the state; may be empty. */
  readonly why: string;
}

const marks: Readonly<Record<Tone, readonly [mark: string, word: string]>> = {
  ok: ['✓', 'works'],
  warn: ['~', 'limited'],
  bad: ['✕', 'does not work'],
  '': ['–', 'not needed there'],
};

export function Nodes({ status }: { readonly status: StatusReport }) {
  const { nodes, operator } = status;
  const guards = status.guards.map(({ name }) => name);
  const running = nodes.filter(({ agent }) => agent === 'running').length;
  const rows = nodes.map((node) => ({
    name: node.name,
    detail: node.agent === 'running' ? modesOf(node) : agentWords[node.agent],
    cells: guards.map((guard) => nodeCell(node, guard)),
  }));
  const operatorCells = status.guards.map(({ operator: of }): Cell =>
    of === null ? { tone: '', why: '' } : cellOf(of.state, of.reason, []),
  );
  const all = [...rows, { name: 'operator', detail: operatorWords[operator.state], cells: operatorCells }];
  const notes = all.flatMap(({ name, cells }) =>
    cells.flatMap(({ why }, at) => (why === '' ? [] : [`${name}, ${guards[at] ?? ''}: ${why}`])),
  );
  if (!seesNodes(status))
    return (
      <section class="card" id="nodes" aria-labelledby="nodes-title">
        <div class="head">
          <h2 id="nodes-title">Nodes</h2>
          <span class="tag warn">unknown</span>
        </div>
        <p class="note dim">You may not read which nodes and agents there are.</p>
      </section>
    );
  return (
    <section class="card" id="nodes" aria-labelledby="nodes-title">
      <div class="head">
        <h2 id="nodes-title">Nodes</h2>
        <span class={`tag ${running === nodes.length ? 'ok' : 'bad'}`}>
          {running} of {counted(nodes.length, 'agent')} running
        </span>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Guards by node">
        <table>
          <thead>
            <tr>
              <th scope="col">node</th>
              {guards.map((guard) => (
                <th scope="col" key={guard}>
                  {breakable(guard)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {all.map(({ name, detail, cells }) => (
              <tr key={name}>
                <th scope="row">
                  {shown(name)}
                  <small>{shown(detail)}</small>
                </th>
                {cells.map((cell, at) => (
                  <td key={guards[at]}>
                    <Mark {...cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ul class="legend">
        {Object.entries(marks).map(([tone, [mark, word]]) => (
          <li key={tone}>
            <span class={`mark ${tone}`} aria-hidden="true">
              {mark}
            </span>
            {word}
          </li>
        ))}
      </ul>
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{shown(note)}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Allows a line break after each hyphen: a column is then no wider than the longest word of its name. */
function breakable(name: string) {
  return shown(name)
    .split(/(?<=-)/)
    .map((part) => (
      <>
        {part}
        <wbr />
      </>
    ));
}

const agentWords: Readonly<Record<NodeReport['agent'], string>> = {
  running: '',
  dead: 'the agent does not renew its lease',
  stopped: 'the agent was stopped',
  'not-seen': 'no agent was seen',
};

const operatorWords: Readonly<Record<StatusReport['operator']['state'], string>> = {
  held: '',
  stale: 'it does not renew its lease',
  free: 'not running',
  unknown: 'may not be read',
};

function Mark({ tone, why }: Cell) {
  const [mark, word] = marks[tone];
  return (
    <span class={`mark ${tone}`} title={shown(why === '' ? word : why)}>
      <span aria-hidden="true">{mark}</span>
      <span class="hidden">{word}</span>
    </span>
  );
}

function nodeCell({ agent, guards }: NodeReport, guard: string): Cell {
  if (agent !== 'running') return { tone: 'bad', why: '' };
  const of = guards[guard];
  return of === undefined ? { tone: '', why: '' } : cellOf(of.state, of.reason, of.blindSpots);
}

function cellOf(state: string, reason: string, blindSpots: readonly string[]): Cell {
  const blind = blindSpots.length === 0 ? '' : `not visible: ${blindSpots.join(', ')}`;
  if (state === 'running') return { tone: blind === '' ? 'ok' : 'warn', why: blind };
  if (state === 'off') return { tone: '', why: '' };
  return {
    tone: state === 'unavailable' ? 'bad' : 'warn',
    why: `${state}${reason === '' ? '' : `: ${reason}`}`,
  };
}

function modesOf({ guards }: NodeReport): string {
  const modes = Object.values(guards).flatMap(({ mode }) => mode ?? []);
  return [...new Set(modes)].join(' · ');
}
