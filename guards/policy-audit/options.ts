/** The command-line options of this guard. */
import type { GuardOption } from '../../guard/guard.ts';

/** As given on the command line. */
export interface PolicyAuditOptions {
  readonly auditInterval: number;
  readonly reports: 'all' | 'failures';
  readonly reportKind: 'openreports' | 'policyreport';
  readonly reportsBy: 'namespace' | 'object';
  readonly policyModules?: string;
  readonly policySources?: string;
  readonly policyVerification?: string;
  readonly sigstoreTrustConfig?: string;
  /** Default: that of the operator's Deployment. */
  readonly policyServerImage?: string;
  /** In standalone: where it keeps its data. */
  readonly data?: string;
}

export const defaultOptions: PolicyAuditOptions = {
  auditInterval: 3_600_000,
  reports: 'all',
  reportKind: 'policyreport',
  reportsBy: 'object',
};

/** For each command that verifies signatures; named as in Kubewarden. */
export const sigstoreTrustConfig = {
  flags: '--sigstore-trust-config <file>',
  description:
    'the Sigstore trust root that keyless signatures are verified with: a trusted_root.json or a ClientTrustConfig',
};

export const policyAuditOptions: readonly GuardOption[] = [
  {
    flags: '--audit-interval <time>',
    description: 'how often to audit all objects, in addition to those that change: 10m, 1h',
    on: ['operator', 'standalone'],
    parse: duration,
    default: defaultOptions.auditInterval,
    defaultText: '1h',
  },
  {
    flags: '--reports <which>',
    description: 'which results to write: all, or only fail, warn and error',
    on: ['operator', 'standalone'],
    choices: ['all', 'failures'],
    default: defaultOptions.reports,
  },
  {
    flags: '--report-kind <kind>',
    description: 'write PolicyReports of wgpolicyk8s.io, or Reports of openreports.io',
    on: ['operator', 'standalone'],
    choices: ['policyreport', 'openreports'],
    default: defaultOptions.reportKind,
  },
  {
    flags: '--reports-by <what>',
    description: 'one report per object, or one per namespace and one for cluster-scoped objects',
    on: ['operator', 'standalone'],
    choices: ['object', 'namespace'],
    default: defaultOptions.reportsBy,
  },
  {
    flags: '--policy-modules <dir>',
    description:
      'where policy modules are stored; default: in the data directory of standalone, else a temporary directory',
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-sources <file>',
    description: "insecure hosts of modules, and certificate authorities of hosts: Kubewarden's sources.yml",
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-verification <file>',
    description: "the signatures that modules must have: Kubewarden's verification.yml",
    on: ['operator', 'standalone'],
  },
  {
    ...sigstoreTrustConfig,
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-server-image <image>',
    description:
      "the image of PolicyServers that name Kubewarden's own image; default: the image of the operator",
    on: ['operator'],
  },
];

/** `10m`, `1h`. @throws {RangeError} */
function duration(text: string): number {
  const [, digits = '', unit = 's'] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
  const ms = Number(digits) * { s: 1000, m: 60_000, h: 3_600_000 }[unit as 'h' | 'm' | 's'];
  if (digits === '' || ms < 10_000)
    throw new RangeError('It must be a time of at least 10s, such as 10m or 1h.');
  return ms;
}
