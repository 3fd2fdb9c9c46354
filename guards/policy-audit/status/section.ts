/** This guard's section of `rampart status`. */
import { systemNamespace } from '../../../guard/guard.ts';
import type { GuardedObject, Need, OwnProblem, ProcessView } from '../../../guard/guarded.ts';
import { problemTexts } from '../../../guard/problem-text.ts';
import type { NodeView, SectionReport, StatusSection } from '../../../guard/status-section.ts';
import type { Verdict } from '../../../guard/verdict.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { changedAtMs } from '../../../lib/kube/object/changed-at.ts';
import { type Condition, findCondition } from '../../../lib/kube/object/conditions.ts';
import { configMaps, type Pod, pods } from '../../../lib/kube/object/object.ts';
import { counted } from '../../../lib/output/words.ts';
import { serverLabel } from '../server-label.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { paint, renderTable, type Row, type RenderOptions } from '../../../lib/output/table.ts';
import {
  type AnyKubewardenPolicy,
  kubewardenTypes,
  type PolicyException,
  policyExceptionType,
  policyServerType,
} from '../api.ts';
import { kindsServed, noReadyPods, policyActive, policyReachable } from '../policies/policy-status.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';
import { admissionFact, byPolicyServers } from './admission-fact.ts';
import { passLabel, readLastPass } from './last-pass.ts';
import { type Progress, readProgress } from './progress.ts';
import { reportsRemedy } from '../reports/report.ts';

/** A policy in the output of `-o json`. */
export interface PolicyStatusReport {
  readonly kind: string;
  /** `null` for a cluster-scoped policy. */
  readonly namespace: string | null;
  readonly name: string;
  readonly guarded: boolean;
  readonly mode: string;
  /** The status that the operator wrote: `active`, `pending`, ... */
  readonly status: string;
  /** Why the policy applies to nothing: the API does not serve the kinds that its rules name. */
  readonly appliesToNothing: string | null;
}

interface Found {
  readonly kind: string;
  readonly policy: AnyKubewardenPolicy;
}

export interface Surroundings {
  readonly operator: ProcessView | null | undefined;
  /** Policy servers with a ready pod; undefined if pods may not be read. */
  readonly readyServers: ReadonlySet<string> | undefined;
  readonly pass: PassSummary | undefined;
  readonly exceptions?: readonly PolicyException[];
  readonly timeMs: number;
}

export const policyAuditStatus: StatusSection = {
  async read(context) {
    const found: Found[] = [];
    const isReadable = await context.orForbidden('admission policies', async () => {
      for (const type of kubewardenTypes) {
        await context.list<AnyKubewardenPolicy>(
          type,
          (policy) => void found.push({ kind: type.kind, policy }),
          type.namespaced ? { namespace: context.namespace } : {},
        );
      }
      // The objects are not shown: this only checks that everything that the guard installs is served.
      await context.list(policyServerType, () => undefined);
      return true;
    });
    const exceptions: PolicyException[] = [];
    await context.orForbidden('policy exceptions', async () => {
      const within = { namespace: context.namespace };
      await context.list(policyExceptionType, (one) => void exceptions.push(one), within);
      return true;
    });
    let pass: PassSummary | undefined;
    const inSystem = { namespace: systemNamespace };
    await context.orForbidden(`configmaps in ${systemNamespace}`, async () => {
      const selected = { ...inSystem, labelSelector: passLabel };
      await context.list(configMaps, (one) => void (pass = readLastPass(one) ?? pass), selected);
      return true;
    });
    const operator = await context.operator();
    const serverPods: Pod[] = [];
    const isKnown = await context.orForbidden(`pods in ${systemNamespace}`, async () => {
      if (!hasServers(operator) || found.length === 0) return true;
      await context.list(pods, (pod) => void serverPods.push(pod), {
        ...inSystem,
        labelSelector: serverLabel,
      });
      return true;
    });
    const nodes = (await context.nodes()) ?? [];
    const readyServers = isKnown === true ? readyServersOf(serverPods, nodes) : undefined;
    return section(isReadable === true ? found : undefined, {
      ...{ operator, readyServers, pass, exceptions },
      timeMs: context.timeMs,
    });
  },
};

function hasServers(operator: ProcessView | null | undefined): boolean {
  return operator?.guards.get('policy-audit')?.facts?.[admissionFact] === byPolicyServers;
}

/**
 * The policy servers with a ready pod. A pod is ready as long as its kubelet says so, and so the kubelet has to be
 * alive, which the node controller knows. Servers have no lease that would show this: their pods run as the
 * account that the PolicyServer names, which has no permissions here.
 */
function readyServersOf(all: readonly Pod[], nodes: readonly NodeView[]): Set<string> {
  const alive = new Set(nodes.filter(({ isReady }) => isReady !== false).map(({ name }) => name));
  return new Set(
    all
      .filter(({ metadata, spec, status }) => {
        const isReady = status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
        const isAlive = nodes.length === 0 || alive.has(spec?.nodeName ?? '');
        return isReady && isAlive && metadata.deletionTimestamp === undefined;
      })
      .flatMap(({ metadata }) => metadata.labels?.[serverLabel] ?? []),
  );
}

function guardedObject(
  { kind, policy }: Found,
  { operator, readyServers, notAudited, pass }: Surroundings & Pick<Progress, 'notAudited'>,
): GuardedObject {
  const { spec, status, metadata } = policy;
  const { namespace = null, name = '', generation = 0 } = metadata;
  const active = findCondition(status?.conditions, policyActive);
  const reachable = findCondition(status?.conditions, policyReachable);
  const needs: Need[] = [
    {
      process: 'operator',
      why: 'it evaluates the policy',
      seen: active && (active.observedGeneration ?? generation),
    },
  ];
  if (spec.mode === 'protect' && hasServers(operator)) {
    const server = spec.policyServer;
    const fate = spec.failurePolicy === 'Ignore' ? 'allowed unchecked' : 'refused';
    const why =
      readyServers === undefined
        ? 'it answers the webhook (pods in rampart-system may not be read)'
        : `it answers the webhook: requests that it applies to are ${fate} meanwhile`;
    needs.push({
      ...{ process: 'policy-server', name: server, why },
      isReady: readyServers?.has(server) ?? false,
      seen: reachable && (reachable.observedGeneration ?? generation),
    });
  }
  return {
    ...{ kind, namespace, name, revision: generation, changedMs: changedAtMs(policy) },
    needs,
    problems: [...notActive([active, reachable]), ...auditProblems(spec, notAudited, pass)],
  };
}

function notActive(conditions: readonly (Condition | undefined)[]): OwnProblem[] {
  // The condition about ready pods is ignored: their readiness is read from the pods themselves.
  const doubtful = conditions.find((one) => one?.status === 'False' && one.reason !== noReadyPods);
  if (doubtful === undefined) return [];
  return [
    {
      ...{ kind: 'not-active', by: 'operator', why: doubtful.message.replace(/\.$/, '') },
      next: 'Correct the policy, or what it needs',
      sinceMs: Date.parse(doubtful.lastTransitionTime),
    },
  ];
}

function auditProblems(
  spec: AnyKubewardenPolicy['spec'],
  notAudited: string | undefined,
  pass: PassSummary | undefined,
): OwnProblem[] {
  if (!spec.backgroundAudit) return [];
  if (notAudited === undefined) return unreadProblems(spec, pass?.unread ?? []);
  return [
    {
      ...{ kind: 'not-audited', by: 'operator', why: `objects that exist are not audited: ${notAudited}` },
      next: `If it serves none: ${reportsRemedy}`,
    },
  ];
}

/**
 * Only kinds that a policy names are a problem if the operator may not list them: usually that is intended, and a
 * policy for all kinds means those that the operator may list.
 */
function unreadProblems({ rules }: AnyKubewardenPolicy['spec'], unread: readonly string[]): OwnProblem[] {
  const named = unread.filter((key) => rules.some((rule) => namesKind(rule, key)));
  if (named.length === 0) return [];
  const why = `objects that exist are not audited: the operator could not list ${named.join(', ')}`;
  const next = 'Grant it list and watch on them: see "Custom resources in audits" in deploy/README.md';
  return [{ kind: 'not-audited', by: 'operator', field: 'spec.rules', why, next }];
}

/** @param key - `pods`, `widgets.example.com` */
function namesKind(
  {
    apiGroups = [],
    resources = [],
  }: { readonly apiGroups?: readonly string[]; readonly resources?: readonly string[] },
  key: string,
): boolean {
  const dot = key.indexOf('.');
  const [plural, group] = dot === -1 ? [key, ''] : [key.slice(0, dot), key.slice(dot + 1)];
  return (
    resources.some((one) => one.split('/')[0] === plural) &&
    apiGroups.some((one) => one === group || one === '*')
  );
}

const pathOf = ({ kind, policy: { metadata } }: Found): string =>
  [kind, metadata.namespace ?? '', metadata.name].join('/');

export function section(found: readonly Found[] | undefined, surroundings: Surroundings): SectionReport {
  const { operator, pass, exceptions = [], timeMs } = surroundings;
  const facts = operator?.isRenewed === true ? operator.guards.get('policy-audit')?.facts : undefined;
  const progress = readProgress(facts);
  const policies = (found ?? []).toSorted((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1));
  const asked = policies.filter(({ policy }) => !isDeleting(policy));
  const reports = policies.map(({ kind, policy: { metadata, spec, status } }) => ({
    kind,
    namespace: metadata.namespace ?? null,
    name: metadata.name ?? '',
    mode: spec.mode,
    status: status?.policyStatus ?? 'unscheduled',
    appliesToNothing: unservedOf(status) ?? null,
  }));
  return {
    objects:
      found && asked.map((one) => guardedObject(one, { ...surroundings, notAudited: progress.notAudited })),
    fields: (verdict) => ({
      admissionPolicies:
        found === undefined
          ? null
          : reports.map((report): PolicyStatusReport => ({
              ...report,
              guarded: verdict.of(report).length === 0,
            })),
      lastAuditPass: pass ?? null,
      auditPass: progress.pass,
      openingPolicies: progress.opening,
      policyExceptions: exceptions.map(({ metadata, spec }) => ({
        ...{ namespace: metadata.namespace ?? null, name: metadata.name ?? '' },
        ...{ until: spec.until ?? null, reason: spec.reason, active: isInEffect(spec, timeMs) },
      })),
    }),
    headline({ failing }, { colour }) {
      const count = asked.length;
      // A cluster that has only ValidatingAdmissionPolicies has no policies of Rampart.
      if (count === 0)
        return pass === undefined || pass.objects === 0 ? '' : passText(pass, progress, timeMs);
      const many = counted(count, 'admission policy', 'admission policies');
      const first =
        failing > 0
          ? paint(
              'red',
              `${failing} of ${count} admission policies ${failing === 1 ? 'is' : 'are'} not active as written.`,
              colour,
            )
          : paint('green', `${many} ${count === 1 ? 'is' : 'are'} active.`, colour);
      return `${first} ${passText(pass, progress, timeMs)}`;
    },
    table: (verdict, options) => (policies.length === 0 ? '' : table(reports, verdict, timeMs, options)),
    foot: [
      ...(exceptions.length === 0 ? [] : [exceptionsLine(exceptions, timeMs)]),
      ...reports.flatMap(appliesToNothingLines),
      ...(pass === undefined || pass.unread.length === 0 ? [] : [unreadLine(pass.unread)]),
      ...(progress.opening === null ? [] : [openingLine(progress.opening, timeMs)]),
    ],
  };
}

function passText(pass: PassSummary | undefined, { pass: runs }: Progress, timeMs: number): string {
  const now =
    runs === null
      ? ''
      : ` A full pass that began ${agoText(timeMs - Date.parse(runs.since))} has ${runs.left} of ${counted(runs.namespaces, 'namespace')} left.`;
  if (pass === undefined) return `No full pass over the objects has finished yet.${now}`;
  const { objects, failing, errored, seconds, endedMs, missed } = pass;
  const doubt = missed > 0 ? `; it found ${missed} that had been missed` : '';
  const errors = errored === 0 ? 'none' : String(errored);
  return (
    `${counted(objects, 'object')} audited: ${failing} ${failing === 1 ? 'fails' : 'fail'}, ${errors} with errors. ` +
    `The last full pass ended ${agoText(timeMs - endedMs)} and took ${seconds} s${doubt}.${now}`
  );
}

function openingLine({ since, count, longest }: NonNullable<Progress['opening']>, timeMs: number): string {
  const what = `modules of ${counted(count, 'policy', 'policies')} are being fetched or compiled`;
  return printable(
    `policy-audit: ${what}, the longest, ${longest}, since ${agoText(timeMs - Date.parse(since)).replace(/ ago$/, '')}`,
  );
}

function isInEffect({ until }: PolicyException['spec'], timeMs: number): boolean {
  return until === undefined || Date.parse(until) > timeMs;
}

function exceptionsLine(exceptions: readonly PolicyException[], timeMs: number): string {
  const ended = exceptions.filter(({ spec }) => !isInEffect(spec, timeMs));
  const names = ended.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
  const active = exceptions.length - ended.length;
  const ofEnded = ended.length === 0 ? '' : `; ended: ${printable(names.join(', '))}`;
  return `PolicyExceptions: ${active} in effect${ofEnded}`;
}

/** Known only from the status as last written: a definition may have been installed since then. */
function unservedOf(status: AnyKubewardenPolicy['status']): string | undefined {
  const served = findCondition(status?.conditions, kindsServed);
  return served?.status === 'False' ? served.message : undefined;
}

function appliesToNothingLines({
  kind,
  namespace,
  name,
  appliesToNothing,
}: Omit<PolicyStatusReport, 'guarded'>): string[] {
  if (appliesToNothing === null) return [];
  return [printable(`${kind} ${namespace === null ? '' : `${namespace}/`}${name}: ${appliesToNothing}`)];
}

function unreadLine(kinds: readonly string[]): string {
  const why = 'the operator could not list them; see "Custom resources in audits" in deploy/README.md';
  return `Not audited: ${printable(kinds.join(', '))} (${why})`;
}

function table(
  reports: readonly Omit<PolicyStatusReport, 'guarded'>[],
  verdict: Verdict,
  timeMs: number,
  options: RenderOptions,
): string {
  const rows = reports.map((report): Row => {
    const { kind, namespace, name, mode, status } = report;
    return {
      cells: [`${kind} ${namespace === null ? '' : `${namespace}/`}${name}`, mode, status],
      note: problemTexts(verdict.of(report), timeMs).join('\n'),
    };
  });
  return renderTable(rows, { head: ['ADMISSION POLICY', 'MODE', 'STATUS'], ...options });
}
