// The command, asked about a Service of the embedded API.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

import {
  agentGuardsAnnotation,
  agentLeaseLabel,
  agentNodeAnnotation,
} from '../../../guard/agent-lease-names.ts';
import { startTestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { leases, namespacedKind } from '../../../lib/kube/object/object.ts';
import { PolicyApi } from '../../../test/network-policy/policy-api.fixture.ts';
import { monitorAnnotation } from '../engine/monitor.ts';
import { readCluster } from '../explain/read-cluster.ts';
import { patience } from '../../../lib/testing/until.fixture.ts';

const rampart = join(import.meta.dirname, '../../../bin/rampart');
const metadata = { namespace: 'shop', name: 'db' };

/** Two endpoints, each a pod. */
async function createService({ client }: PolicyApi): Promise<void> {
  await client.create(namespacedKind('', 'services', 'Service'), {
    metadata,
    spec: { clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ports: [{ name: 'sql', port: 5432 }] },
  } as never);
  await client.create(namespacedKind('discovery.k8s.io', 'endpointslices', 'EndpointSlice'), {
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    ports: [{ name: 'sql', port: 80, protocol: 'TCP' }],
    endpoints: ['10.1.0.20', '10.1.0.21'].map((address) => ({ addresses: [address] })),
  } as never);
}

suite('rampart network explain --to a Service', () => {
  test('has an exit code for all, for none and for some of its endpoints', async () => {
    await using api = new PolicyApi(await startTestApi({ name: 'explain', memory: true }));
    await api.createNamespaces('shop');
    const addresses = (last: number) => ({ 4: `10.1.0.${last}`, 6: `fd00:1::${last}` });
    for (const [name, last] of [
      ['web', 10],
      ['db-0', 20],
      ['db-1', 21],
    ] as const)
      await api.createPod({ name: `shop/${name}`, addresses: addresses(last) }, 'one');
    await createService(api);
    const ask = async (to: string, ...args: readonly string[]) => {
      const all = ['network', 'explain', '--kubeconfig', api.kubeconfig, '--from', 'shop/web', '--to', to];
      const asked = promisify(execFile)(rampart, [...all, '--port', 'sql', ...args]);
      const { code, stdout, stderr } = await asked.then(
        ({ stdout: out }) => ({ code: 0, stdout: out, stderr: '' }),
        (error: unknown) => error as { code: number; stdout: string; stderr: string },
      );
      return { code, head: (stdout || stderr).split('\n')[0], stdout };
    };
    const open = await ask('db.shop.svc.cluster.local');
    assert.deepEqual([open.code, open.head], [0, 'Service shop/db 5432/TCP: allowed to all 2 endpoints']);
    await api.apply('shop/closed', { podSelector: { matchLabels: { pod: 'db-1' } } });
    const mixed = await ask('svc/db', '-n', 'shop');
    assert.deepEqual([mixed.code, mixed.head], [3, 'Service shop/db 5432/TCP: allowed to 1 of 2 endpoints']);
    assert.match(
      mixed.stdout,
      /^shop\/web \(10\.1\.0\.10\) -> shop\/db-1 \(10\.1\.0\.21\) 80\/TCP: refused$/m,
    );
    await api.apply('shop/closed', { podSelector: {} });
    const closed = await ask('10.96.0.10', '-o', 'json');
    const { schema, service, endpoints } = JSON.parse(closed.stdout) as {
      readonly schema: string;
      readonly service: string;
      readonly endpoints: readonly { readonly to: { readonly pod: string }; readonly allowed: boolean }[];
    };
    assert.deepEqual(
      [closed.code, schema, service, endpoints.map(({ to, allowed }) => [to.pod, allowed])],
      [
        1,
        'rampart.dev/network-explain-service/v1',
        'shop/db',
        [
          ['shop/db-0', false],
          ['shop/db-1', false],
        ],
      ],
    );
    await api.apply('shop/closed', { podSelector: {} }, { [monitorAnnotation]: 'true' });
    const monitored = await ask('svc/db', '-n', 'shop');
    assert.deepEqual(
      [monitored.code, monitored.head],
      [0, 'Service shop/db 5432/TCP: allowed to all 2 endpoints; 2 would be refused without monitor mode'],
    );
    assert.match(
      monitored.stdout,
      /^shop\/web \S+ -> shop\/db-1 \S+ 80\/TCP: allowed, would be refused without monitor mode\n[^]*^ingress of shop\/db-1: allowed, would be refused$/m,
    );
    const none = await ask('svc/none');
    assert.deepEqual([none.code, none.head?.includes('there is no Service default/none')], [2, true]);
  });

  test('knows the nodes in monitor mode from the leases of their agents', async () => {
    await using api = new PolicyApi(await startTestApi({ name: 'explain-nodes', memory: true }));
    await api.createNamespaces('rampart-system');
    for (const [name, mode] of [
      ['one', 'monitor'],
      ['two', 'enforce'],
    ] as const) {
      const guards = { 'network-policy': { state: 'running', facts: { backend: 'nftables', mode } } };
      await api.client.create(leases, {
        metadata: {
          ...{ namespace: 'rampart-system', name: `agent-${name}`, labels: { [agentLeaseLabel]: name } },
          annotations: { [agentNodeAnnotation]: name, [agentGuardsAnnotation]: JSON.stringify(guards) },
        },
      });
    }
    const { monitoringNodes } = await readCluster(api.client, patience());
    assert.deepEqual([...(monitoringNodes ?? [])], ['one']);
  });
});
