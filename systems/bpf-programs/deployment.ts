/**
 * What deploy/ gives to this guard. After a change: node scripts/manifests.ts --write
 *
 * @module
 */
import type { GuardRights, PodNeeds } from '../../shared/guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../shared/guard/mounts.ts';
import { group, nodeTypes, parentKinds } from './api.ts';

const apiGroups = [group];
const parents = parentKinds.map(({ type }) => type.plural);
const ofNodes = Object.values(nodeTypes).map(({ plural }) => plural);
const statusOf = (plural: string): string => `${plural}/status`;

export const rights: GuardRights = {
  agent: [
    { apiGroups, resources: parents, verbs: ['list', 'watch'], why: 'What is asked for.' },
    {
      apiGroups,
      resources: ofNodes,
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      why: 'Those of its node: it asks with their label, which RBAC cannot demand. get: a finalizer that others change too.',
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
      why: 'Those of its node: it asks with spec.nodeName and metadata.name, which RBAC cannot demand.',
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
      why: 'patch, delete: those of nodes that are gone.',
    },
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
  ],
  viewer: [{ apiGroups, resources: [...parents, ...ofNodes], verbs: ['get', 'list', 'watch'] }],
  roles: [
    {
      name: 'rampart-bpf-pull-secrets',
      why: "Pull secrets of another namespace. Bound nowhere: who owns the namespace binds it there to the agents' service account, if programs name Secrets of it.",
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    {
      name: 'SYS_ADMIN',
      why: 'setns(2) into the network of a pod. It has what BPF and PERFMON have: programs, maps, perf_event_open(2).',
    },
    { name: 'NET_ADMIN', why: 'Qdiscs and filters, which TC programs are attached by.' },
    { name: 'SYS_PTRACE', why: "/proc/PID/root and /proc/PID/ns/net of others' processes." },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Libraries and executables below directories of containers that are closed to root without it.',
    },
  ],
  hostPID: 'The processes of containers are looked into by /proc/PID.',
  hostNetwork: "Programs are attached to the node's interfaces.",
  appArmorUnconfined:
    "The runtime's profile forbids looking into processes of other profiles, whatever the capabilities.",
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
      why: 'The ids of tracepoints.',
    },
  ],
  args: ['--host-root=/hostroot'],
};
