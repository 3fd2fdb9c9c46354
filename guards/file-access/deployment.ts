/**
 * The rights and mounts of deploy/ for the processes that run this guard. After a change: node
 * scripts/manifests.ts --write
 */
import { type GuardRights, type PodNeeds, right, systemNamespace } from '../../guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../guard/mounts.ts';
import { annotationOf, nameOf, node, onlyMetadata, sameSpec } from '../../guard/write-limits.ts';
import { kiveDataNamespace, kivePolicies } from './api.ts';

const { group } = kivePolicies;
const dataWhy = `They are in ${kiveDataNamespace}, which does not exist before the operator runs; a Role needs its namespace.`;

export const rights: GuardRights = {
  agent: [
    right(group, ['kivepolicies'], ['list', 'watch']),
    right(group, ['kivenodestatuses'], ['get', 'create', 'patch', 'delete'], {
      why: `What this node reports on policies, with server-side apply. ${dataWhy}`,
    }),
    right('', ['nodes'], ['get'], { why: 'The owner of that report is its node.' }),
    right('', ['pods'], ['list', 'watch'], {
      why: 'Only those of its node, selected by spec.nodeName; RBAC cannot enforce that.',
    }),
    right(group, ['kivedata'], ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'], {
      why: dataWhy,
    }),
    right('coordination.k8s.io', ['leases'], ['list', 'watch'], {
      inSystem: true,
      why: 'Only that of its kernel, selected by its name; another agent on the kernel writes there that it is asked for.',
    }),
  ],
  operator: [
    right(group, ['kivepolicies'], ['get', 'list', 'watch', 'patch'], { why: 'patch: the finalizer.' }),
    right(group, ['kivepolicies/status'], ['patch']),
    right('', ['pods', 'nodes'], ['get', 'list', 'watch']),
    right(group, ['kivedata'], ['get', 'list', 'watch', 'patch', 'delete'], { why: dataWhy }),
    right(group, ['kivenodestatuses'], ['list', 'watch', 'delete'], { why: dataWhy }),
    right('', ['namespaces'], ['list', 'watch'], {
      resourceNames: [kiveDataNamespace],
      why: 'It creates the namespace of KiveData, and again after it was deleted.',
    }),
    right('', ['namespaces'], ['create']),
  ],
  viewer: [
    right(group, ['kivepolicies'], ['get', 'list', 'watch']),
    right('', ['pods'], ['list'], { why: 'To find nodes with pods that a policy matches.' }),
    right(group, ['kivedata', 'kivenodestatuses'], ['get', 'list', 'watch']),
  ],
  limits: {
    agent: [
      {
        ...{ group, resources: ['kivedata'] },
        allows: (it) => `${annotationOf(it, 'node-name')} == ${node}`,
        what: 'that of the node in its token',
      },
      {
        ...{ group, resources: ['kivedata'] },
        // The loader of a kernel, whichever node it runs on, removes its finalizer once it no longer watches the file.
        allows: () => "request.operation == 'UPDATE'",
        written: `has(oldObject.metadata.deletionTimestamp) && ${sameSpec}`,
        what: 'finalizers of what is being deleted',
      },
      {
        ...{ group, resources: ['kivenodestatuses'] },
        allows: (it) => `${nameOf(it)} == ${node}`,
        what: 'that of the node in its token',
      },
    ],
    operator: [
      onlyMetadata(group, ['kivepolicies', 'kivedata']),
      {
        ...{ group: '', resources: ['namespaces'] },
        allows: (it) => `${nameOf(it)} in ['${kiveDataNamespace}', '${systemNamespace}']`,
        what: kiveDataNamespace,
      },
    ],
  },
  roles: [
    {
      name: 'rampart-callback-secrets',
      why: 'Secrets for callbacks. Not bound by default: the owner of a namespace binds this role there if policies in it name Secrets.',
      rules: [right('', ['secrets'], ['get'])],
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
      why: 'Files of containers and of the node that root could not read otherwise.',
    },
  ],
  hostPID: 'Access to the files of containers through /proc/PID/root.',
  appArmorUnconfined:
    "The runtime's profile forbids access to processes of other profiles, whatever the capabilities.",
  mounts: [runtimeMount, btfMount, hostMount],
  args: ['--host-root=/hostroot', '--spool=/var/lib/rampart/spool'],
};
