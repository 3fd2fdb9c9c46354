/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { choice, number, optionalText } from '../../guard/option-values.ts';
import type { ModuleFiles } from './modules/process-modules.ts';
import { type WantedReportKind, wantedReportKinds } from './reports/report-kind.ts';

export interface PolicyAuditOptions extends ModuleFiles {
  readonly auditIntervalMs: number;
  readonly reports: 'all' | 'failures';
  readonly reportKind: WantedReportKind;
  readonly reportsBy: 'namespace' | 'object';
  readonly policyModules: string | undefined;
  /** Default: the image of the operator's Deployment. */
  readonly policyServerImage: string | undefined;
  /** Only in standalone: the directory for its data. */
  readonly data: string | undefined;
}

const writtenResults: readonly PolicyAuditOptions['reports'][] = ['all', 'failures'];
const reportScopes: readonly PolicyAuditOptions['reportsBy'][] = ['object', 'namespace'];

/** The option of all commands that verify signatures, with Kubewarden's name. */
export const sigstoreTrustConfig = {
  flags: '--sigstore-trust-config <file>',
  description:
    'the Sigstore trust root that keyless signatures are verified with: a trusted_root.json or a ClientTrustConfig',
};

/** The options of all commands that fetch modules for the policies of a cluster. */
export const moduleFileOptions = [
  {
    flags: '--policy-sources <file>',
    description: "insecure hosts of modules, and certificate authorities of hosts: Kubewarden's sources.yml",
  },
  {
    flags: '--policy-verification <file>',
    description: "the signatures that modules must have: Kubewarden's verification.yml",
  },
  sigstoreTrustConfig,
];

export const policyAuditOptions: readonly GuardOption[] = [
  {
    flags: '--audit-interval <time>',
    description: 'how often to audit all objects, in addition to those that change: 10m, 1h',
    on: ['operator', 'standalone'],
    parse: duration,
    default: 3_600_000,
    defaultText: '1h',
  },
  {
    flags: '--reports <which>',
    description: 'which results to write: all, or only fail, warn and error',
    on: ['operator', 'standalone'],
    choices: writtenResults,
    default: 'all',
  },
  {
    flags: '--report-kind <kind>',
    description:
      'write PolicyReports of wgpolicyk8s.io, or Reports of openreports.io; auto: PolicyReports if the API serves them, else Reports',
    on: ['operator', 'standalone'],
    choices: wantedReportKinds,
    default: 'auto',
  },
  {
    flags: '--reports-by <what>',
    description: 'one report per object, or one per namespace and one for cluster-scoped objects',
    on: ['operator', 'standalone'],
    choices: reportScopes,
    default: 'object',
  },
  {
    flags: '--policy-modules <dir>',
    description:
      'where policy modules are stored; default: in the data directory of standalone, else a temporary directory',
    on: ['operator', 'standalone'],
  },
  ...moduleFileOptions.map((one): GuardOption => ({ ...one, on: ['operator', 'standalone'] })),
  {
    flags: '--policy-server-image <image>',
    description:
      "the image of PolicyServers that name Kubewarden's own image; default: the image of the operator",
    on: ['operator'],
  },
];

export function parsePolicyAuditOptions(values: OptionValues): PolicyAuditOptions {
  return {
    auditIntervalMs: number(values, 'auditInterval'),
    reports: choice(values, 'reports', writtenResults),
    reportKind: choice(values, 'reportKind', wantedReportKinds),
    reportsBy: choice(values, 'reportsBy', reportScopes),
    policyModules: optionalText(values, 'policyModules'),
    policySources: optionalText(values, 'policySources'),
    policyVerification: optionalText(values, 'policyVerification'),
    sigstoreTrustConfig: optionalText(values, 'sigstoreTrustConfig'),
    policyServerImage: optionalText(values, 'policyServerImage'),
    data: optionalText(values, 'data'),
  };
}

/** `10m`, `1h`. @throws {RangeError} */
function duration(text: string): number {
  const [, digits = '', unit = 's'] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
  const ms = Number(digits) * { s: 1000, m: 60_000, h: 3_600_000 }[unit as 'h' | 'm' | 's'];
  if (digits === '' || ms < 10_000)
    throw new RangeError('It must be a time of at least 10s, such as 10m or 1h.');
  return ms;
}
