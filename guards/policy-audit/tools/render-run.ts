/** The result of a run, for people, programs and CI systems. */
import { relative } from 'node:path';

import { documentText, type Schema } from '../../../lib/cli/document.ts';
import type { TableFormat } from '../../../lib/cli/output-option.ts';
import { printable } from '../../../lib/output/printable.ts';
import { renderTable, type Row } from '../../../lib/output/table.ts';
import type { PatchOperation } from '../server/json-diff.ts';
import type { Run, RunResult } from './run-policies.ts';

export type RunFormat = TableFormat | 'junit' | 'sarif';

export interface RenderOptions {
  readonly widthColumns: number;
  readonly colour: boolean;
  /** Whether to list passes and skips as well. */
  readonly all: boolean;
  readonly version: string;
}

/** The text, with a trailing newline. */
export function renderRun(run: Run, format: RunFormat, options: RenderOptions): string {
  switch (format) {
    case 'table':
    case 'wide':
      return tableOf(run, options);
    case 'json':
    case 'yaml':
      return documentText(format, jsonOf(run));
    case 'junit':
      return junitOf(run);
    case 'sarif':
      return `${JSON.stringify(sarifOf(run, options.version), null, 2)}\n`;
  }
}

function countsOf({ results }: Run): Record<RunResult['result'], number> {
  const counts = { pass: 0, fail: 0, error: 0, skip: 0 };
  for (const { result } of results) counts[result]++;
  return counts;
}

const styles = { pass: 'green', fail: 'red', error: 'magenta', skip: 'dim' } as const;

function tableOf(run: Run, { widthColumns, colour, all }: RenderOptions): string {
  const shown = run.results.filter(
    ({ result, patch }) => all || result === 'fail' || result === 'error' || patch.length > 0,
  );
  const rows = shown.map((each): Row => {
    const { policy, subject, result, message, causes, warnings, patch } = each;
    const notes = [
      ...(message === undefined ? [] : [message]),
      ...causes
        .filter((cause) => cause.message !== message)
        .map(({ field, message: why }) => (field === '' ? why : `${field}: ${why}`)),
      ...warnings.map((warning) => `warning: ${warning}`),
      ...patch.map(patchText),
    ];
    return {
      cells: [
        { text: result, style: styles[result] },
        printable(policy),
        printable(subject.name),
        printable(`${subject.file}:${subject.line}`),
      ],
      note: notes.length === 0 ? undefined : printable(notes.join('; ')),
    };
  });
  const head = ['RESULT', 'POLICY', 'OBJECT', 'FILE'];
  const table = rows.length === 0 ? '' : `${renderTable(rows, { head, widthColumns, colour }).trimEnd()}\n`;
  const problems = run.problems.map((problem) => `not checked: ${printable(problem)}\n`).join('');
  const { pass, fail, error, skip } = countsOf(run);
  return `${table}${problems}${pass} pass, ${fail} fail, ${error} error, ${skip} not matched\n`;
}

function patchText({ op, path, ...more }: PatchOperation): string {
  const value = 'value' in more ? ` ${JSON.stringify(more.value)}` : '';
  return `would ${op} ${path || '/'}${value}`;
}

function jsonOf(run: Run): object {
  return {
    schema: 'rampart.dev/policy-run/v1' satisfies Schema,
    summary: countsOf(run),
    problems: run.problems,
    results: run.results.map(({ subject, patch, causes, warnings, ...rest }) => ({
      ...rest,
      object: subject.name,
      file: subject.file,
      line: subject.line,
      ...(causes.length > 0 && { causes }),
      ...(warnings.length > 0 && { warnings }),
      ...(patch.length > 0 && { patch }),
    })),
  };
}

/** For CI systems: a suite for each policy, a case for each object. */
function junitOf(run: Run): string {
  const byPolicy = Map.groupBy(run.results, ({ policy }) => policy);
  const suites = [...byPolicy].map(([policy, results]) => {
    const counts = countsOf({ results, problems: [] });
    const cases = results.map(
      (each) =>
        `    <testcase name="${xml(each.subject.name)}" classname="${xml(policy)}" file="${xml(each.subject.file)}">${caseBody(each)}</testcase>\n`,
    );
    return `  <testsuite name="${xml(policy)}" tests="${results.length}" failures="${counts.fail}" errors="${counts.error}" skipped="${counts.skip}">\n${cases.join('')}  </testsuite>\n`;
  });
  const problems = run.problems.map(
    (problem) =>
      `    <testcase name="${xml(problem.slice(0, 200))}" classname="rampart"><error message="${xml(problem)}"/></testcase>\n`,
  );
  const own =
    problems.length === 0
      ? ''
      : `  <testsuite name="not checked" tests="${problems.length}" failures="0" errors="${problems.length}" skipped="0">\n${problems.join('')}  </testsuite>\n`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('')}${own}</testsuites>\n`;
}

function caseBody({ result, message = '', subject, causes }: RunResult): string {
  if (result === 'pass') return '';
  const text = xml(
    [`${subject.file}:${subject.line}`, message, ...causes.map((cause) => cause.message)].join('\n'),
  );
  if (result === 'skip') return `<skipped message="${xml(message)}"/>`;
  const element = result === 'fail' ? 'failure' : 'error';
  return `<${element} message="${xml(message)}">${text}</${element}>`;
}

/** Characters that XML 1.0 does not allow are replaced. */
function xml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  return text
    .toWellFormed()
    .replaceAll(/[^\t\n\r\u0020-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll(/[&<>"]/g, (character) => entities[character] ?? character);
}

const levels: Readonly<Record<string, 'error' | 'note' | 'warning'>> = {
  info: 'note',
  low: 'note',
  medium: 'warning',
};

/** https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html */
function sarifOf(run: Run, version: string): object {
  const reported = run.results.filter(({ result }) => result === 'fail' || result === 'error');
  const rules = [...new Set(reported.map(({ policy }) => policy))];
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'rampart', version, rules: rules.map((id) => ({ id, name: id })) } },
        invocations: [
          {
            executionSuccessful:
              run.problems.length === 0 && reported.every(({ result }) => result === 'fail'),
            toolExecutionNotifications: run.problems.map((text) => ({ level: 'error', message: { text } })),
          },
        ],
        results: reported.map(({ policy, subject, result, message, severity }) => ({
          ruleId: policy,
          ruleIndex: rules.indexOf(policy),
          level: result === 'error' ? 'error' : (levels[severity ?? ''] ?? 'error'),
          message: { text: `${subject.name}: ${message ?? 'refused'}` },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: uriOf(subject.file) },
                region: { startLine: subject.line },
              },
            },
          ],
        })),
      },
    ],
  };
}

/** The file as a URI relative to the working directory, which in CI is the top of the repository. */
function uriOf(file: string): string {
  const path = file.startsWith('/') ? relative(process.cwd(), file) : file;
  return path.split('/').map(encodeURIComponent).join('/');
}
