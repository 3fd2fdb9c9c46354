/**
 * The state of a cluster with the File Integrity Operator: its definitions (controller-gen v0.13.0, of its
 * main branch), and the objects as users and its controllers write them.
 */
import { createHash } from 'node:crypto';

import type { ConfigMap, KubeObject } from '../../lib/kube/object/object.ts';
import { names } from '../../guards/file-integrity/api.ts';
import { namespace } from './integrity-cluster.fixture.ts';

const group = 'fileintegrity.openshift.io';
const apiVersion = `${group}/v1alpha1`;
const text = { type: 'string' };
const integer = { type: 'integer' };
const fields = (properties: object, required?: readonly string[]): object => ({
  type: 'object',
  properties,
  ...(required && { required }),
});
const list = (items: object): object => ({ type: 'array', items });
const onRole = (role: string): object => ({
  effect: 'NoSchedule',
  key: `node-role.kubernetes.io/${role}`,
  operator: 'Exists',
});

const integrity = fields({
  apiVersion: text,
  kind: text,
  metadata: { type: 'object' },
  spec: fields(
    {
      config: fields({
        gracePeriod: { ...integer, default: 900 },
        initialDelay: integer,
        key: text,
        maxBackups: { ...integer, default: 5 },
        name: text,
        namespace: text,
      }),
      debug: { type: 'boolean' },
      nodeSelector: { type: 'object', additionalProperties: text },
      tolerations: {
        ...list(
          fields({
            effect: text,
            key: text,
            operator: text,
            tolerationSeconds: { ...integer, format: 'int64' },
            value: text,
          }),
        ),
        default: [onRole('master'), onRole('infra')],
      },
    },
    ['config'],
  ),
  status: fields({ phase: text }),
});

const scanResult = fields(
  {
    condition: text,
    errorMessage: text,
    filesAdded: integer,
    filesChanged: integer,
    filesRemoved: integer,
    lastProbeTime: { ...text, format: 'date-time' },
    resultConfigMapName: text,
    resultConfigMapNamespace: text,
  },
  ['condition', 'lastProbeTime'],
);
const nodeStatus = fields(
  {
    apiVersion: text,
    kind: text,
    lastResult: scanResult,
    metadata: { type: 'object' },
    nodeName: text,
    results: list(scanResult),
  },
  ['lastResult', 'nodeName', 'results'],
);

function definition(kind: string, plural: string, openAPIV3Schema: object, more: object): KubeObject {
  const version = { name: 'v1alpha1', served: true, storage: true, schema: { openAPIV3Schema }, ...more };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${group}`,
      annotations: { 'controller-gen.kubebuilder.io/version': 'v0.13.0' },
    },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
      scope: 'Namespaced',
      versions: [version],
    },
  } as KubeObject;
}

export const releasedDefinitions: readonly KubeObject[] = [
  definition('FileIntegrity', 'fileintegrities', integrity, { subresources: { status: {} } }),
  definition('FileIntegrityNodeStatus', 'fileintegritynodestatuses', nodeStatus, {
    additionalPrinterColumns: [
      { jsonPath: '.nodeName', name: 'Node', type: 'string' },
      { jsonPath: '.lastResult.condition', name: 'Status', type: 'string' },
    ],
    subresources: {},
  }),
];

export function configMap(
  name: string,
  data: Readonly<Record<string, string>>,
  metadata: object = {},
): ConfigMap {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace, ...metadata }, data };
}

/** As controllerutil.SetControllerReference writes it. */
function ownedBy({ metadata: { name = '', uid = '' } }: KubeObject): object {
  const owner = { apiVersion, kind: 'FileIntegrity', name, uid };
  return { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }] };
}

const container = { name: 'daemon', image: 'file-integrity-operator' };
const podsOf = (app: string): object => ({
  selector: { matchLabels: { app } },
  template: { metadata: { labels: { app } }, spec: { containers: [container] } },
});

/** The operator, and what it has of its own beside any FileIntegrity. */
export const releasedOperator: readonly KubeObject[] = [
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'file-integrity-operator', namespace },
    spec: podsOf('file-integrity-operator'),
  } as KubeObject,
  configMap('aide-reinit', { 'aide.sh': '#!/bin/sh\n  touch /hostroot/etc/kubernetes/aide.reinit\n' }),
  configMap('aide-pause', { 'pause.sh': '#!/bin/sh\n  while true; do sleep 60; done\n' }),
];

/**
 * For a FileIntegrity: its DaemonSet, and the configuration that its pods mount, with paths in `/hostroot`.
 */
export function releasedParts(of: KubeObject, aideConf: string): KubeObject[] {
  const name = of.metadata.name ?? '';
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: `aide-${name}`, namespace, labels: { [names.ownerLabel]: name }, ...ownedBy(of) },
      spec: podsOf(`aide-${name}`),
    } as KubeObject,
    configMap(name, { 'aide.conf': aideConf }, { labels: { [names.aideConfLabel]: '' } }),
  ];
}

/** The results of a node whose last one, of now, its log collector has written and the operator has not taken yet. */
export function releasedResults(of: KubeObject, node: string, probed: string): KubeObject[] {
  const name = of.metadata.name ?? '';
  const labels = { [names.ownerLabel]: name, [names.nodeLabel]: node };
  const annotations = { [names.filesAdded]: '0', [names.filesChanged]: '1', [names.filesRemoved]: '0' };
  const failed = {
    condition: 'Failed',
    lastProbeTime: probed,
    resultConfigMapName: `aide-${name}-${node}-failed`,
    resultConfigMapNamespace: namespace,
    filesChanged: 1,
  };
  return [
    {
      apiVersion,
      kind: 'FileIntegrityNodeStatus',
      metadata: {
        name: `${name}-${node}`,
        namespace,
        labels: { [names.ownerLabel]: name },
        ...ownedBy(of),
      },
      nodeName: node,
      results: [{ condition: 'Succeeded', lastProbeTime: '2024-01-01T00:00:00Z' }, failed],
      lastResult: failed,
    } as KubeObject,
    configMap(
      `aide-${name}-${node}-failed`,
      { integritylog: aideLog('/hostroot/etc/old') },
      { labels: { ...labels, [names.resultLogLabel]: '' }, annotations },
    ),
    configMap(
      `aide-${name}-${node}`,
      { integritylog: aideLog('/hostroot/etc/older') },
      { labels: { ...labels, [names.logLabel]: '' }, annotations },
    ),
  ];
}

function aideLog(path: string): string {
  const digest = createHash('sha512').update(path).digest('base64');
  return `Start timestamp: 2024-01-02 00:00:00 +0000 (AIDE 0.16)
AIDE found differences between database and filesystem!!

Summary:
  Total number of entries:\t2
  Added entries:\t\t0
  Removed entries:\t\t0
  Changed entries:\t\t1

Changed entries:

f   ...    .C... : ${path}

Detailed information about changes:

File: ${path}
  SHA512   : ${digest}
`;
}
