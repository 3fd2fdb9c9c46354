/**
 * One scan from beginning to end, for `rampart audit`.
 *
 * @module
 */
import type { GuardContext } from '../../shared/guard/context.ts';
import { isNotFound } from '../../shared/kube/client-errors.ts';
import { namespaces, type ResourceType } from '../../shared/kube/object.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import {
  admissionPolicyGroupType,
  admissionPolicyType,
  clusterAdmissionPolicyGroupType,
  clusterAdmissionPolicyType,
} from './api.ts';
import type { Runtimes } from './policies/open-policy.ts';
import { PolicySet } from './policies/policy-set.ts';
import { MemoryReports } from './reports/memory-store.ts';
import { type AuditReport, ourReports, reportTypes } from './reports/report.ts';
import type { PassSummary } from './scanner/audit-pass.ts';
import { Scanner } from './scanner/scanner.ts';
import type { ScannerOptions } from './scanner/scanner-options.ts';

export interface AuditOnceOptions extends Omit<
  ScannerOptions,
  'context' | 'intervalMs' | 'onPass' | 'policies' | 'store'
> {
  readonly context: GuardContext;
  readonly runtimes: Runtimes;
  /** Whether reports are written to the API. */
  readonly stores: boolean;
  readonly onProgress: (progress: Scanner['progress']) => void;
}

export interface AuditOnce {
  readonly summary: PassSummary;
  /** By namespace, kind and name. */
  readonly reports: readonly AuditReport[];
  /** Why policies could not be asked. */
  readonly problems: ReadonlyMap<string, string>;
}

const policyTypes: readonly ResourceType[] = [
  clusterAdmissionPolicyType,
  admissionPolicyType,
  clusterAdmissionPolicyGroupType,
  admissionPolicyGroupType,
];
const PROGRESS_MS = 250;
const NEVER_MS = 2 ** 40;

/**
 * @throws {RampartError} `API_UNREACHABLE`; `UNSUPPORTED` where policies or reports are not served; `INPUT` for a namespace that is not
 * there. {KubeError} where what is needed may not be read; the reason of the signal of the context.
 */
export async function auditOnce(options: AuditOnceOptions): Promise<AuditOnce> {
  const { context, runtimes, stores, onProgress, reportKind, reportsBy, ...more } = options;
  await checkNeeds(options);
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const own = { ...context, signal };
  const memory = stores ? undefined : new MemoryReports();
  const policies = new PolicySet({ context: own, runtimes, writesStatus: false });
  const passed = Promise.withResolvers<PassSummary>();
  const scanner = new Scanner({
    ...more,
    context: own,
    policies,
    reportKind,
    reportsBy,
    intervalMs: NEVER_MS,
    onPass: passed.resolve,
    ...(memory && { store: memory }),
  });
  const running = Promise.all([policies.run(), scanner.run()]);
  running.catch(passed.reject);
  const onAbort = (): void => passed.reject(context.signal.reason);
  context.signal.addEventListener('abort', onAbort, { once: true });
  const timer = setInterval(() => onProgress(scanner.progress), PROGRESS_MS);
  try {
    const summary = await passed.promise;
    const problems = new Map(policies.problems);
    const reports =
      memory === undefined ? await listed(options) : memory.list(reportTypes[reportKind], reportsBy);
    const isAsked = ({ metadata: { namespace = '' } }: AuditReport): boolean =>
      namespace === ''
        ? options.cluster !== false
        : options.ignoredNamespaces?.has(namespace) !== true &&
          (options.onlyNamespaces?.has(namespace) ?? true);
    return { summary, problems, reports: reports.filter(isAsked).toSorted(byScope) };
  } finally {
    clearInterval(timer);
    context.signal.removeEventListener('abort', onAbort);
    stop.abort();
    await running.catch(() => undefined);
  }
}

/** A scanner that goes on for ever waits for what is not there yet. Nobody is to wait so for the end of one scan. */
async function checkNeeds({
  context: { client, signal },
  stores,
  reportKind,
  onlyNamespaces = new Set(),
}: AuditOnceOptions): Promise<void> {
  const { namespaced, cluster } = reportTypes[reportKind];
  const reports: readonly ResourceType[] = [namespaced, cluster];
  const read = [...policyTypes, ...(stores ? reports : []), namespaces];
  const check = async (type: ResourceType): Promise<void> => {
    try {
      await client.list(type, {}, { limit: 1, signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      throw new RampartError(errorCodes.UNSUPPORTED, {
        what: 'cannot audit',
        why: `the API serves no ${type.plural}.${type.group}`,
        next: reports.includes(type)
          ? 'Apply deploy/policy-reports/, or write no reports: --disable-store.'
          : 'Apply the definitions of policies: deploy/.',
        cause: error,
      });
    }
  };
  await Promise.all(read.map(check));
  for (const name of onlyNamespaces) {
    try {
      await client.get(namespaces, { name }, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      throw new RampartError(errorCodes.INPUT, { what: `there is no namespace ${name}`, cause: error });
    }
  }
}

async function listed({ context, reportKind }: AuditOnceOptions): Promise<AuditReport[]> {
  const { client, signal } = context;
  const { namespaced, cluster } = reportTypes[reportKind];
  const found: AuditReport[] = [];
  for (const type of [namespaced, cluster]) {
    await client.listItems(
      type,
      {},
      {
        labelSelector: ourReports,
        signal,
        onItem: (text: string) => void found.push(JSON.parse(text) as AuditReport),
      },
    );
  }
  return found;
}

function byScope(a: AuditReport, b: AuditReport): number {
  const key = ({ metadata, scope }: AuditReport): string =>
    [metadata.namespace ?? '', scope?.kind, scope?.name ?? metadata.name].join('/');
  return key(a) < key(b) ? -1 : 1;
}
