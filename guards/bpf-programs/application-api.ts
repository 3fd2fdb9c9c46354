/** The kinds of bpfman-operator v0.6 that v0.5.5 (api.ts) does not have. */
import { ageColumn, type Resource } from '../../lib/kube/crd/resource.ts';
import { object, optional } from '../../lib/kube/crd/schema.ts';
import { applicationFields } from './application-schema.ts';
import { configFields } from './config-schema.ts';
import { inGroup, status, statusColumn } from './group.ts';
import type { Scope } from './schema-parts.ts';
import { stateFields } from './state-schema.ts';

export const applicationKinds = { Cluster: 'ClusterBpfApplication', Namespaced: 'BpfApplication' } as const;

export function defineApplication(scope: Scope): Resource {
  const where = scope === 'Cluster' ? '' : ' in pods of its namespace';
  return inGroup(applicationKinds[scope], scope, {
    description: `eBPF programs from one object file, and the links that attach them${where}.`,
    fields: {
      spec: object(applicationFields(scope), { description: 'The desired state.' }),
      status,
    },
    columns: [
      // Upstream misspells the jsonPath, so its column is always empty.
      { name: 'NodeSelector', type: 'string', jsonPath: '.spec.nodeSelector' },
      statusColumn,
      ageColumn,
    ],
  });
}

export function defineState(scope: Scope): Resource {
  const kind = applicationKinds[scope];
  return inGroup(`${kind}State`, scope, {
    description: `What became of a ${kind} on one node. Written by the agents.`,
    fields: { status: optional(object(stateFields(scope))) },
    columns: [{ name: 'Node', type: 'string', jsonPath: '.status.node' }, statusColumn, ageColumn],
  });
}

export function defineConfig(): Resource {
  return inGroup('Config', 'Cluster', {
    description: 'How bpfman-operator installs bpfman. Rampart does not use it.',
    fields: configFields,
    columns: [ageColumn],
  });
}
