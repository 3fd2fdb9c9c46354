import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertHas, received } from '../../guard/stream/ocsf.fixture.ts';
import { programFindingLine, type ProgramVerdict } from './findings/program-finding.ts';
import { programOcsf } from './ocsf.ts';

const policy = { kind: 'XdpProgram', namespace: '', name: 'count' } as const;

function valuesOf(verdict: ProgramVerdict, attachPoint = 'eth0'): Readonly<Record<string, unknown>> {
  const line = programFindingLine(
    {
      verdict,
      policy,
      object: { kind: 'Node', namespace: '', name: 'n1' },
      node: { name: 'n1' },
      message: 'It is so.',
    },
    { function: 'pass', attachPoint, reason: 'There is no interface eth0.', folded: 0 },
    1_795_000_000_000,
  );
  return received(line, programOcsf).values;
}

test('events of a program are Detection Findings that open and close separately at each place', () => {
  const open = valuesOf('not-loaded');
  assertHas(open, {
    ...{ class_uid: 2004, activity_name: 'Create', status: 'New', is_alert: true },
    status_detail: 'There is no interface eth0.',
    resources: [{ type: 'Node', name: 'n1' }],
    'policy.type': 'XdpProgram',
    'device.hostname': 'n1',
  });
  const running = valuesOf('running');
  assertHas(running, { activity_name: 'Close', status: 'Resolved', is_alert: false });
  assert.equal(running['finding_info.uid'], open['finding_info.uid']);
  assert.notEqual(valuesOf('running', 'eth1')['finding_info.uid'], open['finding_info.uid']);
  assertHas(valuesOf('repaired'), { activity_name: 'Close', is_alert: true });
  assertHas(valuesOf('displaced'), { activity_name: 'Create', is_alert: true });
});
