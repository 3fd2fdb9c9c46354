import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { deploy } from '../../apps/agent/deploy.fixture.ts';
import { kustomize, type Manifest } from '../../scripts/kustomize.ts';
import { serverObjects } from '../../guards/policy-audit/cluster/server-objects.ts';

interface Selector {
  readonly matchLabels: Readonly<Record<string, string>>;
}

interface Workload {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly containers: readonly { readonly ports?: readonly { readonly name: string }[] }[];
      };
    };
  };
}

const manifests = kustomize(join(deploy, 'monitoring'));
const policyServer = serverObjects({
  server: { metadata: { name: 'default' }, spec: { image: 'x', replicas: 1 } },
  ...{ namespace: 'rampart-system', policiesFile: '', image: 'rampart', certificate: { key: '', cert: '' } },
}).map(({ object }) => object);
const pods = [...kustomize(deploy), ...policyServer]
  .filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment')
  .map((workload) => ({
    name: workload.metadata.name,
    template: (workload as unknown as Workload).spec.template,
  }));

function selected({ matchLabels }: Selector): typeof pods {
  return pods.filter(({ template }) =>
    Object.entries(matchLabels).every(([label, value]) => template.metadata.labels[label] === value),
  );
}

function portsOf({ template }: (typeof pods)[number]): readonly string[] {
  return template.spec.containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name));
}

suite('deploy/monitoring', () => {
  test('each kind of pod is scraped once, at a port that it has, as the job that alerting rules ask for', () => {
    const monitors = manifests.filter(({ kind }) => kind === 'PodMonitor') as unknown as {
      spec: {
        jobLabel: string;
        selector: Selector;
        podMetricsEndpoints: readonly { port: string; honorLabels: boolean }[];
      };
    }[];
    const found = monitors.flatMap(({ spec }) =>
      selected(spec.selector).map((pod) => {
        const [endpoint, ...more] = spec.podMetricsEndpoints;
        assert.ok(endpoint !== undefined && more.length === 0);
        assert.ok(portsOf(pod).includes(endpoint.port));
        // Metrics of a namespace or a pod are about that, not about the pod that serves them.
        assert.equal(endpoint.honorLabels, true);
        return [pod.name, pod.template.metadata.labels[spec.jobLabel]];
      }),
    );
    assert.deepEqual(found, [
      ['rampart-agent', 'rampart-agent'],
      ['rampart-operator', 'rampart-operator'],
      ['policy-server-default', 'policy-server'],
    ]);
  });

  test("the Service is the File Integrity Operator's, for the operator", () => {
    const service = manifests.find(({ kind }) => kind === 'Service') as unknown as Manifest & {
      spec: {
        selector: Readonly<Record<string, string>>;
        ports: readonly [{ name: string; targetPort: string }];
      };
    };
    assert.equal(service.metadata.name, 'metrics');
    assert.equal(service.metadata.labels?.['name'], 'file-integrity-operator');
    const [{ name, targetPort }] = service.spec.ports;
    assert.equal(name, 'metrics-fio');
    const [operator, ...others] = selected({ matchLabels: service.spec.selector });
    assert.deepEqual([operator?.name, others.length], ['rampart-operator', 0]);
    assert.ok(operator && portsOf(operator).includes(targetPort));
  });

  test('the dashboard fits into what kubectl writes down of an object', () => {
    const [map] = manifests.filter(({ kind }) => kind === 'ConfigMap') as unknown as { data: object }[];
    // The limit of all annotations of an object: kubectl apply keeps the last one there.
    assert.ok(JSON.stringify(map).length < 256 * 1024);
  });
});
