// Typical use of kubectl by a person.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { type Cluster } from './cluster.fixture.ts';

export function kubectlCases(opened: () => Cluster): void {
  describe('kubectl', () => {
    let cluster: Cluster;
    let namespace: string;
    before(async () => {
      cluster = opened();
      namespace = await cluster.namespace();
    });

    const kubectl = (...args: string[]): Promise<string> => cluster.kubectl(['-n', namespace, ...args]);
    const kubectlWith = (input: string, ...args: string[]): Promise<string> =>
      cluster.kubectl(['-n', namespace, ...args], input);

    const web = (image: string, replicas = 0): string => `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: ${replicas}
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: ${image}
          resources:
            requests: {cpu: 100m, memory: 64Mi}
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - port: 80
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
spec:
  podSelector:
    matchLabels: {app: web}
  ingress:
    - from:
        - podSelector: {}
      ports:
        - port: 80
          protocol: TCP
`;

    describe('existing objects', () => {
      test('version', async () => {
        assert.match(await cluster.kubectl(['version', '-o', 'json']), /"serverVersion"/);
      });

      test('api-resources: kinds, short names, verbs', async () => {
        const text = await cluster.kubectl(['api-resources', '-o', 'wide']);
        const line = (name: string): string =>
          text.split('\n').find((one) => one.startsWith(`${name} `)) ?? '';
        assert.match(line('pods'), /^pods +po +v1 +true +Pod +/);
        assert.match(line('namespaces'), /^namespaces +ns +v1 +false +Namespace +/);
        assert.match(line('deployments'), /^deployments +deploy +apps\/v1 +true +Deployment +/);
        assert.match(
          line('customresourcedefinitions'),
          /^customresourcedefinitions +crd,crds +apiextensions\.k8s\.io\/v1 +false/,
        );
        for (const verb of [
          'create',
          'delete',
          'deletecollection',
          'get',
          'list',
          'patch',
          'update',
          'watch',
        ]) {
          assert.ok(line('pods').includes(verb), verb);
        }
      });

      // The others are alike.
      for (const kind of sampled(
        [
          'namespaces',
          'nodes',
          'pods',
          'services',
          'endpoints',
          'endpointslices',
          'configmaps',
          'secrets',
          'events',
          'events.events.k8s.io',
          'serviceaccounts',
          'leases',
          'deployments',
          'daemonsets',
          'jobs',
          'cronjobs',
          'networkpolicies',
          'roles',
          'rolebindings',
          'clusterroles',
          'clusterrolebindings',
          'validatingadmissionpolicies',
          'validatingadmissionpolicybindings',
          'customresourcedefinitions',
        ],
        1,
      )) {
        test(`get ${kind}`, async () => {
          const { code, stderr } = await cluster.tryKubectl(['get', kind, '-A']);
          // Kinds without namespaces have no -A.
          if (code !== 0) assert.equal((await cluster.tryKubectl(['get', kind])).code, 0, stderr);
        });
      }

      deepTest('api-versions', async () => {
        const versions = (await cluster.kubectl(['api-versions'])).split('\n');
        for (const version of ['v1', 'apps/v1', 'batch/v1', 'networking.k8s.io/v1', 'events.k8s.io/v1']) {
          assert.ok(versions.includes(version), version);
        }
      });

      deepTest('explain', async () => {
        const text = await cluster.kubectl(['explain', 'pod.spec.containers']);
        assert.match(text, /image/);
        assert.match(text, /readinessProbe/);
        assert.match(await cluster.kubectl(['explain', 'deployment', '--recursive']), /matchLabels/);
      });
    });

    describe('apply', () => {
      test('creates, says unchanged, changes, and can be shown as a difference', async () => {
        const made = await kubectlWith(web('web:1'), 'apply', '-f', '-');
        assert.match(made, /deployment\.apps\/web created/);
        assert.match(made, /service\/web created/);
        assert.match(made, /networkpolicy\.networking\.k8s\.io\/web created/);
        const same = await kubectlWith(web('web:1'), 'apply', '-f', '-');
        assert.equal(same.split('\n').filter((line) => line.endsWith(' unchanged')).length, 3);
        const difference = await cluster.tryKubectl(['-n', namespace, 'diff', '-f', '-'], web('web:2'));
        assert.equal(difference.code, 1, difference.stderr);
        assert.match(difference.stdout, /^\+ +- image: web:2$/m);
        const changed = await kubectlWith(web('web:2'), 'apply', '-f', '-');
        assert.match(changed, /deployment\.apps\/web configured/);
        assert.equal(
          await kubectl('get', 'deploy', 'web', '-o', 'jsonpath={.spec.template.spec.containers[0].image}'),
          'web:2',
        );
      });

      deepTest('--server-side', async () => {
        const text = web('web:1').replaceAll('name: web\n', 'name: server-side\n');
        const made = await kubectlWith(text, 'apply', '--server-side', '-f', '-');
        assert.match(made, /deployment\.apps\/server-side serverside-applied/);
        const path = `/apis/apps/v1/namespaces/${namespace}/deployments/server-side`;
        const { managedFields } = JSON.parse(await kubectl('get', '--raw', path)).metadata;
        assert.equal(managedFields[0].operation, 'Apply');
      });

      test('--dry-run=server changes nothing', async () => {
        await kubectlWith(
          'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dry}\n',
          'apply',
          '--dry-run=server',
          '-f',
          '-',
        );
        assert.notEqual((await cluster.tryKubectl(['-n', namespace, 'get', 'cm', 'dry'])).code, 0);
      });

      test('a typing error is refused', async () => {
        const run = await cluster.tryKubectl(
          ['-n', namespace, 'apply', '-f', '-'],
          web('web:1').replace('replicas:', 'replicaz:'),
        );
        assert.notEqual(run.code, 0);
        assert.match(run.stderr, /replicaz/);
      });
    });

    describe('commands', () => {
      test('get: tables', async () => {
        await kubectlWith(
          'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: nowhere, containers: [{name: c, image: i}]}\n',
          'create',
          '-f',
          '-',
        );
        const [head = '', line = ''] = (await kubectl('get', 'pods')).split('\n');
        assert.match(head, /^NAME +READY +STATUS +RESTARTS +AGE$/);
        assert.match(line, /^p +0\/1 +Pending +0 +\S+$/);
        assert.match(
          (await kubectl('get', 'pods', '-o', 'wide')).split('\n')[0] ?? '',
          /NODE +NOMINATED NODE +READINESS GATES$/,
        );
        assert.match(
          (await kubectl('get', 'svc')).split('\n')[0] ?? '',
          /^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE$/,
        );
        assert.match(
          (await kubectl('get', 'deploy')).split('\n')[0] ?? '',
          /^NAME +READY +UP-TO-DATE +AVAILABLE +AGE$/,
        );
      });

      deepTest('label, annotate', async () => {
        await kubectl('create', 'configmap', 'marked', '--from-literal=a=1');
        await kubectl('label', 'cm', 'marked', 'tier=front');
        await kubectl('annotate', 'cm', 'marked', 'note=yes');
        assert.equal(await kubectl('get', 'cm', '-l', 'tier=front', '-o', 'name'), 'configmap/marked');
        assert.equal(
          await kubectl('get', 'cm', 'marked', '-o', 'jsonpath={.metadata.annotations.note}'),
          'yes',
        );
      });

      deepTest('patch, of all kinds', async () => {
        await kubectl('create', 'configmap', 'patched', '--from-literal=a=1');
        await kubectl('patch', 'cm', 'patched', '-p', '{"data":{"b":"2"}}');
        await kubectl('patch', 'cm', 'patched', '--type=merge', '-p', '{"data":{"c":"3"}}');
        await kubectl('patch', 'cm', 'patched', '--type=json', '-p', '[{"op":"remove","path":"/data/a"}]');
        assert.deepEqual(JSON.parse(await kubectl('get', 'cm', 'patched', '-o', 'jsonpath={.data}')), {
          b: '2',
          c: '3',
        });
      });

      deepTest('edit', async () => {
        await kubectl('create', 'configmap', 'edited', '--from-literal=a=before');
        const editor = cluster.file('editor.sh', '#!/bin/sh\nsed -i s/before/after/ "$1"\n');
        const { code, stderr } = await cluster.tryKubectl(['-n', namespace, 'edit', 'cm', 'edited'], '', {
          KUBE_EDITOR: `sh ${editor}`,
        });
        assert.equal(code, 0, stderr);
        assert.equal(await kubectl('get', 'cm', 'edited', '-o', 'jsonpath={.data.a}'), 'after');
      });

      deepTest('replace, scale, delete', async () => {
        await kubectl('create', 'deployment', 'scaled', '--image=web:1', '--replicas=0');
        await kubectl('scale', 'deployment', 'scaled', '--replicas=2', '--current-replicas=0');
        assert.equal(await kubectl('get', 'deploy', 'scaled', '-o', 'jsonpath={.spec.replicas}'), '2');
        await kubectl('set', 'image', 'deployment/scaled', 'web=web:3');
        const yaml = await kubectl('get', 'deploy', 'scaled', '-o', 'yaml');
        assert.match(yaml, /image: web:3/);
        await kubectlWith(yaml.replace('web:3', 'web:4'), 'replace', '-f', '-');
        assert.match(await kubectl('get', 'deploy', 'scaled', '-o', 'yaml'), /image: web:4/);
        await kubectl('delete', 'deployment', 'scaled', '--cascade=foreground', '--timeout=60s');
        assert.notEqual((await cluster.tryKubectl(['-n', namespace, 'get', 'deploy', 'scaled'])).code, 0);
      });

      deepTest('wait for a deletion', async () => {
        await kubectl('create', 'configmap', 'waited', '--from-literal=a=1');
        const finalizers = (value: unknown) =>
          kubectl(
            'patch',
            'cm',
            'waited',
            '--type=merge',
            '-p',
            JSON.stringify({ metadata: { finalizers: value } }),
          );
        await finalizers(['suite.example/hold']);
        await kubectl('delete', 'cm', 'waited', '--wait=false');
        const waiting = kubectl('wait', 'cm/waited', '--for=delete', '--timeout=30s');
        await delay(2000);
        await finalizers(null);
        await waiting;
      });

      test('describe shows events', async () => {
        const uid = await kubectl('get', 'pod', 'p', '-o', 'jsonpath={.metadata.uid}');
        await kubectlWith(
          JSON.stringify({
            apiVersion: 'v1',
            kind: 'Event',
            metadata: { name: 'p.1', namespace },
            involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'p', namespace, uid },
            reason: 'Tested',
            message: 'seen by describe',
            type: 'Normal',
            firstTimestamp: new Date().toISOString().replace(/\.\d+/, ''),
            lastTimestamp: new Date().toISOString().replace(/\.\d+/, ''),
            count: 1,
            source: { component: 'suite' },
          }),
          'create',
          '-f',
          '-',
        );
        assert.match(await kubectl('describe', 'pod', 'p'), /Tested .*seen by describe/);
        await kubectl('delete', 'pod', 'p', '--force', '--grace-period=0');
      });
    });
  });
}
