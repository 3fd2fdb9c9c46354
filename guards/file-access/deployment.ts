/**
 * What deploy/ gives to the processes that run this guard. After a change: node scripts/manifests.ts --write
 */
import type { GuardRights, PodNeeds } from '../../guard/guard.ts';
import { btfMount, runtimeMount } from '../../guard/mounts.ts';
import { kiveDataNamespace, kivePolicies } from './api.ts';

const group = [kivePolicies.group];
const dataWhy = `They are in ${kiveDataNamespace}, which does not exist before the operator runs; a Role needs its namespace.`;

export const rights: GuardRights = {
  agent: [
    { apiGroups: group, resources: ['kivepolicies'], verbs: ['list', 'watch'] },
    {
      apiGroups: group,
      resources: ['kivepolicies/status'],
      verbs: ['patch'],
      why: 'The status of this node, with server-side apply.',
    },
    {
      apiGroups: [''],
      resources: ['pods'],
      verbs: ['list', 'watch'],
      why: 'Only those of its node, selected by spec.nodeName; RBAC cannot enforce that.',
    },
    {
      apiGroups: group,
      resources: ['kivedata'],
      verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'],
      why: dataWhy,
    },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      verbs: ['list', 'watch'],
      inSystem: true,
      why: 'Only that of its kernel, selected by its name; another agent on the kernel writes there that it is asked for.',
    },
    {
      apiGroups: [''],
      resources: ['secrets'],
      verbs: ['get'],
      inSystem: true,
      why: 'Credentials for callbacks of policies in this namespace and for --callback-secret; read by name when an alert is sent.',
    },
  ],
  operator: [
    {
      apiGroups: group,
      resources: ['kivepolicies'],
      verbs: ['get', 'list', 'watch', 'patch'],
      why: 'patch: the finalizer.',
    },
    { apiGroups: group, resources: ['kivepolicies/status'], verbs: ['patch'] },
    { apiGroups: [''], resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: group,
      resources: ['kivedata'],
      verbs: ['get', 'list', 'watch', 'patch', 'delete'],
      why: dataWhy,
    },
    {
      apiGroups: [''],
      resources: ['namespaces'],
      resourceNames: [kiveDataNamespace],
      verbs: ['list', 'watch'],
      why: 'It creates the namespace of KiveData, and again after it was deleted.',
    },
    { apiGroups: [''], resources: ['namespaces'], verbs: ['create'] },
  ],
  viewer: [
    { apiGroups: group, resources: ['kivepolicies'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: [''],
      resources: ['pods'],
      verbs: ['list'],
      why: 'To find nodes with pods that a policy matches.',
    },
    { apiGroups: group, resources: ['kivedata'], verbs: ['get', 'list', 'watch'] },
  ],
  roles: [
    {
      name: 'rampart-callback-secrets',
      why: 'Secrets for callbacks in other namespaces. Not bound by default: the owner of a namespace binds this role there if policies in it name Secrets.',
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    { name: 'BPF', why: 'Maps and programs.' },
    { name: 'PERFMON', why: 'Tracing programs, and kprobes through perf_event_open(2).' },
    { name: 'SYS_PTRACE', why: '/proc/PID/root, /proc/PID/ns/mnt and /proc/PID/cwd of other processes.' },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Files in container directories that root could not read otherwise.',
    },
  ],
  hostPID: 'Access to the files of containers through /proc/PID/root.',
  appArmorUnconfined:
    "The runtime's profile forbids access to processes of other profiles, whatever the capabilities.",
  mounts: [runtimeMount, btfMount],
  args: ['--spool=/var/lib/rampart/spool'],
};
