/** The permissions and mounts that deploy/ grants this guard. After a change: node scripts/manifests.ts --write */
import type { GuardRights, PodNeeds } from '../../guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../guard/mounts.ts';
import { group, nodeTypes, parentKinds } from './api.ts';

const apiGroups = [group];
const parents = parentKinds.map(({ type }) => type.plural);
const ofNodes = Object.values(nodeTypes).map(({ plural }) => plural);
const statusOf = (plural: string): string => `${plural}/status`;

export const rights: GuardRights = {
  agent: [
    { apiGroups, resources: parents, verbs: ['list', 'watch'], why: "The users' resources." },
    {
      apiGroups,
      resources: ofNodes,
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      why: 'Those of its node, by label; RBAC cannot restrict that. get: for a finalizer that others change too.',
    },
    { apiGroups, resources: ofNodes.map(statusOf), verbs: ['patch'] },
    {
      apiGroups,
      resources: parents.map((plural) => `${plural}/finalizers`),
      verbs: ['update'],
      why: 'Owner references that block the deletion of the owner (OwnerReferencesPermissionEnforcement).',
    },
    {
      apiGroups: [''],
      resources: ['pods', 'nodes'],
      verbs: ['list', 'watch'],
      why: 'Those of its node, by spec.nodeName and metadata.name; RBAC cannot restrict that.',
    },
    {
      apiGroups: [''],
      resources: ['secrets'],
      verbs: ['get'],
      inSystem: true,
      why: 'Pull secrets of cluster-scoped programs in this namespace; in others see rampart-bpf-pull-secrets.',
    },
  ],
  operator: [
    {
      apiGroups,
      resources: parents,
      verbs: ['get', 'list', 'watch', 'patch'],
      why: 'patch: the finalizer.',
    },
    { apiGroups, resources: parents.map(statusOf), verbs: ['patch'] },
    {
      apiGroups,
      resources: ofNodes,
      verbs: ['get', 'list', 'watch', 'patch', 'delete'],
      why: 'patch, delete: those of removed nodes.',
    },
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
  ],
  viewer: [{ apiGroups, resources: [...parents, ...ofNodes], verbs: ['get', 'list', 'watch'] }],
  roles: [
    {
      name: 'rampart-bpf-pull-secrets',
      why: "Pull secrets of another namespace. Not bound by default: the owner of a namespace binds it there to the agents' service account if programs name Secrets of it.",
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    {
      name: 'SYS_ADMIN',
      why: 'setns(2) into the network of a pod. Includes BPF and PERFMON: programs, maps, perf_event_open(2).',
    },
    { name: 'NET_ADMIN', why: 'Qdiscs and filters, to attach TC programs.' },
    { name: 'SYS_PTRACE', why: '/proc/PID/root and /proc/PID/ns/net of other processes.' },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Libraries and executables in container directories that root may not read otherwise.',
    },
  ],
  hostPID: "Access to containers' processes through /proc/PID.",
  hostNetwork: "Programs are attached to the node's interfaces.",
  appArmorUnconfined:
    "The runtime's profile forbids access to processes of other profiles, whatever the capabilities.",
  mounts: [
    runtimeMount,
    btfMount,
    hostMount,
    {
      name: 'bpffs',
      hostPath: '/sys/fs/bpf',
      mountPath: '/sys/fs/bpf',
      type: 'Directory',
      propagation: 'HostToContainer',
      why: "The node's own bpffs: programs stay pinned there while the agent is away.",
    },
    {
      name: 'tracefs',
      hostPath: '/sys/kernel/tracing',
      mountPath: '/sys/kernel/tracing',
      type: 'Directory',
      propagation: 'HostToContainer',
      why: 'Tracepoint IDs.',
    },
  ],
  args: ['--host-root=/hostroot'],
};
