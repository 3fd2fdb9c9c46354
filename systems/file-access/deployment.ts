/**
 * What deploy/ gives to the processes that run this guard. After a change: node scripts/manifests.ts --write
 *
 * @module
 */
import type { GuardRights, PodNeeds } from '../../shared/guard/guard.ts';
import { btfMount, runtimeMount } from '../../shared/guard/mounts.ts';
import { kivePolicies } from './api.ts';

const group = [kivePolicies.group];

export const rights: GuardRights = {
  agent: [
    { apiGroups: group, resources: ['kivepolicies'], verbs: ['list', 'watch'] },
    {
      apiGroups: group,
      resources: ['kivepolicies/status'],
      verbs: ['patch'],
      why: 'What this node has to say of a policy, by server-side apply.',
    },
    {
      apiGroups: [''],
      resources: ['pods'],
      verbs: ['list', 'watch'],
      why: 'Those of its node: it asks with spec.nodeName, which RBAC cannot demand.',
    },
    {
      apiGroups: group,
      resources: ['kivedata'],
      inSystem: true,
      verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'],
    },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      inSystem: true,
      verbs: ['get', 'create', 'update'],
      why: 'One named after each kernel.',
    },
    {
      apiGroups: [''],
      resources: ['secrets'],
      verbs: ['get'],
      inSystem: true,
      why: 'For the callbacks of policies in this namespace, and of --callback-secret: by name, when there is an alert to send.',
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
      inSystem: true,
      verbs: ['get', 'list', 'watch', 'patch', 'delete'],
    },
  ],
  viewer: [
    { apiGroups: group, resources: ['kivepolicies'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: [''],
      resources: ['pods'],
      verbs: ['list'],
      why: 'Which nodes have pods that a policy is for.',
    },
    { apiGroups: group, resources: ['kivedata'], verbs: ['get', 'list', 'watch'], inSystem: true },
  ],
  roles: [
    {
      name: 'rampart-callback-secrets',
      why: 'Secrets of another namespace for callbacks. Bound nowhere: who owns the namespace binds it there, if its policies name Secrets.',
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }],
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [
    { name: 'BPF', why: 'Maps and programs.' },
    { name: 'PERFMON', why: 'Tracing programs, and kprobes by perf_event_open(2).' },
    { name: 'SYS_PTRACE', why: "/proc/PID/root, /proc/PID/ns/mnt, /proc/PID/cwd of others' processes." },
    {
      name: 'DAC_READ_SEARCH',
      why: 'Files below directories of containers that are closed to root without it.',
    },
  ],
  hostPID: 'The processes of the containers are looked into by /proc/PID/root.',
  appArmorUnconfined:
    "The runtime's profile forbids looking into processes of other profiles, whatever the capabilities.",
  mounts: [runtimeMount, btfMount],
  args: ['--spool=/var/lib/rampart/spool'],
};
