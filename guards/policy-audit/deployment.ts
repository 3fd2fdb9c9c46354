/** The permissions that deploy/ grants this guard. After a change: node scripts/manifests.ts --write */
import { type GuardRights, right, systemNamespace } from '../../guard/guard.ts';
import { managedBy, managedByLabel } from '../../guard/managed-by.ts';
import { labelOf, nameOf, onlyMetadata } from '../../guard/write-limits.ts';
import { kubewardenTypes, policyExceptionType, policyGroup, policyServerType } from './api.ts';

const read = ['get', 'list', 'watch'] as const;
const apply = [...read, 'create', 'patch'] as const;
const policies = kubewardenTypes.map(({ plural }) => plural);
const kinds = [...policies, policyServerType.plural];
const reports = ['policyreports', 'clusterpolicyreports'];
const openReports = ['reports', 'clusterreports'];

const auditedCore = [
  ...['configmaps', 'endpoints', 'events', 'limitranges', 'namespaces', 'nodes', 'persistentvolumeclaims'],
  ...['persistentvolumes', 'pods', 'podtemplates', 'replicationcontrollers', 'resourcequotas'],
  ...['serviceaccounts', 'services'],
];
const auditedGroups = [
  ...[
    'admissionregistration.k8s.io',
    'apiextensions.k8s.io',
    'apiregistration.k8s.io',
    'apps',
    'autoscaling',
  ],
  ...['batch', 'certificates.k8s.io', 'coordination.k8s.io', 'discovery.k8s.io', 'events.k8s.io'],
  ...['flowcontrol.apiserver.k8s.io', 'networking.k8s.io', 'node.k8s.io', 'policy'],
  ...['rbac.authorization.k8s.io', 'resource.k8s.io', 'scheduling.k8s.io', 'storage.k8s.io'],
];

// A copy of names in the code, which would take long to load. A test runs the operator with the resulting permissions.
const webhookGroup = 'admissionregistration.k8s.io';
const inSystem = `request.namespace == '${systemNamespace}'`;
const ofServers = (it: string): string => `${inSystem} && ${nameOf(it)}.startsWith('policy-server-')`;
const isWebhook = (it: string): string =>
  `${labelOf(it, managedByLabel)} == '${managedBy}' && ${labelOf(it, 'kubewarden/policy-server')} != ''`;
const callsServer = `has(w.clientConfig.service) && w.clientConfig.service.namespace == '${systemNamespace}' && w.clientConfig.service.name.startsWith('policy-server-')`;
const changesLittle =
  `w.rules.all(r, r.apiGroups.all(g, !(g in ['*', 'rbac.authorization.k8s.io', 'certificates.k8s.io'])) && ` +
  `r.resources.all(s, !(s in ['*/*', '*/token', 'serviceaccounts/*', 'serviceaccounts/token'])))`;
const nameLabel = 'kubernetes.io/metadata.name';
const spared = `['${systemNamespace}', 'kube-system']`;
const leavesSystem =
  `(w.namespaceSelector.?matchExpressions.orValue([]).exists(e, e.key == '${nameLabel}' && e.operator == 'NotIn' && ${spared}.all(n, n in e.values)) || ` +
  `!(w.namespaceSelector.?matchLabels[?'${nameLabel}'].orValue('kube-system') in ${spared}))`;
const accounts = "['rampart-agent', 'rampart-operator', 'rampart-ui']";
const unprivileged = [
  ...['hostNetwork', 'hostPID', 'hostIPC'].map((field) => `!p.?${field}.orValue(false)`),
  ...['serviceAccountName', 'serviceAccount'].map((field) => `!(p.?${field}.orValue('') in ${accounts})`),
  'size(p.?initContainers.orValue([])) == 0',
  'p.?volumes.orValue([]).all(v, has(v.configMap) || has(v.secret) || has(v.emptyDir))',
  'p.containers.all(c, !c.?securityContext.?privileged.orValue(false) && size(c.?securityContext.?capabilities.?add.orValue([])) == 0)',
].join(' && ');

export const rights: GuardRights = {
  operator: [
    // Not `*`: that includes Secrets, and nodes/proxy, which allows running any command in any pod.
    right('', auditedCore, read, {
      why: 'Policies can apply to any kind; see also rampart-audit. Unreadable kinds are skipped, and rampart status names them.',
    }),
    { apiGroups: auditedGroups, resources: ['*'], verbs: read },
    right(policyGroup, kinds, read, { why: 'Always needed.' }),
    right(policyGroup, ['policyservers'], ['patch'], {
      why: 'With a finalizer, so that webhooks are removed before their server.',
    }),
    right(policyGroup, policies, ['patch'], {
      why: "Removes finalizers of Kubewarden's controller from deleted policies.",
    }),
    right(
      policyGroup,
      [...kinds.map((one) => `${one}/status`), 'policyservers/finalizers'],
      ['patch', 'update'],
    ),
    right(
      'admissionregistration.k8s.io',
      ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
      ['list', 'watch'],
      { why: 'They are audited too.' },
    ),
    right(
      'admissionregistration.k8s.io',
      ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
      [...apply, 'delete'],
      { why: 'One for each policy.' },
    ),
    right('authorization.k8s.io', ['subjectaccessreviews'], ['create'], {
      why: 'Policies check permissions: can_i, and authorizer in CEL.',
    }),
    right('wgpolicyk8s.io', reports, [...read, 'create', 'update', 'delete'], {
      why: 'Reports of the results.',
    }),
    right('openreports.io', openReports, [...read, 'create', 'update', 'delete']),
    right('rampart.dev', [policyExceptionType.plural], read, {
      why: 'Objects that policies do not apply to.',
    }),
    right('rampart.dev', [`${policyExceptionType.plural}/status`], ['patch', 'update']),
    right('', ['namespaces'], read),
    right('apiextensions.k8s.io', ['customresourcedefinitions'], ['list', 'watch'], {
      why: 'They determine which kinds are served.',
    }),
    right('apps', ['deployments'], apply, { inSystem: true, why: 'Policy servers.' }),
    right('', ['configmaps', 'services'], apply, {
      inSystem: true,
      why: 'The result of the last pass, for rampart status; policies and addresses of policy servers.',
    }),
    right('', ['secrets'], ['get', 'create', 'patch'], {
      inSystem: true,
      why: 'Certificates of policy servers, and the imagePullSecret that a PolicyServer names.',
    }),
    right('policy', ['poddisruptionbudgets'], [...apply, 'delete'], { inSystem: true }),
    right('', ['serviceaccounts/token'], ['create'], {
      inSystem: true,
      why: 'In audits, policies read the cluster as the service account of their PolicyServer.',
    }),
  ],
  roles: [
    {
      name: 'rampart-policy-exceptions',
      why: 'Who may except objects from policies. Not bound by default: by a RoleBinding in a namespace for the objects of that namespace, in rampart-system for all.',
      rules: [right('rampart.dev', [policyExceptionType.plural], [...apply, 'update', 'delete'])],
    },
    {
      name: 'rampart-audit',
      why: 'Custom resources that are audited: those of the role view, and what you add by ClusterRoles with the label rampart.dev/aggregate-to-audit.',
      rules: [],
      aggregates: ['rbac.authorization.k8s.io/aggregate-to-view', 'rampart.dev/aggregate-to-audit'],
      boundTo: 'operator',
    },
  ],
  limits: {
    operator: [
      onlyMetadata(policyGroup, kinds),
      {
        ...{ group: '', resources: ['secrets'] },
        allows: (it) => `${ofServers(it)} && ${it}.type in ['Opaque', 'kubernetes.io/tls']`,
        what: 'certificates of policy servers',
      },
      {
        ...{ group: '', resources: ['configmaps'] },
        allows: (it) => `${ofServers(it)} || ${inSystem} && ${nameOf(it)} == 'rampart-policy-audit'`,
        what: 'those of policy servers, and the result of the last pass',
      },
      {
        ...{ group: '', resources: ['services'] },
        allows: ofServers,
        written:
          "object.spec.type == 'ClusterIP' && !has(object.spec.externalIPs) && !has(object.spec.externalName)",
        what: 'those of policy servers, inside of the cluster',
      },
      {
        ...{ group: '', resources: ['serviceaccounts/token'] },
        written: `${inSystem} && !(request.name in ${accounts})`,
        what: 'those that PolicyServers may run as: not of Rampart itself',
      },
      {
        ...{ group: 'apps', resources: ['deployments'] },
        allows: ofServers,
        written: `[object.spec.template.spec].all(p, ${unprivileged})`,
        what: 'policy servers: neither privileged, nor with capabilities, node directories or namespaces, or the service accounts of Rampart',
      },
      {
        ...{ group: webhookGroup, resources: ['validatingwebhookconfigurations'] },
        allows: isWebhook,
        written: `object.webhooks.all(w, ${callsServer})`,
        what: 'webhooks that call policy servers',
      },
      {
        ...{ group: webhookGroup, resources: ['mutatingwebhookconfigurations'] },
        allows: isWebhook,
        written: `object.webhooks.all(w, ${callsServer} && ${changesLittle} && ${leavesSystem})`,
        what: 'webhooks that call policy servers and change neither rights nor tokens, nothing by apiGroups *, and nothing in kube-system',
      },
    ],
  },
  viewer: [
    right(policyGroup, kinds, read),
    right('rampart.dev', [policyExceptionType.plural], read),
    right('wgpolicyk8s.io', reports, read),
    right('openreports.io', openReports, read),
    right('', ['configmaps'], ['list'], { inSystem: true }),
  ],
};
