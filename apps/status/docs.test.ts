// docs/status.md names every key of the JSON, and no other.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { processWith, running } from '../../guard/processes.fixture.ts';
import type { SectionReport } from '../../guard/status-section.ts';
import { bpfPrograms } from '../../guards/bpf-programs/guard.ts';
import { parentKind } from '../../guards/bpf-programs/parent-kind.fixture.ts';
import type { ParentObject } from '../../guards/bpf-programs/api.ts';
import { section as bpfSection } from '../../guards/bpf-programs/status/section.ts';
import { networkPolicy } from '../../guards/network-policy/guard.ts';
import {
  examine as examinePolicies,
  section as networkSection,
} from '../../guards/network-policy/status/section.ts';
import { nodeFacts, readNodeFacts } from '../../guards/network-policy/status/node-facts.ts';
import { policyAudit } from '../../guards/policy-audit/guard.ts';
import { progressFacts } from '../../guards/policy-audit/status/progress.ts';
import { section as auditSection } from '../../guards/policy-audit/status/section.ts';
import { noDetection } from '../../guards/file-integrity/model/finding.ts';
import type { Guard } from '../../guard/guard.ts';
import { examine } from './examine.ts';
import { agentOn, foundOf, intact } from './found.fixture.ts';

/** These have names of users in place of keys. */
const maps: Readonly<Record<string, string>> = {
  'nodes[].guards': 'NAME',
  'networkPolicies[].podsByNode': '',
};

/** `nodes[].name`: the path of each key. */
function pathsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return [`${path}[]`, ...value.flatMap((one) => pathsOf(one, `${path}[]`))];
  if (typeof value !== 'object' || value === null) return path === '' ? [] : [path];
  if (maps[path] === '') return [path];
  const own = path === '' ? [] : [path];
  const before = path === '' ? '' : `${path}.`;
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, one]) => pathsOf(one, `${before}${maps[path] ?? key}`)),
  ];
}

const nowMs = Date.UTC(2026, 10, 21, 12);
const metadata = { namespace: 'shop', name: 'db', uid: 'u', resourceVersion: '1', generation: 1 };

/** With all that each guard may say. */
function fullReport(): object {
  const counts = {
    ...{ lastSyncMs: nowMs, lastSyncSeconds: 1, localPods: 1, policies: 1, driftRepaired: 0, failedSyncs: 0 },
  };
  const node = readNodeFacts(
    nodeFacts({
      ...{ backend: 'nftables', isProgrammed: true, counts, policiesVersion: '1', problem: 'no' },
      ...{ refused: [], unreported: undefined, bypassed: undefined },
    }),
  );
  assert.ok(node);
  const policy = { metadata, spec: { podSelector: {} } };
  const parent = { metadata, spec: { nodeselector: {} } } as unknown as ParentObject;
  const finding = {
    path: '/etc/passwd',
    change: 'changed',
    attributes: ['size'],
    seen: '',
    seenBy: 'scan',
    author: 'root',
  };
  const integrityNode = {
    ...{ name: 'n1', condition: 'Failed', lastProbeTime: '' },
    progress: { object: 'guard/machine', step: 'check', since: '', entries: 1, entriesPerSecond: 1 },
    ...{ filesAdded: 0, filesChanged: 1, filesRemoved: 0, findingCount: 1, findings: [finding] },
    packageUpdates: [{ update: 'a 1 -> 2', files: 1, time: '', accepted: false }],
    reading: { count: 1, files: ['/srv/disk.img'] },
    detection: { ...noDetection, packagesReason: 'r' },
  } as const;
  const integrity = { ...intact, report: { ...intact.report, nodes: [integrityNode] } };
  const pass = {
    ...{ endedMs: nowMs, seconds: 1, namespaces: 1, objects: 1, failing: 0, errored: 0, evaluations: 1 },
    ...{ writes: 1, missed: 0, unread: ['secrets'] },
  };
  const facts = progressFacts(
    { since: '2026-11-21T11:00:00Z', namespaces: 3, left: 1 },
    new Map([['p', nowMs]]),
    undefined,
  );
  const operator = processWith({ 'policy-audit': { state: 'running', reason: '', facts } });
  const admission = { metadata: { name: 'p' }, spec: { mode: 'protect' } } as never;
  const exception = { metadata, spec: { reason: 'a test' } } as never;
  const found = foundOf({
    integrities: [integrity as never],
    notRead: [{ resource: 'pods', why: 'forbidden' }],
  });
  const more: [Guard, SectionReport][] = [
    [networkPolicy, networkSection(examinePolicies([policy], [], nowMs), new Map([['n1', node]]), nowMs)],
    [
      policyAudit,
      auditSection([{ kind: 'ClusterAdmissionPolicy', policy: admission }], {
        ...{ operator, readyServers: new Set<string>(), pass, timeMs: nowMs },
        exceptions: [exception],
      }),
    ],
    [bpfPrograms, bpfSection([{ kind: parentKind('XdpProgram'), parent, objects: [] }], [], nowMs)],
  ];
  const coverage = { mode: 'fentry', blindSpots: ['metadata'], losses: { accesses: 1 } };
  const states = {
    ...running('file-integrity'),
    'file-access': { state: 'running', reason: '', coverage },
  } as const;
  return examine({
    ...found,
    agents: [agentOn('n1', states), agentOn('n2', undefined, false)],
    operator: processWith(running('file-access')),
    guards: [
      ...found.guards,
      ...more.map(([guard, section]) => ({ guard, installed: true, isServed: true, section })),
    ],
  }).report;
}

test('docs/status.md describes each key of the JSON, and no other', () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/status.md'), 'utf8');
  const json = text.slice(text.indexOf('## As JSON'), text.indexOf('### Kinds of problems'));
  const rows = json.split('\n').filter((line) => line.startsWith('| `'));
  const documented = rows.flatMap((line) =>
    [...(line.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, path]) => path ?? ''),
  );
  const keys = new Set(pathsOf(fullReport()).map((path) => path));
  const missing = [...keys].filter((path) => !documented.includes(path) && !documented.includes(`${path}[]`));
  assert.deepEqual(missing, []);
  assert.deepEqual(
    documented.filter((path) => !keys.has(path)),
    [],
  );
  assert.equal(new Set(documented).size, documented.length);
});
