import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertHas, received } from '../../../guard/stream/ocsf.fixture.ts';
import type { Finding, FindingChange } from '../model/finding.ts';
import { integrityLine } from './finding-line.ts';
import { findingOcsf } from './finding-ocsf.ts';

const finding: Finding = {
  ...{
    path: '/etc/passwd',
    change: 'changed',
    attributes: ['size'],
    seenMs: 1_795_000_000_000,
    seenBy: 'event',
  },
  author: {
    ...{ binary: '/usr/bin/vi', arguments: '/etc/passwd', cwd: '/root', uid: 0, gid: 0, pid: 41, ppid: 1 },
    ...{ parentBinary: '/usr/bin/bash', relation: 'container', container: { id: 'c1', name: 'main' } },
    pod: { namespace: 'shop', name: 'web' },
  },
};
const valuesOf = (of: Finding, state: FindingChange['state'] = 'found') =>
  received(
    integrityLine(
      { state, path: '', finding: of },
      { fileIntegrity: 'guard/workers', nodeName: 'n1', nowMs: of.seenMs },
    ),
    findingOcsf,
  ).values;

suite('a finding as File System Activity', () => {
  test('with who made the change', () => {
    assertHas(valuesOf(finding), {
      ...{ class_uid: 1001, activity_id: 3, activity_name: 'Update', action: 'Observed' },
      'file.path': '/etc/passwd',
      'actor.process.pid': 41,
      'actor.process.cmd_line': '/usr/bin/vi /etc/passwd',
      'actor.process.user.uid': '0',
      'actor.process.parent_process.path': '/usr/bin/bash',
      'actor.process.container.uid': 'c1',
      'rampart.actor.pod.name': 'web',
      'policy.uid': 'guard/workers',
      'device.hostname': 'n1',
    });
  });

  test('with who touched it later, and the unit of a process of the node', () => {
    const { container: _c, pod: _p, ...by } = finding.author ?? assert.fail();
    const unit = 'system.slice/x.service';
    const author = { ...by, relation: 'host', unit, mounts: 'own' } as const;
    const last = { seenMs: finding.seenMs + 3000, seenBy: 'event', author: { ...author, pid: 99 } } as const;
    assertHas(valuesOf({ ...finding, author, last }), {
      ...{ 'actor.process.pid': 41, 'rampart.last.process.pid': 99 },
      'rampart.last.process.path': '/usr/bin/vi',
      'rampart.actor.unit': unit,
      'rampart.actor.mounts': 'own',
    });
  });

  test('without, and each verdict', () => {
    const { author: _nobody, ...alone } = finding;
    assertHas(valuesOf({ ...alone, change: 'removed' }), {
      activity_name: 'Delete',
      'actor.process.pid': undefined,
    });
    assertHas(valuesOf({ ...alone, change: 'added' }), { activity_name: 'Create' });
    assertHas(valuesOf(alone, 'gone'), { activity_id: 99, activity_name: 'Restored' });
    assertHas(valuesOf(alone, 'accepted'), { activity_id: 99, activity_name: 'Accepted' });
  });
});
