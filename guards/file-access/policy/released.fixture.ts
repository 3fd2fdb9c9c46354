/**
 * The state of a cluster with Kive v1.0.0-pre2: its definitions, and KiveData as its controllers write them.
 */
import type { KubeObject } from '../../../lib/kube/object/object.ts';

const group = 'kivebpf.san7o.github.io';
const text = { type: 'string' };
const texts = { type: 'object', additionalProperties: text };
const fields = (properties: object): object => ({ type: 'object', properties });
const list = (items: object): object => ({ type: 'array', items });

const trap = fields({
  path: text,
  create: { type: 'boolean' },
  mode: { type: 'integer', format: 'int32' },
  callback: text,
  metadata: texts,
  matchAny: list(fields({ pod: text, containerName: text, namespace: text, ip: text, matchLabels: texts })),
});
const specs = {
  kivepolicies: fields({ alertVersion: text, traps: list(trap) }),
  kivedata: fields({
    'inode-no': { type: 'integer', format: 'int64' },
    'dev-id': { type: 'integer', format: 'int32' },
    metadata: texts,
  }),
};

/** As they are installed: its manager converts, and puts its certificate there. */
const webhook = {
  strategy: 'Webhook',
  webhook: {
    clientConfig: {
      service: { name: 'kivebpf-webhook-service', namespace: 'kivebpf-system', path: '/convert' },
    },
    conversionReviewVersions: ['v1'],
  },
};

/**
 * The definitions, stored as v2alpha1.
 *
 * @param convertedBy `webhook`: with the stored version only, since the embedded API calls no webhooks.
 */
export function releasedDefinitions(convertedBy?: 'webhook'): KubeObject[] {
  return (['kivepolicies', 'kivedata'] as const).map((plural) => {
    const kind = plural === 'kivedata' ? 'KiveData' : 'KivePolicy';
    const schema = {
      openAPIV3Schema: fields({
        apiVersion: text,
        kind: text,
        metadata: { type: 'object' },
        spec: specs[plural],
      }),
    };
    const version = (name: string, storage: boolean): object => ({
      name,
      served: true,
      storage,
      schema,
      subresources: { status: {} },
    });
    return {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: `${plural}.${group}`,
        annotations: { 'controller-gen.kubebuilder.io/version': 'v0.16.1' },
      },
      spec: {
        ...(convertedBy && { conversion: webhook }),
        group,
        names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
        scope: 'Namespaced',
        versions: [...(convertedBy ? [] : [version('v1', false)]), version('v2alpha1', true)],
      },
    };
  });
}

/** For `/secret.txt` in the only container of `nginx-pod`. */
export function releasedData(of: {
  readonly kernelId: string;
  readonly nodeName: string;
  readonly containerId: string;
}): KubeObject & { readonly spec: object } {
  const { kernelId, nodeName, containerId } = of;
  return {
    apiVersion: `${group}/v2alpha1`,
    kind: 'KiveData',
    metadata: {
      name: `13667586-513-kive-data-nginx-pod-${containerId.replace(/.*\//, '')}`,
      namespace: 'kivebpf-system',
      annotations: {
        'kive-alert-version': '',
        'kive-policy-name': 'kive-sample-policy',
        callback: '',
        'pod-name': 'nginx-pod',
        namespace: 'default',
        'pod-ip': '10.0.0.9',
        path: '/secret.txt',
        'container-id': containerId,
        'container-name': 'nginx',
        'node-name': nodeName,
      },
      labels: {
        'trap-id': 'c4705ec263cc353100b6f18a129e32b67b79171bcb0c90b2731a7923ea4dcee',
        'kernel-id': kernelId,
      },
      finalizers: ['kivedata.kivebpf.san7o.github.io/finalizer'],
    },
    spec: { 'inode-no': 13667586, 'dev-id': 513, metadata: {} },
  };
}
