/** Runs `rampart audit`. */
import { readFileSync } from 'node:fs';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { printable } from '../../../../lib/output/printable.ts';
import { paint, renderTable, type Row, wantsColour } from '../../../../lib/output/table.ts';
import { counted } from '../../../../lib/output/words.ts';
import { type AuditOnce, auditOnce } from '../../once/audit-once.ts';
import type { Runtimes } from '../../policies/open-policy.ts';
import { checkPolicyServer, remoteRuntimes } from '../../policies/remote-runtimes.ts';
import { servedReportKind, usualReportKind } from '../../reports/report-kind.ts';
import type { Scope } from '../../reports/report.ts';
import { printDocument } from '../../../../lib/cli/document.ts';
import { describeFailure } from '../../../../lib/cli/failure.ts';
import { stopSignal } from '../../../../lib/cli/process.ts';
import type { AuditOptions } from './command.ts';
import { policyProcess } from './process.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';

/** @returns the exit code: 0 if all objects pass, 1 if some do not; 2 if something could not be evaluated, whether or not objects fail. */
export async function runAudit(options: AuditOptions): Promise<0 | 1 | 2> {
  const { stdout, stderr } = process;
  const stop = stopSignal();
  let done: AuditOnce;
  try {
    done = await audit(options, stop);
  } catch (error) {
    // Also 2 if the API is unavailable: a script must be able to distinguish this from a clean result.
    const isStopped = stop.signal.aborted && error === stop.signal.reason;
    stderr.write(
      isStopped ? 'rampart: stopped before the audit was complete\n' : describeFailure(error).text,
    );
    return 2;
  }
  const { summary, reports, problems, skipped, unfinished } = done;
  const format = options.output;
  if (format === 'table' || format === 'wide') stdout.write(table(done, format === 'wide'));
  else {
    printDocument(format, 'rampart.dev/audit/v1', {
      summary,
      problems: Object.fromEntries(problems),
      skipped: Object.fromEntries(skipped),
      unfinished: Object.fromEntries(unfinished),
      reports,
    });
  }
  for (const [policy, why] of problems) stderr.write(`rampart: ${printable(`${policy}: ${why}`)}\n`);
  for (const kind of summary.unread) {
    stderr.write(`rampart: ${printable(kind)} could not be listed and were not audited\n`);
  }
  for (const [namespace, why] of unfinished) {
    const where = namespace === '' ? 'cluster-scoped objects' : `namespace ${namespace}`;
    stderr.write(`rampart: ${printable(`${where} not finished: ${why}`)}\n`);
  }
  const results = reports.flatMap((report) => report.results);
  // If the audit is incomplete, reports may be out of date, and more objects may fail than are known to.
  const isWhole = unfinished.size === 0 && problems.size === 0 && summary.unread.length === 0;
  if (!isWhole || results.some(({ result }) => result === 'error')) return 2;
  return results.some(({ result }) => result === 'fail' || result === 'warn') ? 1 : 0;
}

async function audit(options: AuditOptions, stop: AbortController): Promise<AuditOnce> {
  checkOptions(options);
  await using stack = new AsyncDisposableStack();
  const { context, runtimes, asked } = await policyProcess(options, { stop, stack, level: options.loglevel });
  const { namespace, cluster, kubewardenNamespace, ignoreNamespaces } = options;
  const isAll = namespace === undefined && cluster === undefined;
  const ignored = new Set([
    ...ignoreNamespaces,
    ...(kubewardenNamespace === undefined ? [] : [kubewardenNamespace]),
  ]);
  const progress = progressLine();
  try {
    return await auditOnce({
      context,
      asked,
      runtimes:
        options.policyServerUrl === undefined ? runtimes : await remote(options, runtimes, stop.signal),
      stores: options.disableStore !== true,
      failuresOnly: options.reports === 'failures',
      reportKind:
        (await servedReportKind(options.reportKind, context.client, stop.signal)) ?? usualReportKind,
      reportsBy: options.reportsBy,
      parallelNamespaces: options.parallelNamespaces,
      parallelResources: options.parallelResources,
      parallelPolicies: options.parallelPolicies,
      pageSize: options.pageSize,
      ignoredNamespaces: ignored,
      ...(!isAll && {
        onlyNamespaces: new Set(namespace === undefined ? [] : [namespace]),
        cluster: cluster === true,
      }),
      onProgress: ({ left, objects, evaluations }) =>
        progress.notify(`${objects} objects, ${evaluations} evaluations, ${left} namespaces remaining`),
    });
  } finally {
    progress.end();
  }
}

/** @throws {RampartError} `INPUT` for incompatible options */
function checkOptions(options: AuditOptions): void {
  const { namespace, kubewardenNamespace, ignoreNamespaces, clientCert, clientKey } = options;
  if (namespace !== undefined && [...ignoreNamespaces, kubewardenNamespace].includes(namespace)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `the namespace ${namespace} is both selected and ignored`,
      next: 'Remove it from --ignore-namespaces and --kubewarden-namespace',
    });
  }
  if ((clientCert === undefined) !== (clientKey === undefined)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--client-${clientKey === undefined ? 'cert' : 'key'} alone`,
      why: 'a client certificate requires its key',
      next: 'Give both --client-cert and --client-key',
    });
  }
}

/** @throws {RampartError} also if the server does not respond: that does not depend on the object. */
async function remote(
  { policyServerUrl = '', extraCa, clientCert, clientKey, insecureSsl }: AuditOptions,
  { world }: Runtimes,
  signal: AbortSignal,
): Promise<Runtimes> {
  if (!URL.canParse(policyServerUrl) || !/^https?:/.test(policyServerUrl)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--policy-server-url ${JSON.stringify(policyServerUrl)} is not a URL`,
      next: 'Use a URL such as https://policy-server-default.kubewarden.svc:8443',
    });
  }
  const server = {
    world,
    url: new URL(policyServerUrl),
    ca: textOf('--extra-ca', extraCa),
    cert: textOf('--client-cert', clientCert),
    key: textOf('--client-key', clientKey),
    isInsecure: insecureSsl === true,
  };
  await checkPolicyServer(server, signal);
  return remoteRuntimes(server);
}

function textOf(option: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${path}, which ${option} names`,
      why: (error as Error).message,
      cause: error,
    });
  }
}

/** On a terminal, a line of progress that is overwritten; otherwise, nothing is shown. */
function progressLine(): { readonly notify: (text: string) => void; readonly end: () => void } {
  const { stderr } = process;
  if (!stderr.isTTY) return { notify: () => undefined, end: () => undefined };
  return {
    // A terminal that does not know its width reports 0.
    notify: (text) => void stderr.write(`\r\u001b[K${text.slice(0, (stderr.columns || 80) - 1)}`),
    end: () => void stderr.write('\r\u001b[K'),
  };
}

const styles = { fail: 'red', error: 'red', warn: 'yellow' } as const;

function table({ reports, summary, skipped }: AuditOnce, isWide: boolean): string {
  const rows = reports.flatMap((report): Row[] =>
    report.results
      .filter(({ result }) => result !== 'pass')
      .map(({ policy, result, message = '', resources: [subject = report.scope] = [] }) => ({
        cells: [
          subjectOf(subject),
          policy,
          result in styles ? { text: result, style: styles[result as 'fail'] } : result,
          printable(message),
        ],
      })),
  );
  const { objects, failing, errored, evaluations, writes, seconds } = summary;
  const said =
    `${counted(objects, 'object')}: ${failing} ${failing === 1 ? 'fails' : 'fail'}, ${errored === 0 ? 'none' : errored} with errors. ` +
    `${counted(evaluations, 'evaluation')}, ${counted(writes, 'report')} written in ${seconds} s.`;
  const foot = [...skipped].map(([policy, why]) => `skipped: ${printable(`${policy}: ${why}`)}\n`).join('');
  if (rows.length === 0) return `${paint('green', said, wantsColour(process.stdout))}\n${foot}`;
  const head = ['OBJECT', 'POLICY', 'RESULT', 'MESSAGE'];
  return `${renderTable(rows, { head, ...outputOptions(120, { isWide }) })}\n\n${said}\n${foot}`;
}

function subjectOf({ kind = '', name = '', namespace }: Partial<Scope> = {}): string {
  return printable(namespace === undefined ? `${kind}/${name}` : `${namespace} ${kind}/${name}`);
}
