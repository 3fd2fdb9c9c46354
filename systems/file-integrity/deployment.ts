/**
 * What deploy/ gives to the processes that run this guard. After a change: node scripts/manifests.ts --write
 *
 * @module
 */
import type { GuardRights, PodNeeds } from '../../shared/guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../shared/guard/mounts.ts';
import {
  designFileIntegrities,
  designNodeStatuses,
  releasedFileIntegrities,
  releasedNodeStatuses,
} from './api.ts';

const bothGroups = [
  [releasedFileIntegrities, releasedNodeStatuses],
  [designFileIntegrities, designNodeStatuses],
] as const;
const rbac = ['rbac.authorization.k8s.io'];
// As the code has them, which would be much to load for the sake of two names: a test runs both with these rights.
const agentRole = 'rampart-agent-file-integrity';
const keySecretName = 'file-integrity-baseline-key';

export const rights: GuardRights = {
  agent: [
    ...bothGroups.map(([integrities, statuses]) => ({
      apiGroups: [integrities.group],
      resources: [integrities.plural, statuses.plural],
      verbs: ['list', 'watch'],
      why: 'What is asked for, and of this node; results are written as ConfigMaps, see rampart-agent-file-integrity.',
    })),
    {
      apiGroups: [''],
      resources: ['nodes'],
      verbs: ['list', 'watch'],
      why: 'Labels and taints of its node: it asks with metadata.name, and RBAC cannot demand another name of each.',
    },
  ],
  operator: [
    ...bothGroups.flatMap(([{ group, plural }, statuses]) => [
      {
        apiGroups: [group],
        resources: [plural],
        verbs: ['get', 'list', 'watch', 'patch'],
        why: 'patch: annotations that are done.',
      },
      { apiGroups: [group], resources: [`${plural}/status`], verbs: ['patch'] },
      {
        apiGroups: [group],
        resources: [statuses.plural],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'update', 'delete'],
      },
    ]),
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: ['scheduling.k8s.io'],
      resources: ['priorityclasses'],
      verbs: ['get'],
      why: 'Whether the priorityClassName of a FileIntegrity is there.',
    },
    {
      apiGroups: [''],
      resources: ['configmaps'],
      verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
      why: 'Configurations, which users may have in any namespace, results of agents, logs that are kept.',
    },
    {
      apiGroups: [''],
      resources: ['secrets'],
      resourceNames: [keySecretName],
      verbs: ['list', 'watch'],
      why: 'The key that baselines are signed with: seen by its name, and made. Its content is not asked for again.',
    },
    { apiGroups: [''], resources: ['secrets'], verbs: ['create'] },
    {
      apiGroups: rbac,
      resources: ['rolebindings'],
      resourceNames: [agentRole],
      verbs: ['list', 'watch', 'delete'],
      why: "The agents' rights in namespaces with a FileIntegrity: this role, and no other.",
    },
    { apiGroups: rbac, resources: ['rolebindings'], verbs: ['create'] },
    { apiGroups: rbac, resources: ['clusterroles'], resourceNames: [agentRole], verbs: ['bind'] },
    {
      apiGroups: ['wgpolicyk8s.io'],
      resources: ['policyreports'],
      verbs: ['get', 'create', 'patch', 'delete'],
      why: 'Findings as reports, of the kind that the cluster has.',
    },
    {
      apiGroups: ['openreports.io'],
      resources: ['reports'],
      verbs: ['get', 'create', 'patch', 'delete'],
    },
  ],
  viewer: [
    ...bothGroups.map(([integrities, statuses]) => ({
      apiGroups: [integrities.group],
      resources: [integrities.plural, statuses.plural],
      verbs: ['get', 'list', 'watch'],
    })),
  ],
  roles: [
    {
      name: agentRole,
      why: 'The operator binds it in each namespace with a FileIntegrity, and takes the binding away after the last: in other namespaces agents have no right to ConfigMaps.',
      rules: [
        {
          apiGroups: [''],
          resources: ['configmaps'],
          verbs: ['list', 'watch', 'create', 'patch'],
          why: 'list, watch: the configuration. create, patch: a result, by server-side apply; the operator takes it.',
        },
        {
          apiGroups: [''],
          resources: ['secrets'],
          resourceNames: [keySecretName],
          verbs: ['get'],
          why: 'What baselines are signed with.',
        },
      ],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    { name: 'BPF', why: 'Maps and programs, which say who made a change.' },
    { name: 'PERFMON', why: 'Tracing programs, and kprobes by perf_event_open(2).' },
    { name: 'SYS_PTRACE', why: "/proc/PID/ns/mnt of others' processes: which container made a change." },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Files of the node that are closed to root without it, such as /etc/shadow of mode 0000.',
    },
  ],
  hostPID: 'The processes that made a change are looked up in /proc.',
  appArmorUnconfined:
    "The runtime's profile forbids looking into processes of other profiles, whatever the capabilities.",
  mounts: [runtimeMount, btfMount, hostMount],
  args: ['--host-root=/hostroot', '--integrity-directory=/var/lib/rampart/integrity'],
};
