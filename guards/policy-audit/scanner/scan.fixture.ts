/** An API server with policies and objects, and a scanner that can be stopped and started; for tests. */
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { runGivenCluster } from '../../../guard/part.fixture.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import {
  type ConfigMap,
  configMaps,
  type KubeObject,
  namespaces,
  type ResourceType,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { clusterOpenReports, openReports } from '../../../guard/reports/open-reports.ts';
import { clusterPolicyReports, policyReports } from '../../../guard/reports/policy-reports.ts';
import {
  type ClusterAdmissionPolicy,
  clusterAdmissionPolicyType,
  policyExceptionType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { PolicyFindings } from '../findings/policy-findings.ts';
import { policyAudit } from '../guard.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import type { Modules } from '../modules/modules.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import type { Runtimes } from '../policies/open-policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { NamespaceReports } from '../reports/namespace-reports.ts';
import { entriesOf } from '../reports/part-report.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import { summaryOf } from '../../../guard/reports/report-fields.ts';
import { type AuditReport, reportTypes } from '../reports/report.ts';
import type { PassSummary } from './audit-pass.ts';
import { Scanner } from './scanner.ts';
import type { ScannerOptions } from './scanner-options.ts';

export const kindTypes = { configmaps: configMaps, secrets } as const;

const none = (): Promise<never> => Promise.reject(new Error('no modules here'));

export interface PolicyWish {
  readonly kinds?: readonly string[];
  readonly expression?: string;
  readonly message?: string;
  readonly more?: object;
  readonly annotations?: Record<string, string>;
}

export interface RunningScanner {
  readonly scanner: Scanner;
  readonly policies: PolicySet;
  readonly passes: PassSummary[];
  /** Kinds of findings. */
  readonly findings: readonly string[];
  readonly stop: () => Promise<void>;
}

/** Disposing it stops all that was started and removes all that was made. */
export class ScanCluster extends TestApi {
  #scanners: (() => Promise<void>)[] = [];

  static async start(): Promise<ScanCluster> {
    const cluster = new ScanCluster(await startTestApi({ name: 'policy-audit', memory: true }));
    await cluster.createDefinitions([
      ...policyAudit.resources,
      ...[policyReports, clusterPolicyReports, openReports, clusterOpenReports],
    ]);
    return cluster;
  }

  /** As it is when it has been started: no scanner runs, and nothing is left of what a test has made. */
  async clear(): Promise<void> {
    for (const stop of this.#scanners) await stop();
    this.#scanners = [];
    const { policyreport, openreports: open } = reportTypes;
    for (const type of [
      ...[
        policyExceptionType,
        clusterAdmissionPolicyType,
        validatingAdmissionPolicies,
        validatingAdmissionPolicyBindings,
      ],
      ...[configMaps, secrets, policyreport.namespaced, policyreport.cluster, open.namespaced, open.cluster],
    ] as readonly ResourceType[]) {
      for (const { metadata } of (await this.client.list(type)).items) {
        const { name = '', namespace } = metadata;
        await this.client.delete(type, { name, namespace }).catch(unlessGone);
      }
    }
  }

  async startScanner(
    options: Partial<ScannerOptions> & {
      readonly client?: KubeClient;
      readonly writesStatus?: boolean;
      readonly modules?: Pick<Modules, 'fetch'>;
      readonly runtimes?: Runtimes;
      /** One report for a namespace, in parts of this size. */
      readonly partBytes?: number;
    } = {},
  ): Promise<RunningScanner> {
    const {
      client = this.newClient(),
      writesStatus = true,
      modules = { fetch: none },
      partBytes,
      runtimes,
      ...more
    } = options;
    const started = Promise.withResolvers<Omit<RunningScanner, 'stop'>>();
    const lines: string[] = [];
    const stop = this.run((signal) =>
      runGivenCluster(
        policyAudit,
        async (context) => {
          const reported = new PolicyFindings({ sink: context.sink });
          const asked = new AskedCluster(new KubeClusterReader(client));
          const policies = new PolicySet({
            context,
            runtimes:
              runtimes ??
              runtimesOf({
                ...{ client, asked },
                modules: () => ({ registry: none, trustRoot: none, ...modules }),
                logger: context.logger,
              }),
            writesStatus,
            findings: reported,
            ...(more.clock && { clock: more.clock }),
          });
          const exceptions = new ExceptionSet({
            ...{ context, writesStatus },
            ...(more.clock && { clock: more.clock }),
          });
          const passes: PassSummary[] = [];
          const scanner = new Scanner({
            context,
            policies,
            exceptions,
            asked,
            intervalMs: 3_600_000,
            failuresOnly: false,
            reportKind: 'policyreport',
            reportsBy: 'object',
            parallelNamespaces: 2,
            parallelResources: 4,
            parallelPolicies: 2,
            pageSize: 5,
            findings: reported,
            onPass: (summary) => void passes.push(summary),
            ...more,
            ...(partBytes !== undefined && {
              store: new NamespaceReports(context, {
                types: reportTypes[more.reportKind ?? 'policyreport'],
                runUid: 'test',
                partBytes,
              }),
            }),
          });
          started.resolve({ scanner, policies, passes, findings: lines });
          await Promise.all([policies.run(), exceptions.run(), scanner.run()]);
        },
        { client, signal, logger: this.logger, sink: (line) => void lines.push(line) },
      ),
    );
    this.#scanners.push(stop);
    return { ...(await started.promise), stop };
  }

  async setNamespace(name: string, labels: Record<string, string>): Promise<void> {
    await this.client.apply(
      namespaces,
      { metadata: { name, labels } },
      { fieldManager: 'test', force: true },
    );
  }

  async setObject(
    kind: keyof typeof kindTypes,
    namespace: string,
    name: string,
    labels: Record<string, string>,
  ): Promise<KubeObject> {
    const object = { metadata: { namespace, name, labels } } as ConfigMap;
    return this.client.apply(kindTypes[kind], object, { fieldManager: 'test', force: true });
  }

  async deleteObject(kind: keyof typeof kindTypes, namespace: string, name: string): Promise<void> {
    await this.client.delete(kindTypes[kind], { namespace, name }).catch(unlessGone);
  }

  async setPolicy(name: string, wish: PolicyWish): Promise<ClusterAdmissionPolicy> {
    return this.client.apply(clusterAdmissionPolicyType, clusterPolicy(name, wish), {
      fieldManager: 'test',
      force: true,
    });
  }

  async deletePolicy(name: string): Promise<void> {
    await this.client.delete(clusterAdmissionPolicyType, { name }).catch(unlessGone);
  }

  /** As they are in the API. */
  async reportObjects(kind: ReportKind = 'policyreport'): Promise<AuditReport[]> {
    const types = reportTypes[kind];
    const all = await Promise.all([this.client.list(types.namespaced), this.client.list(types.cluster)]);
    return all.flatMap(({ items }) => items);
  }

  /** One for each object, also of reports of many. */
  async reports(kind: ReportKind = 'policyreport'): Promise<AuditReport[]> {
    const found = await this.reportObjects(kind);
    return found.flatMap((report) =>
      report.scope !== undefined
        ? [report]
        : [...entriesOf(report).values()].map((entry) => ({
            ...report,
            ...entry,
            summary: summaryOf(entry.results),
          })),
    );
  }

  /** The results for each object in a line: `a/configmaps x: p0=pass p1=fail`. */
  async lines(kind: ReportKind = 'policyreport'): Promise<string[]> {
    return (await this.reports(kind)).map(lineOf).toSorted();
  }
}

export function lineOf({ scope, results, metadata }: AuditReport): string {
  const found = results.map(({ policy, result }) => `${policy.replace('clusterwide-', '')}=${result}`);
  return `${metadata.namespace ?? ''} ${scope?.kind ?? ''} ${scope?.name ?? ''}: ${found.join(' ')}`.trim();
}

export function clusterPolicy(
  name: string,
  { kinds = ['configmaps'], expression = 'true', message = 'no', more = {}, annotations = {} }: PolicyWish,
): ClusterAdmissionPolicy {
  return {
    apiVersion: 'policies.kubewarden.io/v1',
    kind: 'ClusterAdmissionPolicy',
    metadata: { name, annotations },
    spec: {
      module: 'registry://registry.example/policies/cel-policy:v1',
      mutating: false,
      rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: kinds, operations: ['CREATE', 'UPDATE'] }],
      settings: { validations: [{ expression, message }] },
      ...more,
    },
  } as unknown as ClusterAdmissionPolicy;
}

function unlessGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
