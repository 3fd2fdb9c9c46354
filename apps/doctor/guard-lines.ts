/** The first lines of `rampart doctor`: one for each guard, with its reason. */
import type { Diagnosis } from '../../guard/machine.ts';
import { printable } from '../../lib/output/printable.ts';
import { displayWidth, indentText, paint, renderTable, type RenderOptions } from '../../lib/output/table.ts';
import type { MachineFacts } from './machine.ts';

export type Verdict = 'cannot' | 'limited' | 'works';

/** As in `guards[]` of `rampart doctor -o json`. */
export interface DiagnosedGuard {
  readonly name: string;
  readonly verdict: Verdict;
  readonly mode: string | null;
  readonly obstacles: readonly string[];
  readonly limits: readonly string[];
}

export function diagnosed(name: string, { mode, obstacles, limits }: Diagnosis): DiagnosedGuard {
  const verdict = obstacles.length > 0 ? 'cannot' : limits.length > 0 ? 'limited' : 'works';
  return { name, verdict, mode: mode ?? null, obstacles, limits };
}

const words = { works: 'works', limited: 'works with limits', cannot: 'cannot work' } as const;
const styles = { works: 'green', limited: 'yellow', cannot: 'red' } as const;

/** One line for each guard, at most as wide as the terminal; what does not fit follows below it. Ends with a newline. */
export function renderGuards(guards: readonly DiagnosedGuard[], options: RenderOptions): string {
  const { widthColumns, colour } = options;
  const nameColumns = Math.max(...guards.map(({ name }) => name.length));
  const wordColumns = Math.max(...guards.map(({ verdict }) => words[verdict].length));
  const left = widthColumns - nameColumns - wordColumns - 4;
  const details: string[] = [];
  const lines = guards.map(({ name, verdict, mode, obstacles, limits }) => {
    const reasons = verdict === 'cannot' ? obstacles : limits;
    const means = verdict === 'cannot' || mode === null ? [] : [`by ${mode}`];
    const why = printable([...means, ...reasons].join('; '));
    const isWhole = displayWidth(why) <= left;
    if (!isWhole) {
      details.push(
        `${paint('bold', name, colour)}${means.length === 0 ? '' : ` works ${means.join('')}`}:\n` +
          reasons.map((reason) => bullet(printable(reason), widthColumns)).join('\n'),
      );
    }
    const word = paint(styles[verdict], words[verdict].padEnd(wordColumns), colour);
    const short = isWhole ? why : `${why.slice(0, Math.max(0, left - 4)).trimEnd()} ...`;
    return `${name.padEnd(nameColumns)}  ${word}  ${short}`.trimEnd();
  });
  return `${[lines.join('\n'), ...details].join('\n\n')}\n`;
}

function bullet(text: string, widthColumns: number): string {
  return `  - ${indentText(text, 4, widthColumns).trimStart()}`;
}

/** The facts about the machine, one a line. Ends with a newline. */
export function renderMachine(machine: MachineFacts, options: RenderOptions): string {
  const { kernel, runtime, noRuntime, api, dataDirectory, freeBytes, inotify } = machine;
  const facts: readonly (readonly [string, string, boolean?])[] = [
    ['Kernel', `${kernel.release} (${kernel.arch})`],
    ['Container runtime', runtime ?? noRuntime ?? '', runtime === undefined],
    ['API of standalone', `${api.address} ${api.problem ?? 'is free'}`, api.problem !== undefined],
    ['Disk', `${dataDirectory}: ${(freeBytes / 2 ** 30).toFixed(1)} GiB free`],
    ...(inotify === undefined
      ? []
      : [['inotify', `${inotify.watches} watches, ${inotify.instances} instances for each user`] as const]),
  ];
  const titleColumns = Math.max(...facts.map(([title]) => title.length)) + 2;
  const rows = facts.map(([title, text, isDoubtful]) => {
    const wrapped = indentText(printable(text), titleColumns, options.widthColumns).trimStart();
    const [first = '', ...more] = wrapped.split('\n');
    return [
      {
        cells: [
          { text: title, style: 'bold' as const },
          isDoubtful ? { text: first, style: 'yellow' as const } : first,
        ],
      },
      ...more.map((line) => ({ cells: ['', line.trimStart()] })),
    ];
  });
  return `${renderTable(rows.flat(), options)}\n`;
}
