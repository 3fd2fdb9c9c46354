import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { readFinding } from '../../../guard/stream/read-finding.ts';
import { clockTime } from '../../../lib/output/printable.ts';
import { access, context } from './alert.fixture.ts';
import { AlertEncoder } from './alert.ts';
import { alertLines } from './alert-line-kind.ts';

const timeMs = Number(access.timeNs / 1_000_000n);
const accessor = (relation: string, name = ''): string =>
  JSON.stringify({
    relation,
    pod: { name, namespace: name && 'shop' },
    container: { id: name, name: name && 'sh' },
  });

function shown(line: string, nowMs = timeMs): string {
  const finding = readFinding(line);
  const view = finding && alertLines.view(finding);
  assert.ok(view);
  return view.pretty({ colour: false, nowMs });
}

const nobody = { pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
const host = (where: object): string => JSON.stringify({ relation: 'host', ...nobody, ...where });
const unknown = JSON.stringify({
  ...{ relation: 'unknown', ...nobody },
  container: { id: '0123456789abcdef'.repeat(4), name: '' },
});

suite('an alert as a line for a person', () => {
  const encoder = new AlertEncoder(context);
  const base =
    `${clockTime(timeMs)}   read          default/nginx-pod/nginx:/secret.txt       ` +
    '/usr/bin/cat /secret.txt -  (pid 176928, uid 0, in /)  kive-sample-policy';

  for (const [json, words] of [
    [undefined, ''],
    [accessor('owner', 'nginx-pod'), ''],
    [accessor('host'), ', accessed from the host'],
    [accessor('unknown'), ', by an unknown container'],
    [accessor('container', 'debug'), ', by shop/debug/sh'],
    [host({ mounts: 'own' }), ', by the host, mount namespace of its own'],
    [host({ mounts: 'own', unit: 'system.slice/x.service' }), ', by system.slice/x.service'],
    [host({ unit: 'system.slice/x.service' }), ', accessed from the host'],
    [unknown, ', by unknown container 0123456789ab'],
  ] as const) {
    test(`accessed by ${json ?? 'nobody known'}`, () =>
      assert.equal(shown(encoder.encode(access, json)), base + words));
  }

  test('shows a file that is no longer at its path', () => {
    const moved = new AlertEncoder({ ...context, moved: true }).encode(access, accessor('host'));
    assert.equal(shown(moved), `${base}, accessed from the host, the file was moved`);
  });

  test('of another day: with its date', () => {
    const date = new Date(timeMs);
    const two = (value: number): string => String(value).padStart(2, '0');
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    assert.equal(shown(encoder.encode(access), timeMs + 2 * 86_400_000), `${day} ${base}`);
  });

  test('nothing of it reaches the terminal raw', () => {
    const evil = '\u001b[2Jx\ny';
    const line = new AlertEncoder({
      ...context,
      policyName: evil,
      path: evil,
      pod: { ...context.pod, name: evil, namespace: evil, container: { id: evil, name: evil } },
    }).encode(
      { ...access, executable: evil, arguments: evil, cwd: evil, comm: evil },
      accessor('container', evil),
    );
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(shown(line), /[\u0000-\u001f]/);
  });

  test('of a file of no pod, by rampart watch', () => {
    const pod = { name: '', namespace: '', ip: '', container: { id: '', name: '' } };
    const line = new AlertEncoder({ ...context, policyName: '', policyNamespace: '', pod }).encode(access);
    assert.match(shown(line), / read {10}\/secret\.txt .*\(pid 176928, uid 0, in \/\)$/);
  });
});

test('a line without the keys of an alert is not an alert', () => {
  const line = new AlertEncoder(context).encode(access);
  for (const key of ['metadata', 'pod', 'process', 'timestamp']) {
    const finding = readFinding(line.replace(`"${key}":`, '"other":'));
    assert.ok(finding);
    assert.equal(alertLines.view(finding), undefined, key);
  }
});

test('its head, and the path that filters go by', () => {
  const finding = readFinding(new AlertEncoder(context).encode(access));
  assert.ok(finding);
  assert.equal(finding.timeNs, access.timeNs);
  assert.equal(finding.head.kind, alertLines.kind);
  assert.deepEqual(finding.head.object, { kind: 'Pod', namespace: 'default', name: 'nginx-pod' });
  assert.equal(alertLines.view(finding)?.path, '/secret.txt');
});
