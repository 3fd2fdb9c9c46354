/** What `kubectl get` shows of Kubewarden's policies. */
import { ageColumn, type PrinterColumn } from '../../lib/kube/crd/resource.ts';

const annotation = (name: string, key: string): PrinterColumn => ({
  name,
  type: 'string',
  jsonPath: `.metadata.annotations['io\\.kubewarden\\.policy\\.${key}']`,
  priority: 1,
});

export const policyColumns: readonly PrinterColumn[] = [
  {
    name: 'Policy Server',
    type: 'string',
    jsonPath: '.spec.policyServer',
    description: 'Bound to Policy Server',
  },
  {
    name: 'Mutating',
    type: 'boolean',
    jsonPath: '.spec.mutating',
    description: 'Whether the policy is mutating',
  },
  {
    name: 'BackgroundAudit',
    type: 'boolean',
    jsonPath: '.spec.backgroundAudit',
    description: 'Whether the policy is used in audit checks',
  },
  { name: 'Mode', type: 'string', jsonPath: '.spec.mode', description: 'Policy deployment mode' },
  {
    name: 'Observed mode',
    type: 'string',
    jsonPath: '.status.mode',
    description: 'Policy deployment mode observed on the assigned Policy Server',
  },
  { name: 'Status', type: 'string', jsonPath: '.status.policyStatus', description: 'Status of the policy' },
  ageColumn,
  annotation('Severity', 'severity'),
  annotation('Category', 'category'),
];
