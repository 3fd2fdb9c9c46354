/**
 * Examples that make each alerting rule fire, and similar ones that do not. Values are those of `promtool
 * test rules` (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/), one each
 * minute: `0+2x10` is 0, 2, ..., 20. Time begins at 0, the Unix epoch.
 */
export interface Example {
  /** By series: its values. */
  readonly series: Readonly<Record<string, string>>;
  /** When it is looked at, in minutes. */
  readonly at: number;
}

interface Fires extends Example {
  /** Labels of the alert, besides those that the rule sets. */
  readonly labels: Readonly<Record<string, string>>;
}

export interface Examples {
  readonly fires: readonly [Fires, ...Fires[]];
  readonly quiet: readonly [Example, ...Example[]];
}

const agent = { job: 'rampart-agent', node: 'n1', instance: '10.0.0.1:9464' };
const operator = { job: 'rampart-operator' };
const days = 24 * 60;

/** `name{labels}` */
function series(name: string, labels: Readonly<Record<string, string>>): string {
  return `${name}{${Object.entries(labels)
    .map(([label, value]) => `${label}="${value}"`)
    .join(',')}}`;
}

/** A counter that fires as soon as it grows. */
function grows(name: string, labels: Readonly<Record<string, string>> = { node: 'n1' }): Examples {
  return {
    fires: [{ series: { [series(name, labels)]: '5x10 6x10' }, at: 12, labels }],
    quiet: [{ series: { [series(name, labels)]: '5x30' }, at: 12 }],
  };
}

/** A gauge that is `bad` for `minutes`. */
function stays(
  name: string,
  { bad, good, minutes }: { readonly bad: number; readonly good: number; readonly minutes: number },
  labels: Readonly<Record<string, string>> = { node: 'n1' },
): Examples {
  const one = series(name, labels);
  return {
    fires: [{ series: { [one]: `${bad}x120` }, at: minutes, labels }],
    quiet: [
      { series: { [one]: `${good}x120` }, at: 100 },
      { series: { [one]: `${bad}x120` }, at: minutes - 1 },
    ],
  };
}

/** A counter of an action that is retried until it succeeds: one failure does not count. */
function fails(name: string): Examples {
  const one = series(name, { node: 'n1' });
  return {
    fires: [{ series: { [one]: '0+6x30' }, at: 10, labels: { node: 'n1' } }],
    quiet: [
      { series: { [one]: '0x5 2x30' }, at: 10 },
      { series: { [one]: '0+6x30' }, at: 4 },
    ],
  };
}

function refused(namespace: string): string {
  return series('rampart_network_policy_refused_packets_total', {
    ...{ node: 'n1', namespace, pod: 'web', direction: 'ingress' },
  });
}

const integrity = { node: 'n1', file_integrity: 'openshift-file-integrity/all' };
const server = { policy_server: 'default' };
const active = series('kubewarden_policy_total', {
  ...server,
  policy_status: 'active',
  name: 'clusterwide-a',
});

export const examples: Readonly<Record<string, Examples>> = {
  RampartAgentDown: {
    fires: [
      { series: { [series('up', agent)]: '1x5 0x10' }, at: 12, labels: agent },
      { series: { [series('up', operator)]: '1x20' }, at: 6, labels: {} },
      {
        series: { [series('up', { job: 'rampart-standalone', node: 'host' })]: '0x10' },
        at: 6,
        labels: { job: 'rampart-standalone', node: 'host' },
      },
    ],
    quiet: [
      { series: { [series('up', agent)]: '1x20' }, at: 12 },
      // It is restarted.
      { series: { [series('up', agent)]: '1x5 0x2 1x10' }, at: 12 },
    ],
  },
  RampartAgentNotReady: stays('rampart_agent_ready', { bad: 0, good: 1, minutes: 10 }),
  RampartGuardNotRunning: stays(
    'rampart_guard_running',
    { bad: 0, good: 1, minutes: 10 },
    { node: 'n1', guard: 'file-access', part: 'node' },
  ),
  RampartOperatorDown: {
    fires: [
      { series: { [series('up', agent)]: '1x20' }, at: 6, labels: {} },
      { series: { [series('up', agent)]: '1x20', [series('up', operator)]: '0x20' }, at: 6, labels: {} },
    ],
    quiet: [
      { series: { [series('up', agent)]: '1x20', [series('up', operator)]: '1x20' }, at: 10 },
      // One of two.
      {
        series: {
          [series('up', agent)]: '1x20',
          [series('up', { ...operator, pod: 'a' })]: '0x20',
          [series('up', { ...operator, pod: 'b' })]: '1x20',
        },
        at: 10,
      },
      { series: { [series('up', { job: 'rampart-standalone' })]: '1x20' }, at: 10 },
    ],
  },
  RampartFindingsDropped: grows('rampart_alert_lines_dropped_total'),
  RampartOtlpStuck: {
    fires: [
      {
        series: { [series('rampart_otlp_queue_oldest_seconds', agent)]: '0+60x60' },
        at: 20,
        labels: agent,
      },
    ],
    quiet: [{ series: { [series('rampart_otlp_queue_oldest_seconds', agent)]: '5x60' }, at: 20 }],
  },
  RampartOtlpLost: {
    fires: [
      ...grows('rampart_otlp_refused_total', { ...agent, reason: 'full' }).fires,
      ...grows('rampart_otlp_dropped_total', { ...agent, reason: 'rejected' }).fires,
    ],
    quiet: grows('rampart_otlp_refused_total', { ...agent, reason: 'full' }).quiet,
  },

  RampartAccessesLost: grows('rampart_file_access_lost_total', { node: 'n1', reason: 'ring_full' }),
  RampartTrapsNotWatched: stays('rampart_file_access_refused', { bad: 3, good: 0, minutes: 10 }),
  RampartCallbackStuck: {
    fires: [
      {
        series: {
          [series('rampart_callback_queue_oldest_seconds', { node: 'n1', callback: 'https://x#1' })]:
            '0+60x60',
        },
        at: 20,
        labels: { node: 'n1', callback: 'https://x#1' },
      },
    ],
    quiet: [
      {
        series: {
          [series('rampart_callback_queue_oldest_seconds', { node: 'n1', callback: 'https://x#1' })]: '5x60',
        },
        at: 20,
      },
    ],
  },
  RampartCallbackLost: {
    fires: [
      ...grows('rampart_callback_refused_total', { node: 'n1', reason: 'full' }).fires,
      ...grows('rampart_callback_dropped_total', { node: 'n1', reason: 'disk' }).fires,
    ],
    quiet: grows('rampart_callback_refused_total', { node: 'n1', reason: 'full' }).quiet,
  },

  NodeHasIntegrityFailure: {
    fires: [
      {
        // Two operators: the one that led before has forgotten it.
        series: {
          [series('file_integrity_operator_node_failed', { node: 'n1', pod: 'a' })]: '0x5 1x5',
          [series('file_integrity_operator_node_failed', { node: 'n2', pod: 'a' })]: '0x10',
        },
        at: 7,
        labels: { node: 'n1' },
      },
    ],
    quiet: [
      { series: { [series('file_integrity_operator_node_failed', { node: 'n1' })]: '0x10' }, at: 7 },
      { series: { file_integrity_operator_node_failed: '1x10' }, at: 7 },
    ],
  },
  RampartIntegrityErrored: stays(
    'rampart_file_integrity_errored',
    { bad: 1, good: 0, minutes: 10 },
    integrity,
  ),
  RampartIntegrityUnread: stays('rampart_file_integrity_unread', { bad: 2, good: 0, minutes: 60 }, integrity),
  RampartIntegrityScanStale: {
    fires: [
      {
        series: {
          [series('rampart_file_integrity_last_scan_timestamp_seconds', integrity)]: '0x200',
          [series('rampart_file_integrity_scan_period_seconds', integrity)]: '900x200',
        },
        at: 97,
        labels: integrity,
      },
    ],
    quiet: [
      {
        series: {
          [series('rampart_file_integrity_last_scan_timestamp_seconds', integrity)]: '0x200',
          [series('rampart_file_integrity_scan_period_seconds', integrity)]: '900x200',
        },
        at: 90,
      },
      // Held off.
      {
        series: { [series('rampart_file_integrity_last_scan_timestamp_seconds', integrity)]: '0x200' },
        at: 180,
      },
    ],
  },
  RampartIntegrityResultPending: stays(
    'rampart_file_integrity_result_pending',
    { bad: 1, good: 0, minutes: 30 },
    integrity,
  ),

  RampartNetworkPolicySyncFailing: fails('rampart_network_policy_sync_failures_total'),
  RampartNetworkPolicyDrift: grows('rampart_network_policy_drift_repaired_total'),
  RampartNetworkPolicyProblems: stays('rampart_network_policy_problems', { bad: 1, good: 0, minutes: 10 }),
  RampartRefusalsSpiking: {
    fires: [
      {
        series: { [refused('shop')]: `0+6x${days} ${6 * days}+600x60` },
        at: days + 30,
        labels: { namespace: 'shop', direction: 'ingress' },
      },
      {
        series: { [refused('new')]: '0+120x60' },
        at: 20,
        labels: { namespace: 'new', direction: 'ingress' },
      },
    ],
    quiet: [
      // As always.
      { series: { [refused('shop')]: `0+600x${days + 60}` }, at: days + 30 },
      // More than always, and few.
      { series: { [refused('shop')]: `0+1x${days} ${days}+30x60` }, at: days + 30 },
    ],
  },

  RampartAuditMissed: grows('rampart_policy_audit_missed_total', operator),
  RampartAuditStale: {
    fires: [
      {
        series: {
          [series('rampart_policy_audit_interval_seconds', operator)]: '3600x300',
          [series('rampart_policy_last_audit_pass_timestamp_seconds', operator)]: '0x300',
        },
        at: 190,
        labels: {},
      },
      {
        // It has ended no pass at all.
        series: {
          [series('rampart_policy_audit_interval_seconds', operator)]: '3600x300',
          [series('process_start_time_seconds', operator)]: '0x300',
        },
        at: 190,
        labels: {},
      },
    ],
    quiet: [
      {
        series: {
          [series('rampart_policy_audit_interval_seconds', operator)]: '3600x300',
          [series('rampart_policy_last_audit_pass_timestamp_seconds', operator)]: '3600x300',
          [series('process_start_time_seconds', operator)]: '0x300',
          // It does not lead.
          [series('process_start_time_seconds', { ...operator, pod: 'b' })]: '0x300',
        },
        at: 190,
      },
      {
        series: {
          [series('rampart_policy_audit_interval_seconds', operator)]: '3600x300',
          [series('process_start_time_seconds', operator)]: '3600x300',
          [series('process_start_time_seconds', { ...operator, pod: 'b' })]: '0x300',
        },
        at: 190,
      },
    ],
  },
  RampartPolicyErrors: {
    fires: [
      {
        series: { [series('rampart_policy_objects', { ...operator, result: 'error' })]: '2x30' },
        at: 15,
        labels: { ...operator, result: 'error' },
      },
    ],
    quiet: [
      { series: { [series('rampart_policy_objects', { ...operator, result: 'fail' })]: '2x30' }, at: 15 },
      { series: { [series('rampart_policy_objects', { ...operator, result: 'error' })]: '0x30' }, at: 15 },
    ],
  },
  RampartPolicyNotActive: {
    fires: [
      {
        series: {
          [series('kubewarden_policy_total', { name: 'clusterwide-a', policy_status: 'pending' })]: '1x30',
        },
        at: 15,
        labels: { name: 'clusterwide-a', policy_status: 'pending' },
      },
    ],
    quiet: [{ series: { [active]: '1x30' }, at: 20 }],
  },
  RampartWebhooksWithoutServer: {
    fires: [
      {
        series: { [series('rampart_policy_server_ready_pods', server)]: '0x30', [active]: '1x30' },
        at: 5,
        labels: server,
      },
    ],
    quiet: [
      { series: { [series('rampart_policy_server_ready_pods', server)]: '1x30', [active]: '1x30' }, at: 5 },
      // No policy is enforced by it.
      { series: { [series('rampart_policy_server_ready_pods', server)]: '0x30' }, at: 5 },
      // In standalone there are no servers.
      { series: { [active]: '1x30' }, at: 5 },
    ],
  },

  RampartProgramNotLoaded: stays('rampart_bpf_programs_not_loaded', { bad: 1, good: 0, minutes: 10 }),
  RampartProgramOutdated: stays('rampart_bpf_programs_outdated', { bad: 1, good: 0, minutes: 10 }),
  RampartProgramDrift: grows('rampart_bpf_programs_drift_repaired_total'),
  RampartProgramPassesFailing: fails('rampart_bpf_programs_pass_failures_total'),
};
