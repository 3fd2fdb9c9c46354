import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { parse } from 'yaml';

import { compileSchema } from '../../lib/apiserver/schema/compiled-schema.ts';
import { crdManifest, type CrdManifest } from '../../lib/kube/crd/manifest.ts';
import {
  bothGroups,
  designFileIntegrities,
  designNodeStatuses,
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  releasedFileIntegrities,
  releasedNodeStatuses,
  scheduleOf,
} from './api.ts';

/** A committed manifest: the one that a cluster gets. */
function committed(plural: string): CrdManifest {
  const file = join(import.meta.dirname, '../../deploy/guards/file-integrity/crd', `${plural}.yaml`);
  return parse(readFileSync(file, 'utf8')) as CrdManifest;
}

/** A server's treatment of an object: dropped fields, errors, and the stored result. */
function take<T>(plural: string, yaml: string) {
  const schema = compileSchema(committed(plural).spec.versions[0]?.schema.openAPIV3Schema);
  const stored = parse(yaml) as object;
  const pruned = schema.prune(stored);
  schema.applyDefaults(stored);
  return { pruned, errors: schema.validate(stored), stored: stored as T };
}

/** Manifests from FIO's documentation and tests. */
const manifests = {
  sample: `
apiVersion: GROUP/v1alpha1
kind: FileIntegrity
metadata:
  name: example-fileintegrity
  namespace: openshift-file-integrity
spec:
  config: {}
`,
  documented: `
apiVersion: GROUP/v1alpha1
kind: FileIntegrity
metadata:
  name: worker-fileintegrity
  namespace: openshift-file-integrity
spec:
  nodeSelector:
    node-role.kubernetes.io/worker: ""
  tolerations:
  - key: "myNode"
    operator: "Exists"
    effect: "NoSchedule"
  config:
    name: "myconfig"
    namespace: "openshift-file-integrity"
    key: "config"
    gracePeriod: 20
    maxBackups: 5
    initialDelay: 60
  debug: false
`,
  impatient: `
apiVersion: GROUP/v1alpha1
kind: FileIntegrity
metadata:
  name: quick
spec:
  config: { gracePeriod: 5, maxBackups: -1 }
  priorityClassName: system-node-critical
  debug: true
`,
  design: `
apiVersion: GROUP/v1alpha1
kind: FileIntegrity
metadata:
  name: example-fileintegrity
spec:
  config:
    name: user-conf
    namespace: openshift-file-integrity
    key: conf
status:
  nodeStatus:
  - condition: Succeeded
    lastProbeTime: "2020-02-05T21:08:38Z"
    nodeName: ip-10-0-166-163.ec2.internal
  - condition: Succeeded
    lastProbeTime: "2020-02-05T21:08:39Z"
    nodeName: ip-10-0-143-91.ec2.internal
  - condition: Failed
    lastProbeTime: "2020-02-06T16:53:08Z"
    nodeName: ip-10-0-143-91.ec2.internal
    resultConfigMapName: aide-ds-ip-10-0-143-91.ec2.internal-failed
    resultConfigMapNamespace: openshift-file-integrity
`,
};

const nodeStatus = `
apiVersion: GROUP/v1alpha1
kind: FileIntegrityNodeStatus
metadata:
  name: example-fileintegrity-ip-10-0-130-192.ec2.internal
  namespace: openshift-file-integrity
nodeName: ip-10-0-130-192.ec2.internal
results:
- condition: Succeeded
  lastProbeTime: "2020-07-15T14:09:36Z"
- condition: Errored
  errorMessage: IO error
  lastProbeTime: "2020-07-15T14:10:12Z"
- condition: Failed
  filesAdded: 1
  filesChanged: 1
  filesRemoved: 2
  lastProbeTime: "2020-07-15T14:12:04Z"
  resultConfigMapName: aide-example-fileintegrity-ip-10-0-130-192.ec2.internal-failed
  resultConfigMapNamespace: openshift-file-integrity
lastResult:
  condition: Failed
  filesAdded: 1
  filesChanged: 1
  filesRemoved: 2
  lastProbeTime: "2020-07-15T14:12:04Z"
  resultConfigMapName: aide-example-fileintegrity-ip-10-0-130-192.ec2.internal-failed
  resultConfigMapNamespace: openshift-file-integrity
`;

suite('FileIntegrity and FileIntegrityNodeStatus', () => {
  for (const { group, integrities, nodeStatuses } of bothGroups) {
    for (const [name, text] of Object.entries(manifests)) {
      test(`reads the ${name} manifest unchanged in ${group}`, () => {
        const taken = take(integrities.plural, text.replace('GROUP', group));
        assert.deepEqual(taken.pruned, []);
        assert.deepEqual(taken.errors, []);
      });
    }

    test(`reads the status that FIO writes of a node in ${group}`, () => {
      const yaml = nodeStatus.replace('GROUP', group);
      const taken = take<FileIntegrityNodeStatus>(nodeStatuses.plural, yaml);
      assert.deepEqual(taken.pruned, []);
      assert.deepEqual(taken.errors, []);
      assert.deepEqual(taken.stored, parse(yaml));
    });
  }

  test('defaults are those of the File Integrity Operator, with the native provider', () => {
    const { stored } = take<FileIntegrity>('fileintegrities', manifests.sample);
    assert.deepEqual(stored.spec, {
      config: { gracePeriod: 900, maxBackups: 5 },
      provider: 'native',
      tolerations: ['master', 'infra'].map((role) => ({
        effect: 'NoSchedule',
        key: `node-role.kubernetes.io/${role}`,
        operator: 'Exists',
      })),
    });
  });

  test('corrects senseless values of a schedule instead of refusing them', () => {
    const of = (yaml: string) => scheduleOf(take<FileIntegrity>('fileintegrities', yaml).stored.spec);
    assert.deepEqual(of(manifests.sample), { gracePeriodS: 900, initialDelayS: 0, maxBackups: 5 });
    assert.deepEqual(of(manifests.documented), { gracePeriodS: 20, initialDelayS: 60, maxBackups: 5 });
    assert.deepEqual(of(manifests.impatient), { gracePeriodS: 10, initialDelayS: 0, maxBackups: 0 });
  });

  test('a manifest without spec.config, and one with another provider, are refused', () => {
    const without = manifests.sample.replace('  config: {}', '  debug: true');
    const other = `${manifests.sample}  provider: tripwire\n`;
    for (const yaml of [without, other]) {
      assert.notDeepEqual(take('fileintegrities', yaml).errors, []);
    }
  });

  test('both groups have one schema', () => {
    const versions = (of: Parameters<typeof crdManifest>[0]) => crdManifest(of).spec.versions;
    assert.deepEqual(versions(designFileIntegrities), versions(releasedFileIntegrities));
    assert.deepEqual(versions(designNodeStatuses), versions(releasedNodeStatuses));
  });

  test('an integrity has its result in the status, a node status at the top, as in FIO', () => {
    const [integrity, node] = [releasedFileIntegrities, releasedNodeStatuses].map(
      (of) => crdManifest(of).spec.versions[0],
    );
    assert.deepEqual(integrity?.['subresources'], { status: {} });
    assert.equal(node?.['subresources'], undefined);
    const columns = (node?.['additionalPrinterColumns'] ?? []) as { name: string; priority?: number }[];
    const shown = columns.filter(({ priority = 0 }) => priority === 0);
    assert.deepEqual(
      shown.map(({ name }) => name),
      ['Node', 'Status'],
    );
  });
});
