/** The result of a benchmark part, and its output. */
import { renderTable } from '../lib/output/table.ts';

/** One line of a table: a label and its values, each under the name of its column. */
export interface ReportRow {
  readonly label: string;
  /** Ready to print; a column that is missing stays empty. */
  readonly cells: Readonly<Record<string, string>>;
  /** The numbers behind the cells, with units in their names, for `--json`. */
  readonly values: Readonly<Record<string, number | string | boolean>>;
}

/** A target of the product and whether this run met it. */
export interface Verdict {
  readonly target: string;
  readonly measured: string;
  readonly met: boolean;
}

export interface Report {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly ReportRow[];
  readonly verdicts: readonly Verdict[];
  /** How it was measured and what disturbed it. */
  readonly notes: readonly string[];
}

/** Parameters of every part. */
export interface PartOptions {
  /** Divides the amount of work; 1 is the full size, the tests use much more. */
  readonly shrink: number;
  /** Repetitions of each configuration. */
  readonly rounds: number;
  /** Sensor mode; `auto` takes the best the kernel accepts. */
  readonly mode: 'auto' | 'fentry' | 'kprobe' | 'raw_tracepoint';
  /** Sizes of fleets. Default: those of the part. */
  readonly nodes?: readonly number[] | undefined;
  /** Kubeconfig of a cluster to measure. Default: a server of the part's own. */
  readonly kubeconfig?: string | undefined;
  readonly signal: AbortSignal;
  /** Says on stderr what is being done. */
  readonly progress: (text: string) => void;
}

export type Part = (options: PartOptions) => Promise<Report>;

export function printReport(report: Report, colour: boolean): string {
  const rows = report.rows.map((row) => ({
    cells: [row.label, ...report.columns.map((column) => row.cells[column] ?? '')],
  }));
  const verdicts = report.verdicts.map(
    ({ target, measured, met }) => `  ${met ? 'met   ' : 'MISSED'}  ${target}: ${measured}`,
  );
  const table = renderTable(rows, { head: ['', ...report.columns], widthColumns: 110, colour });
  return [
    report.title,
    '',
    table.trimEnd(),
    '',
    ...verdicts,
    ...report.notes.map((note) => `  ${note}`),
    '',
  ].join('\n');
}

/** The middle value; of an even number the lower middle, which noise that only adds can't raise. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below or at which the share `q` of the values lies; NaN of none. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}
