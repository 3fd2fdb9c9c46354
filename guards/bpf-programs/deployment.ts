/** The permissions and mounts that deploy/ grants this guard. After a change: node scripts/manifests.ts --write */
import { type GuardRights, type PodNeeds, right } from '../../guard/guard.ts';
import { btfMount, hostMount, runtimeMount } from '../../guard/mounts.ts';
import { isLabelOfNode, labelOf, onlyMetadata } from '../../guard/write-limits.ts';
import { allNodeTypes, configType, type ParentKind, parentKinds } from './api.ts';
import { group } from './group.ts';

/** Each plural once: the two kinds of BpfApplication share theirs. */
const parents = [...new Set(parentKinds.map(({ type }) => type.plural))];
const ofNodes = allNodeTypes.map(({ plural }) => plural);
const statusOf = (plural: string): string => `${plural}/status`;

export const rights: GuardRights = {
  agent: [
    right(group, parents, ['list', 'watch'], { why: "The users' resources." }),
    right(group, ofNodes, ['get', 'list', 'watch', 'create', 'patch', 'delete'], {
      why: 'Those of its node, by label; RBAC cannot restrict that. get: for a finalizer that others change too.',
    }),
    right(group, ofNodes.map(statusOf), ['patch']),
    right(
      group,
      parents.map((plural) => `${plural}/finalizers`),
      ['update'],
      {
        why: 'Owner references that block the deletion of the owner (OwnerReferencesPermissionEnforcement).',
      },
    ),
    right('', ['pods', 'nodes'], ['list', 'watch'], {
      why: 'Those of its node, by spec.nodeName and metadata.name; RBAC cannot restrict that.',
    }),
  ],
  operator: [
    right(group, parents, ['get', 'list', 'watch', 'patch'], { why: 'patch: the finalizer.' }),
    right(group, parents.map(statusOf), ['patch']),
    right(group, ofNodes, ['get', 'list', 'watch', 'patch', 'delete'], {
      why: 'patch, delete: those of removed nodes.',
    }),
    right(group, [configType.plural], ['list', 'watch']),
    right(group, [statusOf(configType.plural)], ['patch'], { why: 'To say that it is not used.' }),
    right('', ['nodes'], ['get', 'list', 'watch']),
  ],
  viewer: [right(group, [...parents, ...ofNodes], ['get', 'list', 'watch'])],
  limits: {
    agent: [
      {
        ...{ group, resources: [...ofNodes, ...ofNodes.map(statusOf)] },
        allows: (it) => isLabelOfNode(labelOf(it, 'kubernetes.io/hostname')),
        what: 'those of the node in its token',
      },
    ],
    // With a right to create objects, whoever has the token could run a program in the kernels of all nodes.
    operator: [onlyMetadata(group, [...parents, ...ofNodes])],
  },
  roles: [
    {
      name: 'rampart-bpf-pull-secrets',
      why: "Pull secrets. Not bound by default: the owner of a namespace binds it there to the agents' service account if programs name Secrets of it.",
      rules: [right('', ['secrets'], ['get'])],
    },
    ...parentKinds.filter(({ api }) => api === 'v0.6').flatMap(applicationRoles),
  ],
};

/** Roles that bpfman ships, with the same names: applications that read their own State object bind the viewer role. */
function applicationRoles({
  type: { plural, kind },
  nodeType,
}: ParentKind): NonNullable<GuardRights['roles']> {
  const state = nodeType.plural;
  const reading = right(group, [plural, statusOf(plural), state, statusOf(state)], ['get', 'list', 'watch']);
  const name = `bpfman-${kind.toLowerCase()}`;
  return [
    { name: `${name}-viewer-role`, why: `Reads ${kind} objects.`, rules: [reading] },
    {
      name: `${name}-editor-role`,
      why: `Writes ${kind} objects.`,
      rules: [reading, right(group, [plural], ['create', 'delete', 'patch', 'update'])],
    },
  ];
}

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
