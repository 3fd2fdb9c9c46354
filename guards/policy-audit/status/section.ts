/** This guard's section of `rampart status`. */
import { systemNamespace } from '../../../guard/guard.ts';
import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { configMaps } from '../../../lib/kube/object/object.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { paint, renderTable, type Row, type RenderOptions } from '../../../lib/output/table.ts';
import { type AnyKubewardenPolicy, kubewardenTypes, policyServerType } from '../api.ts';
import { policyActive, policyReachable } from '../policies/policy-status.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';
import { passLabel, readLastPass } from './last-pass.ts';

/** A policy, as in `--format json`. */
export interface PolicyStatusReport {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly mode: string;
  readonly status: string;
  /** Why it is not evaluated as written; '' if it is. */
  readonly why: string;
  /** Since when; '' if it is, or if that is unknown. */
  readonly since: string;
}

export const policyAuditStatus: StatusSection = {
  async read(context) {
    const found: PolicyStatusReport[] = [];
    const isReadable = await context.orForbidden('admission policies', async () => {
      for (const type of kubewardenTypes) {
        await context.list<AnyKubewardenPolicy>(
          type,
          (policy) => void found.push(reportOf(type.kind, policy)),
          type.namespaced ? { namespace: context.namespace } : {},
        );
      }
      // Nothing is reported about them: they show whether everything that the guard installs is served.
      await context.list(policyServerType, () => undefined);
      return true;
    });
    let pass: PassSummary | undefined;
    await context.orForbidden(`configmaps in ${systemNamespace}`, async () => {
      if (found.length === 0) return true;
      await context.list(configMaps, (one) => void (pass = readLastPass(one) ?? pass), {
        namespace: systemNamespace,
        labelSelector: passLabel,
      });
      return true;
    });
    return section(isReadable === true ? found.toSorted(byName) : undefined, pass, context.timeMs);
  },
};

function reportOf(kind: string, { spec, status, metadata }: AnyKubewardenPolicy): PolicyStatusReport {
  const { policyStatus = 'unscheduled', conditions } = status ?? {};
  const active = findCondition(conditions, policyActive);
  const reachable = findCondition(conditions, policyReachable);
  // On one machine, and once it is enforced in a cluster, both are true.
  const doubtful = [active, reachable].find((one) => one?.status === 'False') ?? active;
  return {
    kind,
    namespace: metadata.namespace ?? '',
    name: metadata.name ?? '',
    mode: spec.mode,
    status: policyStatus,
    why:
      doubtful?.status === 'True'
        ? ''
        : (doubtful?.message ?? 'its state is unknown: the operator or standalone may not be running'),
    since: doubtful?.status === 'True' ? '' : (doubtful?.lastTransitionTime ?? ''),
  };
}

const byName = (a: PolicyStatusReport, b: PolicyStatusReport): number =>
  [a.kind, a.namespace, a.name].join('/') < [b.kind, b.namespace, b.name].join('/') ? -1 : 1;

function section(
  all: readonly PolicyStatusReport[] | undefined,
  pass: PassSummary | undefined,
  timeMs: number,
): SectionReport {
  const policies = all ?? [];
  const failing = policies.filter(({ why }) => why !== '').length;
  const said = (): string => {
    if (pass === undefined) return 'No full pass over the objects has finished yet.';
    const { objects, failing: bad, errored, seconds, endedMs, missed } = pass;
    const doubt = missed > 0 ? `; it found ${missed} that had been missed` : '';
    return (
      `${objects} objects checked, ${bad} failing, ${errored} with errors: ` +
      `the last pass ended ${agoText(timeMs - endedMs)} and took ${seconds} s${doubt}.`
    );
  };
  return {
    fields: { admissionPolicies: all ?? null, lastAuditPass: pass ?? null },
    isAsked: policies.length > 0,
    guarded: failing === 0,
    headline({ colour }) {
      if (policies.length === 0) return '';
      const many = policies.length === 1 ? '1 admission policy' : `${policies.length} admission policies`;
      const first =
        failing > 0
          ? paint(
              'red',
              `${failing} of ${many} ${failing === 1 ? 'is' : 'are'} not evaluated as written.`,
              colour,
            )
          : paint('green', `${many} ${policies.length === 1 ? 'is' : 'are'} asked.`, colour);
      return `${first} ${said()}`;
    },
    table: (options) => (policies.length === 0 ? '' : table(policies, timeMs, options)),
    foot: pass === undefined || pass.unread.length === 0 ? [] : [unreadLine(pass.unread)],
  };
}

function unreadLine(kinds: readonly string[]): string {
  const why = 'the operator could not list them; see "Custom resources in audits" in deploy/README.md';
  return `Not audited: ${printable(kinds.join(', '))} (${why})`;
}

function table(policies: readonly PolicyStatusReport[], timeMs: number, options: RenderOptions): string {
  const rows = policies.map(({ kind, namespace, name, mode, status, why, since }): Row => ({
    cells: [`${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`, mode, status],
    note: printable(since === '' ? why : `${why} (${agoText(timeMs - Date.parse(since))})`),
  }));
  return renderTable(rows, { head: ['ADMISSION POLICY', 'MODE', 'STATUS'], ...options });
}
