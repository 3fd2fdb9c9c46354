import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Processes, ProcessView } from '../../../guard/guarded.ts';
import { processesOn, processWith } from '../../../guard/processes.fixture.ts';
import type { NodeView, SectionReport, StatusContext } from '../../../guard/status-section.ts';
import { type Verdict, verdictOn } from '../../../guard/verdict.ts';
import { type AnyKubewardenPolicy, clusterAdmissionPolicyType } from '../api.ts';
import { serverLabel } from '../server-label.ts';
import { policyAudit } from '../guard.ts';
import { activeStatus, refusedStatus, type Status, statusOfKinds } from '../policies/policy-status.ts';
import { byPolicyServers, inProcess } from './admission-fact.ts';
import { progressFacts } from './progress.ts';
import { policyAuditStatus } from './section.ts';

const plain = { colour: false, widthColumns: 400 };

function operatorWith(admission: string, change: Partial<ProcessView> = {}): ProcessView {
  return processWith({ 'policy-audit': { state: 'running', reason: '', facts: { admission } } }, change);
}

const policy = {
  apiVersion: 'policies.kubewarden.io/v1',
  kind: 'ClusterAdmissionPolicy',
  metadata: { name: 'root', generation: 1 },
  spec: { policyServer: 'default', mode: 'protect', failurePolicy: 'Fail', backgroundAudit: true, rules: [] },
} as unknown as AnyKubewardenPolicy;

const readyPod = {
  metadata: { name: 'policy-server-1', labels: { [serverLabel]: 'default' } },
  spec: { nodeName: 'n1' },
  status: { conditions: [{ type: 'Ready', status: 'True' }] },
};

interface Cluster {
  readonly object?: AnyKubewardenPolicy;
  readonly status?: Status;
  readonly operator?: ProcessView | null;
  readonly pods?: readonly object[];
  readonly nodes?: readonly NodeView[];
  readonly pass?: object;
}

async function read(cluster: Cluster = {}): Promise<{ section: SectionReport; verdict: Verdict }> {
  const { object = policy, operator = operatorWith(byPolicyServers), pods = [readyPod], pass } = cluster;
  const { status = activeStatus(object), nodes = [] } = cluster;
  const section = await policyAuditStatus.read({
    namespace: undefined,
    timeMs: Date.UTC(2026, 10, 21, 12),
    list: (type, onItem) => {
      if (type.plural === clusterAdmissionPolicyType.plural) onItem({ ...object, status } as never);
      if (type.plural === 'pods') for (const pod of pods) onItem(pod as never);
      if (type.plural === 'configmaps' && pass !== undefined)
        onItem({ metadata: {}, data: { 'summary.json': JSON.stringify(pass) } } as never);
      return Promise.resolve();
    },
    orForbidden: (_, ask) => ask(),
    operator: () => Promise.resolve(operator),
    nodes: () => Promise.resolve(nodes),
  } as Partial<StatusContext> as StatusContext);
  const processes: Processes = { ...processesOn([], 'policy-audit'), operator };
  return { section, verdict: verdictOn(policyAudit, section.objects ?? [], processes) };
}

async function problems(cluster: Cluster): Promise<string[]> {
  const { verdict } = await read(cluster);
  return verdict.problems.map(({ kind, why }) => `${kind}: ${why}`);
}

suite('the section of policy-audit', () => {
  test('active, with an operator and a policy server that are alive', async () => {
    const { section, verdict } = await read();
    assert.deepEqual(verdict.problems, []);
    assert.match(section.headline(verdict, plain), /^1 admission policy is active\. No full pass/);
  });

  test('an operator that was killed: its conditions do not count', async () => {
    const operator = operatorWith(byPolicyServers, { isRenewed: false });
    const refused = refusedStatus(policy, 'its module is not there', undefined);
    assert.deepEqual(await problems({ operator, status: refused }), [
      'operator-dead: the operator no longer renews its lease, although it evaluates the policy',
    ]);
    assert.deepEqual(await problems({ status: refused }), ['not-active: its module is not there']);
  });

  test('nothing is audited: not guarded, unless the policy asks for no audits', async () => {
    const facts = { admission: byPolicyServers, ...progressFacts(undefined, new Map(), 'no reports') };
    const operator = processWith({ 'policy-audit': { state: 'running', reason: '', facts } });
    assert.deepEqual(await problems({ operator }), [
      'not-audited: objects that exist are not audited: no reports',
    ]);
    const object = { ...policy, spec: { ...policy.spec, backgroundAudit: false } } as AnyKubewardenPolicy;
    assert.deepEqual(await problems({ operator, object }), []);
  });

  test('a policy that was changed since, and one that no process has seen', async () => {
    const object = { ...policy, metadata: { ...policy.metadata, generation: 2 } };
    const [first] = await problems({ object, status: activeStatus(policy) });
    assert.equal(first, 'outdated: the operator has reported only on an older version of it');
    const unscheduled: Status = { policyStatus: 'unscheduled', mode: 'unknown' };
    const [unseen] = await problems({ status: unscheduled });
    assert.match(unseen ?? '', /^not-reported: the operator has not reported on it/);
  });

  test('in protect mode in a cluster, a policy server that is ready now is needed', async () => {
    const why =
      'no-policy-server: the policy server default has no ready pod, although it answers the webhook: ' +
      'requests that it applies to are refused meanwhile';
    assert.deepEqual(await problems({ pods: [] }), [why]);
    // Its pod is called ready for as long as the node controller waits for the kubelet.
    const nodes = [{ name: 'n1', kernel: undefined, isReady: false }];
    assert.deepEqual(await problems({ nodes }), [why]);
    const monitored = { ...policy, spec: { ...policy.spec, mode: 'monitor' } } as const;
    assert.equal((await problems({ pods: [], object: monitored })).length, 0);
    // On one machine, the API server itself asks the policies.
    assert.deepEqual(await problems({ pods: [], operator: operatorWith(inProcess) }), []);
  });

  test('a policy that names only unserved kinds is active, and reported to apply to nothing', async () => {
    const reported = statusOfKinds({ ...policy, status: activeStatus(policy) }, 'widgets.example.com/v1');
    assert.ok(reported);
    const { section, verdict } = await read({ status: reported });
    assert.deepEqual(verdict.problems, []);
    const why = 'it applies to nothing: the API does not serve widgets.example.com/v1';
    assert.deepEqual(section.foot, [`ClusterAdmissionPolicy root: ${why}`]);
    const [report] = section.fields(verdict)['admissionPolicies'] as { appliesToNothing: string }[];
    assert.equal(report?.appliesToNothing, why);
    const served = statusOfKinds({ ...policy, status: reported }, undefined);
    assert.ok(served);
    assert.deepEqual((await read({ status: served })).section.foot, []);
    assert.equal(statusOfKinds({ ...policy, status: served }, undefined), undefined);
    assert.equal(statusOfKinds({ ...policy, status: activeStatus(policy) }, undefined), undefined);
  });

  test('a pass that runs, and modules that are being fetched', async () => {
    const opening = new Map([
      ['clusterwide-root', Date.UTC(2026, 10, 21, 11, 59, 48)],
      ['clusterwide-other', Date.UTC(2026, 10, 21, 11, 59, 58)],
    ]);
    const facts = progressFacts(
      { since: '2026-11-21T11:59:20Z', namespaces: 3, left: 1 },
      opening,
      undefined,
    );
    const operator = processWith({ 'policy-audit': { state: 'running', reason: '', facts } });
    const { section, verdict } = await read({ operator });
    assert.match(
      section.headline(verdict, plain),
      / A full pass that began 40 s ago has 1 of 3 namespaces left\.$/,
    );
    assert.deepEqual(section.foot, [
      'policy-audit: modules of 2 policies are being fetched or compiled, the longest, clusterwide-root, since 12 s',
    ]);
    const dead = await read({ operator: { ...operator, isRenewed: false } });
    assert.deepEqual(dead.section.foot, []);
    assert.equal(dead.section.fields(dead.verdict)['auditPass'], null);
  });

  test('the result of the last pass; kinds that could not be listed are named', async () => {
    const pass = {
      endedMs: 0,
      objects: 1,
      failing: 1,
      errored: 0,
      seconds: 1,
      missed: 0,
      unread: ['secrets'],
    };
    const { section, verdict } = await read({ pass });
    assert.match(
      section.headline(verdict, plain),
      / 1 object audited: 1 fails, none with errors\. The last full pass ended/,
    );
    assert.match(section.foot.join('\n'), /^Not audited: secrets \(.*Custom resources in audits/);
    assert.deepEqual((await read({ pass: { ...pass, unread: [] } })).section.foot, []);
  });

  test('a policy for a kind that the operator may not list is not guarded, unless it names no kind', async () => {
    const pass = { endedMs: 0, objects: 0, failing: 0, errored: 0, seconds: 1, missed: 0 };
    const reported = (
      apiGroup: string,
      resource: string,
      unread: string,
      more: object = {},
    ): Promise<string[]> => {
      const spec = { ...policy.spec, rules: [{ apiGroups: [apiGroup], resources: [resource] }], ...more };
      const object = { ...policy, spec } as unknown as AnyKubewardenPolicy;
      return problems({ object, pass: { ...pass, unread: [unread] } });
    };
    const why = 'not-audited: objects that exist are not audited: the operator could not list ';
    assert.deepEqual(await reported('', 'secrets', 'secrets'), [`${why}secrets`]);
    assert.deepEqual(await reported('*', 'secrets/status', 'secrets'), [`${why}secrets`]);
    assert.deepEqual(await reported('example.com', 'widgets', 'widgets.example.com'), [
      `${why}widgets.example.com`,
    ]);
    assert.deepEqual(await reported('', 'widgets', 'widgets.example.com'), []);
    assert.deepEqual(await reported('*', '*', 'secrets'), []);
    assert.deepEqual(await reported('', 'secrets', 'secrets', { backgroundAudit: false }), []);
  });
});
