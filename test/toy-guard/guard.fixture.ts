/**
 * A guard that is not of the product: each node greets the name of each Door, and the operator counts the doors. All that the
 * program does for it follows from this folder.
 */
import { defineGuard } from '../../guard/guard.ts';
import { text } from '../../guard/option-values.ts';
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import { defineResource, type ObjectOf, resourceType } from '../../lib/kube/crd/resource.ts';
import { integer, object, optional, string } from '../../lib/kube/crd/schema.ts';
import { doorCommand } from './commands/command.fixture.ts';

export const doors = defineResource({
  group: 'toys.example.com',
  kind: 'Door',
  plural: 'doors',
  scope: 'Namespaced',
  versions: {
    v1: {
      fields: {
        spec: object({ greeting: string() }),
        status: optional(object({ seen: optional(integer()), conditions: optional(conditionList()) })),
      },
    },
  },
});
export type Door = ObjectOf<typeof doors>;
export const doorType = resourceType(doors, 'v1');

const group = { apiGroups: ['toys.example.com'], resources: ['doors'] };

export interface DoorWatchOptions {
  readonly greeter: string;
}

export const doorWatch = defineGuard<DoorWatchOptions>({
  name: 'door-watch',
  summary: 'greets whoever a Door names',
  resources: [doors],
  guarded: [doorType],
  commands: [{ create: doorCommand, example: ['door list', 'list the doors and their greetings'] }],
  options: [
    {
      flags: '--door-greeter <name>',
      description: 'who greets; broken: nobody can here',
      on: ['agent', 'standalone'],
      default: 'toy',
    },
  ],
  parse: (values) => ({ greeter: text(values, 'doorGreeter') }),
  directory: { name: 'doors', flags: '--door-directory <dir>', description: 'where greetings are kept' },
  rights: {
    agent: [{ ...group, verbs: ['list', 'watch'], why: 'Which doors there are.' }],
    operator: [
      { ...group, verbs: ['list', 'watch'] },
      { apiGroups: group.apiGroups, resources: ['doors/status'], verbs: ['patch'] },
    ],
    viewer: [{ ...group, verbs: ['get', 'list', 'watch'] }],
  },
  pod: { capabilities: [{ name: 'SYS_NICE', why: 'Greetings are to be quick.' }] },
  health: [
    { on: 'node', name: 'doors', what: 'doors are listed' },
    { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
    { on: 'cluster', name: 'doors', what: 'doors are listed' },
  ],
  metrics: async () => ({
    node: (await import('./node/run.fixture.ts')).registerDoorMetrics,
  }),
  node: async () => (await import('./node/run.fixture.ts')).doorWatchNode,
  cluster: async () => (await import('./cluster/run.fixture.ts')).doorWatchCluster,
  status: async () => (await import('./views.fixture.ts')).doorStatus,
  lines: async () => (await import('./views.fixture.ts')).doorLines,
});
