import { systemNamespace } from '../../guard/guard.ts';
import type { AlertingRule } from '../../guard/alerting-rule.ts';

export const alertingRules: readonly AlertingRule[] = [
  {
    // The alert of the File Integrity Operator, with the same name, labels and annotations (its
    // cmd/manager/operator.go), because users route it. FIO joins kube_node_info, so that deleted nodes raise no alert;
    // here their series are removed.
    name: 'NodeHasIntegrityFailure',
    expr: 'max by (node) (file_integrity_operator_node_failed{node=~".+"}) > 0',
    for: '1s',
    severity: 'warning',
    labels: { namespace: systemNamespace },
    summary: 'Node {{ $labels.node }} has a file integrity failure',
    what: 'Node {{ $labels.node }} has an integrity check status of Failed for more than 1 second.',
    why: 'Files of the node differ from their baseline.',
    next: 'rampart status lists the files, and who changed them. If the changes were meant: rampart integrity accept.',
  },
  {
    name: 'RampartIntegrityErrored',
    expr: 'rampart_file_integrity_errored == 1',
    for: '10m',
    severity: 'critical',
    summary: 'The files of {{ $labels.file_integrity }} on {{ $labels.node }} are in an unknown state',
    what: 'The last scan failed as a whole.',
    why: 'Whether files have changed is not known. Usual causes: an error in the configuration, a missing key, a damaged or replaced baseline.',
    next: 'kubectl describe the FileIntegrityNodeStatus: errorMessage has the cause. A baseline that somebody replaced is not trusted again: look at the node before you ask for a new one with re-init.',
  },
  {
    name: 'RampartIntegrityUnread',
    expr: 'rampart_file_integrity_unread > 0',
    for: '1h',
    severity: 'info',
    summary: 'Files of {{ $labels.file_integrity }} on {{ $labels.node }} cannot be read',
    what: 'The last scan could not read some files that the configuration selects.',
    why: 'Changes of their content are not seen.',
    next: 'The log of the scan names them with the reason. Exclude those that cannot be read on purpose.',
  },
  {
    name: 'RampartIntegrityScanStale',
    expr:
      'time() - rampart_file_integrity_last_scan_timestamp_seconds > ' +
      '2 * rampart_file_integrity_scan_period_seconds + 3600',
    for: '5m',
    severity: 'warning',
    summary: '{{ $labels.file_integrity }} was not scanned on {{ $labels.node }} when it was due',
    what: 'The last complete scan is older than twice gracePeriod and an hour.',
    why: 'Changes that the kernel did not report are not found. Usual causes: scans fail, or take longer than that.',
    next: 'rampart status shows errors and the progress of a scan. Select fewer or smaller files, or raise gracePeriod.',
  },
  {
    name: 'RampartIntegrityResultPending',
    expr: 'rampart_file_integrity_result_pending == 1',
    for: '30m',
    severity: 'warning',
    summary: 'A result of {{ $labels.file_integrity }} on {{ $labels.node }} does not reach the API',
    what: 'The agent has a result that the API has not accepted for half an hour.',
    why: 'The status of the FileIntegrity and reports are older than what the agent knows; its findings on stdout are not.',
    next: 'The log of the agent has the answer of the API: a missing right, an admission policy, or no connection.',
  },
];
