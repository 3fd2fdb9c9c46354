import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import { type ReadFinding, readFinding } from '../../../guard/stream/read-finding.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { policyFindings } from './policy-finding.ts';
import { PolicyFindings, type ReportedPolicy, type ReportedWrite } from './policy-findings.ts';

const policy: ReportedPolicy = {
  id: 'clusterwide-no-root',
  reference: { kind: 'ClusterAdmissionPolicy', namespace: '', name: 'no-root' },
  severity: 'low',
};
const web = { kind: 'Pod', namespace: 'shop', name: 'web' };
const write: ReportedWrite = {
  ...{ verdict: 'rejected', operation: 'CREATE', user: 'alice', isDryRun: false, object: web },
  ...{ reason: 'root is not allowed.', isRefused: true },
};

/** The one line of it, and no other. */
function reported(notify: (findings: PolicyFindings) => void): ReadFinding {
  const lines: string[] = [];
  notify(new PolicyFindings({ sink: (line) => void lines.push(line) }));
  assert.equal(lines.length, 1);
  const finding = readFinding(lines[0] ?? '');
  assert.ok(finding, lines[0]);
  assertFinding(lines[0] ?? '');
  return finding;
}

suite('findings of policies', () => {
  const by = 'ClusterAdmissionPolicy no-root';
  for (const [what, notify, verdict, severity, message] of [
    [
      'a write that is refused',
      (findings) => findings.write(policy, write),
      ...['rejected', 'low', `CREATE of Pod shop/web by alice was rejected by ${by}: root is not allowed.`],
    ],
    [
      'a write that is let through',
      (findings) => findings.write(policy, { ...write, verdict: 'monitored', isRefused: false, reason: '' }),
      ...['monitored', 'low'],
      `CREATE of Pod shop/web by alice was let through, although ${by} in monitor mode does not allow it.`,
    ],
    [
      'a write that could not be judged',
      (findings) => findings.write(policy, { ...write, verdict: 'errored', user: '', reason: 'no\nanswer' }),
      ...['errored', 'high'],
      `${by} could not be evaluated for CREATE of Pod shop/web by an unknown user, which was rejected: no\\nanswer.`,
    ],
    [
      'an object that violates',
      (findings) => findings.audited(policy, 'failing', web, 'root'),
      ...['failing', 'low', `Pod shop/web violates ${by}: root.`],
    ],
    [
      'by a policy without a severity that is one',
      (findings) => findings.audited({ ...policy, severity: 'bad' }, 'failing', web, 'root'),
      ...['failing', 'medium', `Pod shop/web violates ${by}: root.`],
    ],
    [
      'and does not any more',
      (findings) => findings.audited(policy, 'passing', web, ''),
      ...['passing', 'info', `Pod shop/web does not violate ${by} any more.`],
    ],
    [
      'an object that cannot be judged',
      (findings) => findings.audited(policy, 'errored', web, 'out of time'),
      ...['errored', 'high', `${by} could not be evaluated for Pod shop/web: out of time.`],
    ],
    [
      'a policy that cannot be evaluated',
      (findings) => findings.policy(policy, 'no such module'),
      ...['errored', 'high', `${by} cannot be evaluated as written: no such module.`],
    ],
    [
      'and can again',
      (findings) => findings.policy(policy, undefined),
      ...['passing', 'info', `${by} is evaluated again.`],
    ],
  ] satisfies readonly (readonly [string, (findings: PolicyFindings) => void, ...string[]])[]) {
    test(what, () => {
      const finding = reported(notify);
      const { head } = finding;
      assert.deepEqual([head.verdict, head.severity, head.message], [verdict, severity, message]);
      assert.deepEqual(head.policy, policy.reference);
      assert.ok(policyFindings.view(finding)?.pretty({ colour: false, nowMs: 0 }).includes(by));
    });
  }

  test('the keys after the head; a policy of which only the id is known', () => {
    const finding = reported((findings) =>
      findings.write({ id: 'mine', reference: null, severity: undefined }, { ...write, isDryRun: true }),
    );
    const { head, keys } = finding;
    assert.deepEqual([head.policy, head.node, head.object], [null, { name: '' }, web]);
    assert.deepEqual(Object.fromEntries(Object.entries(keys).slice(9)), {
      ...{ origin: 'admission', operation: 'CREATE', user: 'alice', dryRun: true },
      ...{ reason: 'root is not allowed.', policyId: 'mine', folded: 0 },
    });
    const shown = policyFindings.view(finding)?.pretty({ colour: false, nowMs: 0 }) ?? '';
    assert.match(shown, /   rejected +Pod shop\/web +root is not allowed\.  mine$/);
  });

  test('many of a policy in a namespace are folded, and counted in the next one', () => {
    const clock = new ManualClock();
    const lines: string[] = [];
    const findings = new PolicyFindings({ sink: (line) => void lines.push(line), clock });
    const foldedOf = (line: string | undefined): unknown => readFinding(line ?? '')?.keys['folded'];
    for (let count = 0; count < 25; count++)
      findings.write(policy, { ...write, object: { ...web, name: `web-${count}` } });
    assert.equal(lines.length, 10);
    findings.write(policy, { ...write, object: { ...web, namespace: 'bank' } });
    assert.deepEqual([lines.length, foldedOf(lines.at(-1))], [11, 0]);
    clock.advanceSync(60_000);
    findings.write(policy, write);
    assert.deepEqual([lines.length, foldedOf(lines.at(-1)), findings.folded], [12, 15, 15]);
  });

  test('neither writes of others nor dry runs fold a write', () => {
    const lines: string[] = [];
    const findings = new PolicyFindings({ sink: (line) => void lines.push(line), clock: new ManualClock() });
    for (let count = 0; count < 25; count++) findings.write(policy, { ...write, isDryRun: true });
    assert.equal(lines.length, 10);
    findings.write(policy, write);
    findings.write(policy, { ...write, user: 'bob' });
    assert.equal(lines.length, 12);
  });

  test('each object that an audit finds is reported', () => {
    const lines: string[] = [];
    const findings = new PolicyFindings({ sink: (line) => void lines.push(line), clock: new ManualClock() });
    for (let count = 0; count < 200; count++)
      findings.audited(policy, 'failing', { ...web, name: `web-${count}` }, 'root');
    assert.equal(lines.length, 200);
  });

  test('nothing of it reaches the terminal raw', () => {
    const evil = '\u001b[2Jx\ny';
    const finding = reported((findings) =>
      findings.write(
        { id: evil, reference: { kind: evil, namespace: evil, name: evil }, severity: evil },
        {
          ...write,
          operation: evil,
          user: evil,
          reason: evil,
          object: { kind: evil, namespace: '', name: evil },
        },
      ),
    );
    const shown = policyFindings.view(finding)?.pretty({ colour: false, nowMs: 0 }) ?? '';
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(shown + finding.head.message, /[\u0000-\u001f]/);
  });
});
