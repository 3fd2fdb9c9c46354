/**
 * deploy/monitoring/: what the Prometheus operator and Grafana make of Rampart. Alerting rules and the dashboard follow from the
 * descriptors of guards, and from what each process registers.
 */
import { stringify } from 'yaml';

import { alertingRules as ofProcesses } from '../apps/alerting-rules.ts';
import type { AlertingRule } from '../guard/alerting-rule.ts';
import { type Guard, systemNamespace } from '../guard/guard.ts';
import { managedLabels } from '../guard/managed-by.ts';
import { dashboard } from './dashboard.ts';

/** Where the other files of deploy/monitoring/ are. */
export const monitoringDirectory = 'deploy/monitoring';
const dashboardFile = 'dashboard.json';

/** Rules that are evaluated together, by who has declared them. */
export interface RuleGroup {
  readonly name: string;
  readonly rules: readonly AlertingRule[];
}

export async function ruleGroups(guards: readonly Guard[]): Promise<readonly RuleGroup[]> {
  const ofGuards = await Promise.all(
    guards.map(async ({ name, alertingRules }) => ({
      name: `rampart-${name}`,
      rules: (await alertingRules?.()) ?? [],
    })),
  );
  return [{ name: 'rampart', rules: ofProcesses }, ...ofGuards].filter(({ rules }) => rules.length > 0);
}

/** As a file of Prometheus has them: `groups`. */
export function prometheusRules(groups: readonly RuleGroup[]): object {
  return {
    groups: groups.map(({ name, rules }) => ({
      name,
      rules: rules.map(({ name: alert, expr, for: holds, severity, labels, ...texts }) => ({
        alert,
        expr,
        ...(holds !== undefined && { for: holds }),
        labels: { severity, ...labels },
        annotations: annotationsOf(texts),
      })),
    })),
  };
}

export function annotationsOf({
  summary,
  what,
  why,
  next,
}: Pick<AlertingRule, 'summary' | 'what' | 'why' | 'next'>): Record<string, string> {
  return { summary, description: what, why, next };
}

/** The text of each file, by its name in {@link monitoringDirectory}. */
export async function monitoringFiles(guards: readonly Guard[]): Promise<Map<string, string>> {
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'rampart', namespace: systemNamespace },
    spec: prometheusRules(await ruleGroups(guards)),
  };
  return new Map([
    ['kustomization.yaml', made('scripts/monitoring.ts') + kustomization],
    ['prometheusrule.yaml', made('apps/alerting-rules.ts and guards/*/alerting-rules.ts') + yaml(rule)],
    ['podmonitors.yaml', made('scripts/monitoring.ts') + podMonitors.map(yaml).join('---\n')],
    [dashboardFile, JSON.stringify(await dashboard(guards))],
    ['service.yaml', made('scripts/monitoring.ts') + service],
  ]);
}

const kustomization = `# For clusters with the Prometheus operator: PodMonitors, alerting rules, and a dashboard, which Grafana's sidecar finds by its label.
# docs/monitoring.md says what else there is, and how to do without the operator.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels:
  - pairs:
      app.kubernetes.io/part-of: rampart
resources:
  - podmonitors.yaml
  - prometheusrule.yaml
  - service.yaml
configMapGenerator:
  - name: rampart-dashboard
    namespace: ${systemNamespace}
    files:
      - ${dashboardFile}
    options:
      disableNameSuffixHash: true
      labels:
        grafana_dashboard: '1'
`;

/** Metrics have labels of their own, `namespace` and `pod` of what they are about: these stay (`honorLabels`). */
const podMonitors = [
  podMonitor('rampart-agent', { 'app.kubernetes.io/name': 'rampart-agent' }, 'app.kubernetes.io/name'),
  podMonitor('rampart-operator', { 'app.kubernetes.io/name': 'rampart-operator' }, 'app.kubernetes.io/name'),
  podMonitor(
    'rampart-policy-server',
    { 'app.kubernetes.io/component': 'policy-server', ...managedLabels },
    'app.kubernetes.io/component',
  ),
];

/** @param jobLabel - Its value is the label `job`, which alerting rules ask for. */
function podMonitor(name: string, matchLabels: Readonly<Record<string, string>>, jobLabel: string): object {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PodMonitor',
    metadata: { name, namespace: systemNamespace },
    spec: {
      jobLabel,
      selector: { matchLabels },
      podMetricsEndpoints: [
        {
          port: 'metrics',
          honorLabels: true,
          relabelings: [{ sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' }],
        },
      ],
    },
  };
}

const service = `# As the File Integrity Operator has it, for a ServiceMonitor of its own: docs/moving.md.
apiVersion: v1
kind: Service
metadata:
  name: metrics
  namespace: ${systemNamespace}
  labels:
    name: file-integrity-operator
spec:
  selector:
    app.kubernetes.io/name: rampart-operator
  ports:
    - name: metrics-fio
      port: 8585
      targetPort: metrics
      protocol: TCP
`;

function made(from: string): string {
  return `# Made from ${from} by \`node scripts/manifests.ts --write\`. Change it there.\n`;
}

function yaml(document: object): string {
  return stringify(document, { lineWidth: 0, aliasDuplicateObjects: false });
}
