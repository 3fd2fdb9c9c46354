/**
 * The desired objects that the operator creates for a PolicyServer. Names and labels are Kubewarden's, so that tools find
 * them: its audit scanner finds the Service by `app.kubernetes.io/instance`. Pure.
 */
import { managedLabels } from '../../../guard/managed-by.ts';
import { hash } from 'node:crypto';

import {
  apiVersionOf,
  configMaps,
  deployments,
  type KubeObject,
  namespacedKind,
  type ResourceType,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { sourcesDocument } from '../modules/sources.ts';
import type { PolicyServer } from '../api.ts';
import { serverLabel } from '../server-label.ts';
import type { KeyAndCertificate } from '../../../lib/x509/certificate.ts';

/** An object to apply, and its resource. */
export interface Wanted {
  readonly type: ResourceType;
  readonly object: KubeObject;
}

/** Key in the server's ConfigMap. */
export const policiesKey = 'policies.yml';
const exceptionsKey = 'exceptions.yml';
/** Name of the port in the server's pods. */
export const readinessPort = 'readiness';
const servicePort = 443;
const defaultMetricsPort = 8080;

export const serviceType = namespacedKind('', 'services', 'Service');
export const budgetType = namespacedKind('policy', 'poddisruptionbudgets', 'PodDisruptionBudget');

export interface ServerParts {
  readonly server: PolicyServer;
  readonly namespace: string;
  /** As written by policies-entry.ts. */
  readonly policiesFile: string;
  /** As written by exception-set.ts. Default: none. */
  readonly exceptions?: string;
  readonly certificate: KeyAndCertificate;
  /** Rampart's image: replaces that of Kubewarden's own server. */
  readonly image: string;
}

/** The name of everything that belongs to a PolicyServer: `policy-server-default`. */
export function serverName({ metadata }: PolicyServer): string {
  return `policy-server-${metadata.name ?? ''}`;
}

/** The host names of its Service, for the API server and others. */
export function serverHosts(server: PolicyServer, namespace: string): string[] {
  const name = serverName(server);
  return [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`, `${name}.${namespace}`];
}

export function serviceReference(server: PolicyServer, namespace: string): object {
  return { name: serverName(server), namespace, port: servicePort };
}

/** The objects, in the order in which they are needed. */
export function serverObjects(parts: ServerParts): Wanted[] {
  const { server, certificate, policiesFile, exceptions = '[]' } = parts;
  const meta = metadataOf(parts);
  const configuration = {
    [policiesKey]: policiesFile,
    'sources.yml': JSON.stringify(sourcesDocument(server.spec)),
  };
  // A change of policies creates new pods, which are ready once they have loaded the policies: this is the only way to know when a policy
  // is active.
  const version = hash('sha256', JSON.stringify(configuration)).slice(0, 32);
  const { minAvailable, maxUnavailable } = server.spec;
  const ports = podPortsOf(server);
  return [
    {
      type: secrets,
      object: object(secrets, meta, {
        type: 'kubernetes.io/tls',
        data: {
          'tls.crt': Buffer.from(certificate.cert).toString('base64'),
          'tls.key': Buffer.from(certificate.key).toString('base64'),
        },
      }),
    },
    {
      type: configMaps,
      // Servers read the exceptions again when they change, without new pods.
      object: object(configMaps, meta, { data: { ...configuration, [exceptionsKey]: exceptions } }),
    },
    {
      type: serviceType,
      object: object(serviceType, meta, {
        spec: {
          type: 'ClusterIP',
          selector: { [serverLabel]: server.metadata.name ?? '' },
          ports: [
            { name: 'policy-server', port: servicePort, targetPort: ports.webhook, protocol: 'TCP' },
            {
              name: 'metrics',
              port: server.spec.metricsPort ?? defaultMetricsPort,
              targetPort: ports.metrics,
              protocol: 'TCP',
            },
          ],
        },
      }),
    },
    {
      type: deployments,
      object: object(
        deployments,
        { ...meta, labels: { ...server.spec.labels, ...meta.labels } },
        { spec: deploymentSpec(parts, version) },
      ),
    },
    ...(minAvailable === undefined && maxUnavailable === undefined
      ? []
      : [
          {
            type: budgetType,
            object: object(budgetType, meta, {
              spec: {
                selector: { matchLabels: { [serverLabel]: server.metadata.name ?? '' } },
                ...(minAvailable !== undefined && { minAvailable }),
                ...(maxUnavailable !== undefined && { maxUnavailable }),
              },
            }),
          },
        ]),
  ];
}

/** Whether the existing pods match the Deployment. */
export function isRolledOut(deployment: KubeObject): boolean {
  const { spec, status } = deployment as KubeObject & {
    readonly spec?: { readonly replicas?: number };
    readonly status?: {
      readonly observedGeneration?: number;
      readonly replicas?: number;
      readonly updatedReplicas?: number;
      readonly availableReplicas?: number;
    };
  };
  const wanted = spec?.replicas ?? 1;
  const { observedGeneration = 0, replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = status ?? {};
  return (
    observedGeneration >= (deployment.metadata.generation ?? 0) &&
    wanted > 0 &&
    updatedReplicas >= wanted &&
    replicas === updatedReplicas &&
    availableReplicas >= wanted
  );
}

/** Whether a pod answers webhooks. */
export function hasReadyPod(deployment: KubeObject): boolean {
  return readyPodsOf(deployment) > 0;
}

export function readyPodsOf(deployment: KubeObject): number {
  const { status } = deployment as KubeObject & { readonly status?: { readonly readyReplicas?: number } };
  return status?.readyReplicas ?? 0;
}

function metadataOf({ server, namespace }: ServerParts): KubeObject['metadata'] {
  const name = serverName(server);
  return {
    name,
    namespace,
    labels: labelsOf(server),
    ownerReferences: [
      {
        apiVersion: 'policies.kubewarden.io/v1',
        kind: 'PolicyServer',
        name: server.metadata.name ?? '',
        uid: server.metadata.uid ?? '',
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  };
}

function labelsOf(server: PolicyServer): Record<string, string> {
  return {
    [serverLabel]: server.metadata.name ?? '',
    app: `kubewarden-${serverName(server)}`,
    'app.kubernetes.io/instance': serverName(server),
    'app.kubernetes.io/component': 'policy-server',
    'app.kubernetes.io/part-of': 'kubewarden',
    ...managedLabels,
  };
}

/**
 * The ports of the server's pods. As in Kubewarden, `metricsPort` is only the port of the Service: two pods of a
 * node never share an address here.
 */
function podPortsOf({ spec }: PolicyServer) {
  const { webhookPort: webhook = 8443, readinessProbePort: readiness = 8081 } = spec;
  let metrics = defaultMetricsPort;
  while (metrics === webhook || metrics === readiness) metrics++;
  return { webhook, readiness, metrics };
}

const upstreamImage = /(?:^|\/)kubewarden\/(?:[^/]+\/)*policy-server(?:[:@]|$)/;

function deploymentSpec(parts: ServerParts, version: string): object {
  const { server } = parts;
  const { spec } = server;
  const { securityContexts } = spec;
  return {
    replicas: spec.replicas,
    selector: { matchLabels: { [serverLabel]: server.metadata.name ?? '' } },
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
    template: {
      metadata: {
        labels: { ...spec.labels, ...labelsOf(server) },
        annotations: { ...spec.annotations, 'rampart.dev/policies': version },
      },
      spec: {
        containers: [containerOf(parts)],
        ...(spec.serviceAccountName !== undefined && { serviceAccountName: spec.serviceAccountName }),
        securityContext: securityContexts?.pod ?? {
          runAsNonRoot: true,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        ...(spec.affinity && { affinity: spec.affinity }),
        ...(spec.tolerations && { tolerations: spec.tolerations }),
        ...(spec.priorityClassName !== undefined && { priorityClassName: spec.priorityClassName }),
        volumes: volumesOf(server),
      },
    },
  };
}

function containerOf({ server, image }: ServerParts): object {
  const { spec } = server;
  const { webhook, readiness, metrics } = podPortsOf(server);
  return {
    name: serverName(server),
    image: upstreamImage.test(spec.image) ? image : spec.image,
    args: ['policy-server', ...(metrics === defaultMetricsPort ? [] : ['--metrics', `0.0.0.0:${metrics}`])],
    // The user's variables come last, and override the others.
    env: [...environmentOf(server), ...(spec.env ?? [])],
    ports: [
      { name: 'policy-server', containerPort: webhook },
      { name: readinessPort, containerPort: readiness },
      { name: 'metrics', containerPort: metrics },
    ],
    readinessProbe: {
      httpGet: { path: '/readiness', port: readiness, scheme: 'HTTP' },
      // With the default of 10 s, a server that hangs would be noticed only after half a minute.
      periodSeconds: 2,
    },
    securityContext: spec.securityContexts?.container ?? {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      privileged: false,
      readOnlyRootFilesystem: true,
    },
    resources: resourcesOf(spec),
    volumeMounts: [
      { name: 'policies', mountPath: '/config', readOnly: true },
      { name: 'certificate', mountPath: '/pki', readOnly: true },
      { name: 'modules', mountPath: '/modules' },
      // Findings that wait for an OTLP receiver, if the user configures one by `env`.
      { name: 'findings', mountPath: '/var/lib/rampart' },
      ...givenFiles(spec).map(({ volume, mountPath }) => ({ name: volume.name, mountPath, readOnly: true })),
    ],
  };
}

/** Memory is limited unless the user sets a limit: the memory for reviews in flight and for policy threads is derived from it. */
function resourcesOf({ limits, requests }: PolicyServer['spec']): object {
  const memory = '1000Mi';
  if (limits === undefined && requests === undefined) {
    return { limits: { memory }, requests: { cpu: '20m', memory: '128Mi' } };
  }
  const isGiven = limits?.['memory'] !== undefined || requests?.['memory'] !== undefined;
  return { limits: { ...(!isGiven && { memory }), ...limits }, ...(requests && { requests }) };
}

/** Files of the server that the user may provide, and the variables that contain their paths. */
function givenFiles({ verificationConfig, sigstoreTrustConfig, imagePullSecret }: PolicyServer['spec']) {
  return [
    {
      given: verificationConfig,
      volume: { name: 'verification', configMap: { name: verificationConfig } },
      mountPath: '/verification',
      file: 'verification-config',
      variable: 'KUBEWARDEN_VERIFICATION_CONFIG_PATH',
    },
    {
      given: sigstoreTrustConfig,
      volume: { name: 'sigstore-trust-config', configMap: { name: sigstoreTrustConfig } },
      mountPath: '/sigstore-trust',
      file: 'sigstore-trust-config',
      variable: 'KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH',
    },
    {
      given: imagePullSecret,
      volume: { name: 'pull-secret', secret: { secretName: imagePullSecret } },
      mountPath: '/pull-secret',
      file: '.dockerconfigjson',
      variable: 'KUBEWARDEN_DOCKER_CONFIG_JSON_PATH',
    },
  ].filter(({ given }) => given !== undefined);
}

function environmentOf(server: PolicyServer): object[] {
  const { spec } = server;
  const { webhook, readiness } = podPortsOf(server);
  return Object.entries({
    KUBEWARDEN_CERT_FILE: '/pki/tls.crt',
    KUBEWARDEN_KEY_FILE: '/pki/tls.key',
    KUBEWARDEN_PORT: String(webhook),
    KUBEWARDEN_READINESS_PROBE_PORT: String(readiness),
    KUBEWARDEN_POLICIES: `/config/${policiesKey}`,
    KUBEWARDEN_EXCEPTIONS_PATH: `/config/${exceptionsKey}`,
    KUBEWARDEN_SOURCES_PATH: '/config/sources.yml',
    KUBEWARDEN_POLICIES_DOWNLOAD_DIR: '/modules',
    KUBEWARDEN_ENABLE_METRICS: 'true',
    // One policy that cannot run must not keep the others from running.
    KUBEWARDEN_CONTINUE_ON_ERRORS: 'true',
    ...Object.fromEntries(
      givenFiles(spec).map(({ variable, mountPath, file }) => [variable, `${mountPath}/${file}`]),
    ),
  }).map(([name, value]) => ({ name, value }));
}

function volumesOf(server: PolicyServer): object[] {
  const name = serverName(server);
  return [
    { name: 'policies', configMap: { name } },
    { name: 'certificate', secret: { secretName: name } },
    { name: 'modules', emptyDir: {} },
    { name: 'findings', emptyDir: { sizeLimit: '512Mi' } },
    ...givenFiles(server.spec).map(({ volume }) => volume),
  ];
}

function object(type: ResourceType, metadata: KubeObject['metadata'], more: object): KubeObject {
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata, ...more };
}
