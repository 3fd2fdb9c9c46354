import { levelOf, type Picture, type PictureItem, type PictureSource } from '../../../guard/picture.ts';
import { reportKinds } from '../../../guard/reports/report-entry.ts';
import { counted } from '../../../lib/output/words.ts';
import { explainWords } from '../findings/policy-finding.ts';
import {
  type AuditReport,
  ourReports,
  property,
  type ReportResult,
  reportTypes,
  type Scope,
} from '../reports/report.ts';

/** Results of one policy in one namespace. */
interface Cell {
  readonly policy: string;
  readonly namespace: string;
  fail: number;
  error: number;
  pass: number;
  skip: number;
  /** The first object that fails the policy. */
  first: Partial<Pick<Scope, 'kind' | 'name' | 'namespace'>> | undefined;
}

const MAX_ROWS = 24;
const clusterScoped = 'no namespace';

export const policyAuditPicture: PictureSource = {
  async read({ list, orForbidden }) {
    const cells = new Map<string, Cell>();
    let isReadable = true;
    for (const kind of reportKinds) {
      // One kind of report is enough: reading both would count each result twice.
      if (cells.size > 0) break;
      for (const type of Object.values(reportTypes[kind])) {
        const read = await orForbidden(type.plural, async () => {
          await list<AuditReport>(type, (report) => take(cells, report), { labelSelector: ourReports });
          return true;
        });
        isReadable &&= read === true;
      }
    }
    return pictureOf([...cells.values()], isReadable);
  },
};

function take(cells: Map<string, Cell>, report: AuditReport): void {
  const namespace = report.metadata.namespace ?? clusterScoped;
  for (const result of report.results ?? []) {
    const policy = nameOf(result);
    const key = JSON.stringify([policy, namespace]);
    let cell = cells.get(key);
    if (cell === undefined) {
      cell = { policy, namespace, fail: 0, error: 0, pass: 0, skip: 0, first: undefined };
      cells.set(key, cell);
    }
    const outcome = result.result === 'warn' ? 'fail' : result.result;
    cell[outcome]++;
    if (outcome === 'fail' || outcome === 'error') cell.first ??= result.resources?.[0] ?? report.scope;
  }
}

/** Name of the policy: `no-root`, or `shop/owner` if it belongs to a namespace. */
function nameOf({ policy, properties }: ReportResult): string {
  const name = properties?.[property.name];
  if (name === undefined) return policy;
  const namespace = properties[property.namespace];
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export function pictureOf(cells: readonly Cell[], isReadable: boolean): Picture {
  const [rows, columns] = (['policy', 'namespace'] as const).map((axis) => maxFailing(cells, axis)) as [
    ReadonlySet<string>,
    ReadonlySet<string>,
  ];
  const shown = cells.filter(({ policy, namespace }) => rows.has(policy) && columns.has(namespace));
  const left = new Set(cells.map(({ policy }) => policy)).size - rows.size;
  const leftColumns = new Set(cells.map(({ namespace }) => namespace)).size - columns.size;
  const notes = [
    isReadable && cells.length === 0 && 'No policy has been evaluated for an object yet.',
    left > 0 && `${counted(left, 'policy', 'policies')} left out: those that fail least.`,
    leftColumns > 0 && `${counted(leftColumns, 'namespace')} left out: those that fail least.`,
  ].filter((note) => note !== false);
  const known = new Map(shown.map((cell) => [JSON.stringify([cell.policy, cell.namespace]), cell]));
  const items = [...rows].toSorted(order).flatMap((policy) =>
    [...columns].toSorted(order).map((namespace) => {
      const cell = known.get(JSON.stringify([policy, namespace]));
      return cell === undefined ? blankItem(policy, namespace) : itemOf(cell);
    }),
  );
  return {
    ...{
      form: 'grid',
      title: 'Which policies fail where',
      axes: ['policy', 'namespace'],
      unit: 'failing objects',
    },
    items,
    legend: [
      { tone: 'ok', words: 'all pass' },
      { tone: 'level1', words: 'one or two fail' },
      { tone: 'level2', words: 'three or more' },
      { tone: 'level3', words: 'ten or more' },
      { tone: 'level4', words: 'fifty or more' },
      { tone: 'warn', words: 'could not be evaluated' },
    ],
    notes,
  };
}

function order(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

function maxFailing(cells: readonly Cell[], axis: 'namespace' | 'policy'): ReadonlySet<string> {
  const sums = new Map<string, number>();
  for (const cell of cells) sums.set(cell[axis], (sums.get(cell[axis]) ?? 0) + cell.fail + cell.error);
  return new Set(
    [...sums]
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, MAX_ROWS)
      .map(([name]) => name),
  );
}

function blankItem(policy: string, namespace: string): PictureItem {
  const text = `${policy} in ${namespace}: there is no object that it applies to.`;
  return { at: [policy, namespace], value: 0, tone: 'blank', mark: '', text };
}

function itemOf({ policy, namespace, fail, error, pass, skip, first }: Cell): PictureItem {
  const parts = [
    counted(fail, 'object fails', 'objects fail'),
    `${pass} pass`,
    ...(skip > 0 ? [`${skip} excepted`] : []),
    ...(error > 0 ? [`${error} could not be evaluated`] : []),
  ];
  const { kind = '', name = '' } = first ?? {};
  const where = namespace === clusterScoped ? '' : namespace;
  const next = kind === '' ? undefined : explainWords({ kind, name, namespace: where });
  return {
    at: [policy, namespace],
    value: fail,
    tone: fail > 0 ? levelOf(fail) : error > 0 ? 'warn' : 'ok',
    mark: fail > 0 ? String(fail) : error > 0 ? '?' : '',
    text: `${policy} in ${namespace}: ${parts.join(', ')}.${name === '' ? '' : ` One of them: ${kind} ${name}.`}`,
    ...(next && { next }),
  };
}
