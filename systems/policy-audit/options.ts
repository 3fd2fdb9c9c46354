/**
 * What a user may say of this guard on the command line.
 *
 * @module
 */
import type { GuardOption } from '../../shared/guard/guard.ts';

/** As the command line gives them. */
export interface PolicyAuditOptions {
  readonly auditInterval: number;
  readonly reports: 'all' | 'failures';
  readonly reportKind: 'openreports' | 'policyreport';
  readonly reportsBy: 'namespace' | 'object';
  readonly policyModules?: string;
  readonly policySources?: string;
  readonly policyVerification?: string;
  /** Default: that of the operator's Deployment. */
  readonly policyServerImage?: string;
  /** Of standalone: where it keeps its data. */
  readonly data?: string;
}

export const defaultOptions: PolicyAuditOptions = {
  auditInterval: 3_600_000,
  reports: 'all',
  reportKind: 'policyreport',
  reportsBy: 'object',
};

export const policyAuditOptions: readonly GuardOption[] = [
  {
    flags: '--audit-interval <time>',
    description: 'how often all objects are looked at, besides those that change: 10m, 1h',
    on: ['operator', 'standalone'],
    parse: duration,
    default: defaultOptions.auditInterval,
    defaultText: '1h',
  },
  {
    flags: '--reports <which>',
    description: 'which results are written: all, or fail, warn and error alone',
    on: ['operator', 'standalone'],
    choices: ['all', 'failures'],
    default: defaultOptions.reports,
  },
  {
    flags: '--report-kind <kind>',
    description: 'PolicyReport of wgpolicyk8s.io, or Report of openreports.io',
    on: ['operator', 'standalone'],
    choices: ['policyreport', 'openreports'],
    default: defaultOptions.reportKind,
  },
  {
    flags: '--reports-by <what>',
    description: 'one report for each object, or one for each namespace and one for what is in none',
    on: ['operator', 'standalone'],
    choices: ['object', 'namespace'],
    default: defaultOptions.reportsBy,
  },
  {
    flags: '--policy-modules <dir>',
    description:
      'where modules of policies are kept; default: with the data of standalone, else a temporary directory',
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-sources <file>',
    description: "insecure hosts of modules, and authorities of hosts: Kubewarden's sources.yml",
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-verification <file>',
    description: "the signatures that modules need: Kubewarden's verification.yml",
    on: ['operator', 'standalone'],
  },
  {
    flags: '--policy-server-image <image>',
    description:
      "what PolicyServers run where they name Kubewarden's own image; default: the image of the operator",
    on: ['operator'],
  },
];

/** `10m`, `1h`. @throws {RangeError} */
export function duration(text: string): number {
  const [, digits = '', unit = 's'] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
  const ms = Number(digits) * { s: 1000, m: 60_000, h: 3_600_000 }[unit as 'h' | 'm' | 's'];
  if (digits === '' || ms < 10_000) throw new RangeError('A time of at least 10s is needed: 10m, 1h.');
  return ms;
}
