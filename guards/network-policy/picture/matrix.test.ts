import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { monitorAnnotation } from '../engine/monitor.ts';
import type { PolicyObject, PolicySpec } from '../engine/objects.ts';
import type { Refusal } from '../refusal-line.ts';
import type { PicturedPod } from './groups.ts';
import { matrixOf, type PicturedCluster } from './matrix.ts';

let last = 0;
function pod(namespace: string, workload: string, more: Partial<PicturedPod> = {}): PicturedPod {
  last++;
  return {
    workload,
    metadata: { namespace, name: `${workload}-${last}`, labels: { app: workload } },
    spec: { nodeName: 'n1', containers: [{ ports: [{ containerPort: 80 }] }] },
    status: { phase: 'Running', podIP: `10.0.${last >> 8}.${last & 255}` },
    ...more,
  };
}

function policy(namespace: string, spec: PolicySpec, annotations = {}): PolicyObject {
  return { metadata: { namespace, name: `p${last++}`, annotations }, spec };
}

function cluster(pods: readonly PicturedPod[], policies: readonly PolicyObject[] = []): PicturedCluster {
  const names = [...new Set(pods.map(({ metadata }) => metadata.namespace ?? ''))];
  const namespaces = names.map((name) => ({ metadata: { name, labels: { ns: name } } }));
  return { pods, policies, namespaces, monitoringNodes: new Set() };
}

function refusal(from: PicturedPod | string, to: PicturedPod, port: number): Refusal {
  const end = ({ metadata }: PicturedPod) => ({
    ...{ address: '10.0.0.1', namespace: metadata.namespace ?? '', pod: metadata.name ?? '' },
  });
  return {
    ...{ verdict: 'refused', direction: 'ingress', protocol: 'TCP', policies: [], reason: '' },
    source: typeof from === 'string' ? { address: from } : end(from),
    destination: { ...end(to), port },
  };
}

async function cellsOf(of: PicturedCluster, refusals: readonly Refusal[] = []) {
  const { items, notes } = await matrixOf(of, refusals);
  return { cells: new Map(items.map((item) => [item.at.join(' -> '), item])), notes };
}

suite('who may talk to whom', () => {
  test('all, some ports or nothing, as the policies say; a single pod always reaches itself', async () => {
    const [web, db, db2] = [pod('shop', 'web'), pod('shop', 'db'), pod('shop', 'db')];
    const onlyWeb: PolicySpec = {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }], ports: [{ port: 5432 }] }],
    };
    const { cells } = await cellsOf(cluster([web, db, db2], [policy('shop', onlyWeb)]));
    assert.deepEqual(
      [...cells].map(([at, { mark, tone }]) => [at, mark, tone]),
      [
        ['shop/db -> shop/db', '', 'none'],
        ['shop/db -> shop/web', 'all', 'ok'],
        ['shop/web -> shop/db', '5432', 'ok'],
        ['shop/web -> shop/web', '', 'blank'],
      ],
    );
    const asked = cells.get('shop/web -> shop/db');
    assert.equal(asked?.text, 'shop/web to shop/db: 5432/TCP allowed, nothing else.');
    const ends = ['--from', `shop/${web.metadata.name}`, '--to', `shop/${db.metadata.name}`];
    assert.deepEqual(asked.next, ['network', 'explain', ...ends, '--port', '5432/TCP']);
    // Two that are alike: a pod always reaches itself.
    const within = cells.get('shop/db -> shop/db')?.next ?? [];
    assert.notEqual(within[3], within[5]);
  });

  test('refused packets are marked, also those of pods that are allowed other ports, and from outside', async () => {
    const [web, db] = [pod('shop', 'web'), pod('shop', 'db')];
    const spec: PolicySpec = {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [{ ports: [{ port: 80 }] }],
    };
    const gone = pod('shop', 'gone');
    const { cells, notes } = await cellsOf(cluster([web, db], [policy('shop', spec)]), [
      refusal(web, db, 22),
      refusal(web, db, 22),
      refusal('192.0.2.7', db, 23),
      refusal(gone, db, 22),
    ]);
    const marked = cells.get('shop/web -> shop/db');
    assert.deepEqual([marked?.tone, marked?.mark, marked?.value], ['bad', '✕ 2', 2]);
    assert.match(
      marked?.text ?? '',
      /80\/TCP allowed, nothing else\. 2 refused packets reported \(22\/TCP\)\./,
    );
    assert.equal(marked?.next?.at(-1), '22/TCP');
    assert.equal(cells.get('outside the cluster -> shop/db')?.tone, 'bad');
    assert.deepEqual(notes, ['1 refused packet not drawn: of pods that are gone, or left out.']);
  });

  test('flows that only monitor mode allows are marked', async () => {
    const [web, db] = [pod('shop', 'web'), pod('shop', 'db')];
    const closed = policy(
      'shop',
      { podSelector: { matchLabels: { app: 'db' } } },
      { [monitorAnnotation]: 'true' },
    );
    const { cells } = await cellsOf(cluster([web, db], [closed]));
    const cell = cells.get('shop/web -> shop/db');
    assert.deepEqual([cell?.tone, cell?.mark], ['warn', 'all']);
    assert.match(cell?.text ?? '', /only because of monitor mode/);
  });

  test('more workloads than a picture holds are shown by namespace, and more namespaces are left out and counted', async () => {
    const pods = Array.from({ length: 30 }, (_, at) => pod(`n${String(at).padStart(2, '0')}`, 'web'));
    const node = pod('n00', 'proxy', { spec: { hostNetwork: true } });
    const finished = pod('n00', 'job', { status: { phase: 'Succeeded', podIP: '10.1.0.1' } });
    const starting = pod('n00', 'new', { status: { phase: 'Pending' } });
    const closed = policy('n29', { podSelector: {} });
    const { cells, notes } = await cellsOf(cluster([...pods, node, finished, starting], [closed]));
    assert.equal(cells.get('n00 -> n29')?.mark, '');
    assert.equal(cells.get('n29 -> n00')?.mark, 'all');
    assert.deepEqual(notes, [
      'There are too many workloads for one picture: each row is a namespace.',
      '6 namespaces left out: the most telling are drawn.',
      '1 pod left out: in the network of a node, where no policy applies.',
      '1 pod left out: without an address yet.',
    ]);
  });

  test('kinds of pods of one namespace that differ are said to', async () => {
    const many = Array.from({ length: 17 }, (_, at) => pod('a', `w${at}`));
    const b = [pod('b', 'open'), pod('b', 'closed')];
    const closed = policy('b', { podSelector: { matchLabels: { app: 'closed' } } });
    const { cells, notes } = await cellsOf(cluster([...many, ...b], [closed]));
    assert.equal(cells.get('a -> b')?.mark, 'some');
    assert.match(notes.join(' '), /Not all kinds of pods were asked about in a\./);
  });
});
