import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertHas, received } from '../../../guard/stream/ocsf.fixture.ts';
import { readFinding } from '../../../guard/stream/read-finding.ts';
import { may } from '../../../lib/sensor/access.ts';
import { AlertEncoder } from './alert.ts';
import { access, context } from './alert.fixture.ts';
import { alertOcsf } from './ocsf.ts';

const line = new AlertEncoder(context).encode(access);

suite('an alert as File System Activity', () => {
  test('who did what to which file, of which container, for which policy', () => {
    const { values } = received(line, alertOcsf);
    assertHas(values, {
      ...{ class_uid: 1001, activity_id: 2, activity_name: 'Read', action: 'Allowed' },
      'file.path': '/secret.txt',
      'file.name': 'secret.txt',
      access_mask: 36,
      'actor.process.pid': 176_928,
      'actor.process.name': 'cat',
      'actor.process.path': '/usr/bin/cat',
      'actor.process.cmd_line': '/usr/bin/cat /secret.txt -',
      'actor.process.working_directory': '/',
      'actor.process.user.uid': '0',
      'actor.process.parent_process.pid': 1,
      'rampart.object.container.id': 'containerd://0c37',
      'rampart.object.container.name': 'nginx',
      'rampart.object.name': 'nginx-pod',
      'policy.uid': 'kivebpf-system/kive-sample-policy',
      'device.hostname': 'kive-worker',
    });
  });

  test('by a unit with mounts of its own', () => {
    const accessor = { relation: 'host', pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
    const unit = 'system.slice/x.service';
    const json = JSON.stringify({ ...accessor, unit, mounts: 'own' });
    const { values } = received(new AlertEncoder(context).encode(access, json), alertOcsf);
    assertHas(values, { 'rampart.actor.unit': unit, 'rampart.actor.mounts': 'own' });
  });

  for (const [mask, activity] of [
    [may.WRITE | may.READ, 'Update'],
    [may.APPEND, 'Update'],
    [may.EXEC, 'Execute'],
    [may.OPEN, 'Open'],
    [may.ACCESS | may.READ, 'Get Attributes'],
  ] as const) {
    test(`mask ${mask}: ${activity}`, () => {
      const { values } = received(new AlertEncoder(context).encode({ ...access, mask }), alertOcsf);
      assert.equal(values['activity_name'], activity);
    });
  }

  test('says denied; says nothing if unknown', () => {
    const actionOf = (verdict: 'denied' | 'unknown'): unknown =>
      received(new AlertEncoder(context).encode({ ...access, verdict }), alertOcsf).values['action'];
    assert.deepEqual([actionOf('denied'), actionOf('unknown')], ['Denied', undefined]);
  });

  test('a line that lacks what alerts have is of no class', () => {
    const finding = readFinding(line.replace('"metadata":', '"other":'));
    assert.ok(finding);
    assert.equal(alertOcsf(finding), undefined);
  });
});
