// Objects are created, read, changed and deleted as the API conventions say.
/* oxlint-disable typescript/no-misused-spread -- client-node's types are classes, its objects are plain */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';

import { CoreV1Api, type V1ConfigMap } from '@kubernetes/client-node';

import { type Cluster, refusal } from './cluster.fixture.ts';

export function objectCases(opened: () => Cluster): void {
  describe('objects', () => {
    let cluster: Cluster;
    let core: CoreV1Api;
    let namespace: string;
    before(async () => {
      cluster = opened();
      core = cluster.config.makeApiClient(CoreV1Api);
      namespace = await cluster.namespace();
    });

    const config = (name: string, data: Record<string, string> = { a: '1' }): V1ConfigMap => ({
      metadata: { name },
      data,
    });

    describe('create', () => {
      test('fills in what the server sets', async () => {
        const made = await core.createNamespacedConfigMap({ namespace, body: config('made') });
        assert.equal(made.metadata?.namespace, namespace);
        assert.match(
          made.metadata?.uid ?? '',
          /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
        );
        assert.match(made.metadata?.resourceVersion ?? '', /^\d+$/);
        assert.ok(made.metadata?.creationTimestamp instanceof Date);
        assert.deepEqual(made.data, { a: '1' });
        const read = await core.readNamespacedConfigMap({ namespace, name: 'made' });
        assert.deepEqual(read, made);
      });

      test('generateName', async () => {
        const body = { metadata: { generateName: 'many-' } };
        const made = await Promise.all(
          Array.from({ length: 20 }, () => core.createNamespacedConfigMap({ namespace, body })),
        );
        const names = made.map(({ metadata }) => metadata?.name ?? '');
        assert.equal(new Set(names).size, 20);
        for (const name of names) assert.match(name, /^many-[a-z0-9]{5}$/);
      });

      test('creating an existing object is 409 AlreadyExists', async () => {
        await core.createNamespacedConfigMap({ namespace, body: config('twice') });
        const { code, status } = await refusal(
          core.createNamespacedConfigMap({ namespace, body: config('twice') }),
        );
        assert.equal(code, 409);
        assert.equal(status.reason, 'AlreadyExists');
        assert.equal(status.message, 'configmaps "twice" already exists');
      });

      test('with dryRun stores nothing', async () => {
        const made = await core.createNamespacedConfigMap({ namespace, body: config('dry'), dryRun: 'All' });
        assert.ok(made.metadata?.uid);
        const { code, status } = await refusal(core.readNamespacedConfigMap({ namespace, name: 'dry' }));
        assert.equal(code, 404);
        assert.equal(status.reason, 'NotFound');
        assert.equal(status.message, 'configmaps "dry" not found');
      });

      test('in a namespace that does not exist is 404', async () => {
        const { code, status } = await refusal(
          core.createNamespacedConfigMap({ namespace: 'nowhere-at-all', body: config('a') }),
        );
        assert.equal(code, 404);
        assert.equal(status.message, 'namespaces "nowhere-at-all" not found');
      });

      test('with a name that cannot be is 422 with the cause', async () => {
        const { code, status } = await refusal(
          core.createNamespacedConfigMap({ namespace, body: config('Not_A_Name') }),
        );
        assert.equal(code, 422);
        assert.equal(status.reason, 'Invalid');
        assert.match(
          status.message,
          /^ConfigMap "Not_A_Name" is invalid: metadata\.name: Invalid value: "Not_A_Name"/,
        );
        assert.equal(status.details?.causes?.[0]?.field, 'metadata.name');
        assert.equal(status.details?.causes?.[0]?.reason, 'FieldValueInvalid');
      });

      test('with another namespace than that of the path is 400', async () => {
        const body = { ...config('elsewhere'), metadata: { name: 'elsewhere', namespace: 'default' } };
        const { code, status } = await refusal(core.createNamespacedConfigMap({ namespace, body }));
        assert.equal(code, 400);
        assert.match(status.message, /does not match the namespace/);
      });
    });

    describe('update', () => {
      test('changes the version; a stale one is 409', async () => {
        const made = await core.createNamespacedConfigMap({ namespace, body: config('stale') });
        const changed = await core.replaceNamespacedConfigMap({
          namespace,
          name: 'stale',
          body: { ...made, data: { a: '2' } },
        });
        assert.notEqual(changed.metadata?.resourceVersion, made.metadata?.resourceVersion);
        assert.equal(changed.metadata?.uid, made.metadata?.uid);
        const { code, status } = await refusal(
          core.replaceNamespacedConfigMap({ namespace, name: 'stale', body: { ...made, data: { a: '3' } } }),
        );
        assert.equal(code, 409);
        assert.equal(status.reason, 'Conflict');
        assert.equal(
          status.message,
          'Operation cannot be fulfilled on configmaps "stale": the object has been modified; please apply your changes to the latest version and try again',
        );
      });

      test('that changes nothing keeps the version', async () => {
        const made = await core.createNamespacedConfigMap({ namespace, body: config('same') });
        const again = await core.replaceNamespacedConfigMap({ namespace, name: 'same', body: made });
        assert.equal(again.metadata?.resourceVersion, made.metadata?.resourceVersion);
      });

      test('a change of the uid is refused', async () => {
        const made = await core.createNamespacedConfigMap({ namespace, body: config('other-uid') });
        const body = { ...made, metadata: { ...made.metadata, uid: '11111111-2222-3333-4444-555555555555' } };
        const { code } = await refusal(
          core.replaceNamespacedConfigMap({ namespace, name: 'other-uid', body }),
        );
        assert.ok(code === 409 || code === 422, `${code}`);
      });

      test('a name other than that of the path is 400', async () => {
        await core.createNamespacedConfigMap({ namespace, body: config('this') });
        const { code, status } = await refusal(
          core.replaceNamespacedConfigMap({ namespace, name: 'this', body: config('that') }),
        );
        assert.equal(code, 400);
        assert.equal(
          status.message,
          'the name of the object (that) does not match the name on the URL (this)',
        );
      });

      test('a change of an immutable config map is 422', async () => {
        await core.createNamespacedConfigMap({ namespace, body: { ...config('frozen'), immutable: true } });
        const { code, status } = await refusal(
          core.replaceNamespacedConfigMap({
            namespace,
            name: 'frozen',
            body: { ...config('frozen', { a: '2' }), immutable: true },
          }),
        );
        assert.equal(code, 422);
        assert.match(status.message, /data: Forbidden: field is immutable when `immutable` is set/);
      });
    });

    describe('built-in kinds', () => {
      test('a secret takes stringData, and gives it as data', async () => {
        const made = await core.createNamespacedSecret({
          namespace,
          body: { metadata: { name: 'words' }, stringData: { pass: 'hunter2' } },
        });
        assert.deepEqual(made.data, { pass: Buffer.from('hunter2').toString('base64') });
        assert.equal(made.stringData, undefined);
        assert.equal(made.type, 'Opaque');
      });

      test('a pod gets its defaults, and its status is its own', async () => {
        const made = await core.createNamespacedPod({
          namespace,
          body: {
            metadata: { name: 'web', labels: { app: 'web' } },
            spec: {
              nodeName: 'no-such-node',
              containers: [{ name: 'web', image: 'nginx', ports: [{ containerPort: 80 }] }],
            },
            status: { phase: 'Failed' },
          },
        });
        assert.equal(made.status?.phase, 'Pending');
        assert.equal(made.spec?.restartPolicy, 'Always');
        assert.equal(made.spec?.dnsPolicy, 'ClusterFirst');
        assert.equal(made.spec?.terminationGracePeriodSeconds, 30);
        assert.equal(made.spec?.containers[0]?.imagePullPolicy, 'Always');
        assert.equal(made.spec?.containers[0]?.ports?.[0]?.protocol, 'TCP');
        const reported = await core.replaceNamespacedPodStatus({
          namespace,
          name: 'web',
          body: { ...made, spec: { containers: [] }, status: { phase: 'Running', podIP: '10.1.2.3' } },
        });
        assert.equal(reported.status?.phase, 'Running');
        assert.equal(reported.spec?.containers.length, 1);
        await core.deleteNamespacedPod({ namespace, name: 'web', gracePeriodSeconds: 0 });
        const { code } = await refusal(core.readNamespacedPod({ namespace, name: 'web' }));
        assert.equal(code, 404);
      });

      test('a pod without a container, or with two of one name, is 422', async () => {
        const pod = (containers: { name: string; image: string }[]) =>
          core.createNamespacedPod({ namespace, body: { metadata: { name: 'bad' }, spec: { containers } } });
        const none = await refusal(pod([]));
        assert.equal(none.code, 422);
        assert.match(none.status.message, /spec\.containers: Required value/);
        const two = await refusal(
          pod([
            { name: 'a', image: 'b' },
            { name: 'a', image: 'b' },
          ]),
        );
        assert.equal(two.code, 422);
        assert.match(two.status.message, /spec\.containers\[1\]\.name: Duplicate value: "a"/);
      });

      test('a node keeps the status it is created with', async () => {
        const name = `${namespace}-node`;
        cluster.removeLater('delete', 'node', name);
        const made = await core.createNode({
          body: { metadata: { name }, status: { capacity: { cpu: '4' } } },
        });
        assert.deepEqual(made.status?.capacity, { cpu: '4' });
        const path = `/api/v1/nodes/${name}/status`;
        const report = (capacity: object) =>
          cluster.raw(path, {
            method: 'PATCH',
            type: 'application/merge-patch+json',
            body: { status: { capacity } },
          });
        assert.equal((await report({ cpu: '8000m' })).json().status.capacity.cpu, '8');
        assert.ok([400, 422].includes((await report({ cpu: 'many' })).status));
      });

      test('an event is the same in both groups', async () => {
        const now = new Date();
        await core.createNamespacedEvent({
          namespace,
          body: {
            metadata: { name: 'it-happened' },
            involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'web', namespace },
            reason: 'Happened',
            message: 'it did',
            type: 'Normal',
            source: { component: 'suite' },
            firstTimestamp: now,
            lastTimestamp: now,
            count: 3,
          },
        });
        const seen = (
          await cluster.raw(`/apis/events.k8s.io/v1/namespaces/${namespace}/events/it-happened`)
        ).json();
        assert.equal(seen.apiVersion, 'events.k8s.io/v1');
        assert.equal(seen.regarding.name, 'web');
        assert.equal(seen.note, 'it did');
        assert.equal(seen.deprecatedCount, 3);
        assert.equal(seen.deprecatedSource.component, 'suite');
        const selected = await core.listNamespacedEvent({
          namespace,
          fieldSelector: 'involvedObject.name=web',
        });
        assert.ok(selected.items.some(({ metadata }) => metadata.name === 'it-happened'));
      });
    });
  });
}
