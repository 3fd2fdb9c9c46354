/**
 * The rights and mounts of deploy/ for the processes that run this guard. After a change: node
 * scripts/manifests.ts --write
 */
import { type GuardRights, type PodNeeds, right, systemNamespace } from '../../guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../guard/mounts.ts';
import { isLabelOfNode, labelOf, nameOf, node } from '../../guard/write-limits.ts';
import { bothGroups, names } from './api.ts';

const rbac = 'rbac.authorization.k8s.io';
// Repeated here, because importing the code would load too much for two names. A test runs both with these rights, so a
// difference is noticed.
const agentRole = 'rampart-agent-file-integrity';
const keySecretName = 'file-integrity-baseline-key';

const owned = (it: string): string =>
  `(${labelOf(it, names.ownerLabel)} != '' || has(${it}.metadata.ownerReferences) && ${it}.metadata.ownerReferences.exists(o, ` +
  `[${bothGroups.map(({ group }) => `'${group}'`).join(', ')}].exists(g, o.apiVersion.startsWith(g + '/'))))`;

export const rights: GuardRights = {
  agent: [
    ...bothGroups.map(({ group, integrities, nodeStatuses }) =>
      right(group, [integrities.plural, nodeStatuses.plural], ['list', 'watch'], {
        why: 'FileIntegrities and the state of this node. Results are written as ConfigMaps; see rampart-agent-file-integrity.',
      }),
    ),
    right('', ['nodes'], ['list', 'watch'], {
      why: 'Labels and taints of its node only, selected by metadata.name; RBAC cannot enforce that.',
    }),
  ],
  operator: [
    ...bothGroups.flatMap(({ group, integrities: { plural }, nodeStatuses }) => [
      right(group, [plural], ['get', 'list', 'watch', 'patch'], {
        why: 'patch: removes processed annotations.',
      }),
      right(group, [`${plural}/status`], ['patch']),
      right(group, [nodeStatuses.plural], ['get', 'list', 'watch', 'create', 'patch', 'update', 'delete']),
    ]),
    right('', ['nodes'], ['get', 'list', 'watch']),
    right('scheduling.k8s.io', ['priorityclasses'], ['get'], {
      why: 'To check whether the priorityClassName of a FileIntegrity exists.',
    }),
    right('', ['configmaps'], ['get', 'list', 'watch', 'create', 'update', 'delete'], {
      why: 'Configurations, which may be in any namespace, results of agents, and stored logs.',
    }),
    right('', ['secrets'], ['list', 'watch'], {
      resourceNames: [keySecretName],
      why: 'The baseline signing key: looked up by name and created. Its content is never read.',
    }),
    right('', ['secrets'], ['create']),
    right(rbac, ['rolebindings'], ['list', 'watch', 'delete'], {
      resourceNames: [agentRole],
      why: 'To grant agents this role, and no other, in namespaces with a FileIntegrity.',
    }),
    right(rbac, ['rolebindings'], ['create']),
    right(rbac, ['clusterroles'], ['bind'], { resourceNames: [agentRole] }),
    right('wgpolicyk8s.io', ['policyreports'], ['get', 'create', 'patch', 'delete'], {
      why: 'Reports with findings, of the kind that the cluster supports.',
    }),
    right('openreports.io', ['reports'], ['get', 'create', 'patch', 'delete']),
  ],
  viewer: [
    ...bothGroups.map(({ group, integrities, nodeStatuses }) =>
      right(group, [integrities.plural, nodeStatuses.plural], ['get', 'list', 'watch']),
    ),
  ],
  limits: {
    agent: [
      {
        ...{ group: '', resources: ['configmaps'] },
        // The name identifies a result even if a client removed its label.
        allows: (it) =>
          `${nameOf(it)}.startsWith('aide-') && (${isLabelOfNode(labelOf(it, names.nodeLabel))} || ` +
          `${labelOf(it, names.nodeLabel)} == '' && ${nameOf(it)}.endsWith('-' + ${node}))`,
        written: `${labelOf('object', names.ownerLabel)} != '' && ${labelOf('object', names.nodeLabel)} != ''`,
        what: 'results of file integrity of the node in its token',
      },
    ],
    operator: [
      {
        ...{ group: '', resources: ['configmaps'] },
        // ConfigMaps in the namespaces of Kubernetes may determine who is an administrator.
        allows: (it) => `!request.namespace.startsWith('kube-') && ${owned(it)}`,
        what: 'those of a FileIntegrity, outside of kube-*',
      },
      {
        ...{ group: '', resources: ['secrets'] },
        allows: (it) => `${nameOf(it)} == '${keySecretName}' && ${it}.type == 'Opaque'`,
        what: keySecretName,
      },
      {
        ...{ group: rbac, resources: ['rolebindings'] },
        allows: (it) => `${nameOf(it)} == '${agentRole}'`,
        written:
          `object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '${agentRole}' && object.subjects.all(s, ` +
          `s.kind == 'ServiceAccount' && s.name == 'rampart-agent' && s.namespace == '${systemNamespace}')`,
        what: `${agentRole} of the agents`,
      },
    ],
  },
  roles: [
    {
      name: agentRole,
      why: 'The operator binds it in each namespace with a FileIntegrity and removes the binding after the last one; in other namespaces agents have no access to ConfigMaps.',
      rules: [
        right('', ['configmaps'], ['list', 'watch', 'create', 'patch'], {
          why: 'list, watch: the configuration. create, patch: results for the operator, by server-side apply.',
        }),
        right('', ['secrets'], ['get'], { resourceNames: [keySecretName], why: 'The baseline signing key.' }),
      ],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    { name: 'BPF', why: 'Maps and programs, which identify the author of a change.' },
    { name: 'PERFMON', why: 'Tracing programs, and kprobes through perf_event_open(2).' },
    {
      name: 'SYS_PTRACE',
      why: '/proc/PID/ns/mnt of other processes: who entered the mounts of a container.',
    },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Files of the node that root could not read otherwise, such as /etc/shadow with mode 0000.',
    },
  ],
  hostPID: 'To look up the author of a change in /proc.',
  appArmorUnconfined:
    "The runtime's profile forbids access to processes of other profiles, whatever the capabilities.",
  mounts: [runtimeMount, btfMount, hostMount],
  args: ['--host-root=/hostroot', '--integrity-directory=/var/lib/rampart/integrity'],
};
