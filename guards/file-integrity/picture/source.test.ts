import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { PictureContext } from '../../../guard/picture.ts';
import { type FileIntegrityNodeStatus, released, type ReportedFinding } from '../api.ts';
import { fileIntegrityPicture } from './source.ts';

function changed(path: string, more: Partial<ReportedFinding> = {}): ReportedFinding {
  const seen = new Date(0).toISOString();
  return { path, change: 'changed', attributes: ['size'], seen, seenBy: 'event', ...more };
}

function statusOf(
  nodeName: string,
  findings: ReportedFinding[],
  omittedFindings = 0,
): FileIntegrityNodeStatus {
  const owner = { apiVersion: 'v1', kind: 'FileIntegrity', name: 'etc', uid: 'u', controller: true };
  const metadata = { namespace: 'guard', name: `etc-${nodeName}`, ownerReferences: [owner] };
  return { metadata, nodeName, results: [], findings, omittedFindings };
}

function read(statuses: readonly FileIntegrityNodeStatus[]) {
  const list = async (type: object, onItem: (object: never) => void): Promise<void> => {
    if (type === released.nodeStatuses) for (const one of statuses) onItem(one as never);
  };
  const orForbidden = <T>(_resource: string, ask: () => Promise<T>): Promise<T> => ask();
  return fileIntegrityPicture.read({ list, orForbidden } as unknown as PictureContext);
}

suite('what has changed since the baseline', () => {
  test('by path, on all nodes together; what a package explains is told apart', async () => {
    const { items, notes } = await read([
      statusOf(
        'n1',
        [changed('/etc/passwd'), changed('/usr/bin/openssl', { explained: 'openssl 1 -> 2' })],
        3,
      ),
      statusOf('n2', [
        changed('/etc/passwd'),
        changed('/etc/<img src=x>', { change: 'added', attributes: [] }),
      ]),
    ]);
    assert.deepEqual(
      items.map(({ at, value, tone, mark }) => [at.join(' '), value, tone, mark]),
      [
        ['/ etc passwd', 2, 'bad', 'changed, 2 nodes'],
        ['/ etc <img src=x>', 1, 'warn', 'added'],
        ['/ usr bin openssl', 1, 'none', 'changed'],
      ],
    );
    const words = [
      'integrity',
      'accept',
      'etc',
      '-n',
      'guard',
      '--node',
      'n1',
      '--path',
      '/etc/passwd',
      '--dry-run',
    ];
    assert.deepEqual(items[0]?.next, words);
    assert.equal(items[0]?.text, '/etc/passwd has changed (size) on n1, n2.');
    assert.deepEqual(notes, ['3 changes more in the logs of the nodes.']);
  });

  test('more than can be seen are counted; nothing is said to be nothing', async () => {
    const many = Array.from({ length: 310 }, (_, at) => changed(`/etc/${at}`));
    const { items, notes } = await read([statusOf('n1', many)]);
    assert.equal(items.length, 300);
    assert.deepEqual(notes, ['10 changed paths more: those of packages are left out first.']);
    assert.deepEqual((await read([statusOf('n1', [])])).notes, ['Nothing has changed on 1 node.']);
    assert.deepEqual((await read([])).notes, ['No node has been compared with a baseline yet.']);
  });
});
