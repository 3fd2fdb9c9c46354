/** The options of aide.conf(5), 0.18 and 0.19, and what their values may be. */
import { reportLevels } from '../model/report.ts';
import { fault, type Fault, plain } from './source.ts';

export type OptionType =
  | 'inputUrl'
  | 'outputUrl'
  | 'reportUrl'
  | 'bool'
  | 'attributes'
  | 'checksums'
  | 'text'
  | 'path'
  | 'workers'
  | 'e2fsAttributes'
  | readonly string[];

export interface Option {
  readonly type: OptionType;
  /** Which line takes effect if several set the option; with `all`, each does. */
  readonly wins: 'first' | 'last' | 'all';
}

const logLevels = [
  ...['error', 'warning', 'notice', 'info', 'rule', 'compare', 'config', 'debug', 'thread', 'trace'],
  // Added in 0.19.
  'limit',
];

const of = (type: OptionType, wins: Option['wins'] = 'last'): Option => ({ type, wins });

export const options: ReadonlyMap<string, Option> = new Map([
  ['database_in', of('inputUrl', 'first')],
  ['database_out', of('outputUrl', 'first')],
  ['database_new', of('inputUrl', 'first')],
  ['database_attrs', of('checksums')],
  ['database_add_metadata', of('bool')],
  ['log_level', of(logLevels, 'first')],
  ['gzip_dbout', of('bool')],
  ['root_prefix', of('path', 'first')],
  ['acl_no_symlink_follow', of('bool')],
  ['warn_dead_symlinks', of('bool')],
  ['config_version', of('text')],
  ['config_check_warn_unrestricted_rules', of('bool')],
  ['num_workers', of('workers', 'first')],
  ['report_url', of('reportUrl', 'all')],
  ['report_level', of(reportLevels)],
  ['report_format', of(['plain', 'json'])],
  ['report_base16', of('bool')],
  ['report_detailed_init', of('bool')],
  ['report_quiet', of('bool')],
  ['report_append', of('bool')],
  ['report_grouped', of('bool')],
  ['report_summarize_changes', of('bool')],
  ['report_ignore_added_attrs', of('attributes')],
  ['report_ignore_removed_attrs', of('attributes')],
  ['report_ignore_changed_attrs', of('attributes')],
  ['report_force_attrs', of('attributes')],
  ['report_ignore_e2fsattrs', of('e2fsAttributes')],
]);

/** Names from before 0.17: 0.18 warns about them, 0.19 refuses them. */
export const oldNames: ReadonlyMap<string, string> = new Map([
  ['database', 'database_in'],
  ['grouped', 'report_grouped'],
  ['summarize_changes', 'report_summarize_changes'],
]);

/** Options that 0.17 and later refuse, with what to write instead. */
export const removedOptions: ReadonlyMap<string, string> = new Map([
  ['verbose', "Write 'log_level' and 'report_level' instead"],
  [
    'ignore_list',
    "Write 'report_ignore_added_attrs', 'report_ignore_removed_attrs' and 'report_ignore_changed_attrs' instead",
  ],
  ['report_attributes', "Write 'report_force_attrs' instead"],
  ['recstop', 'Remove it: it never had an effect'],
]);

export function isAttributeType(type: OptionType): boolean {
  return type === 'attributes' || type === 'checksums';
}

/** The error in the value; `undefined` if it is valid. `hostname` is that of the node, which may occur in a file URL. */
export function wrongValue(type: OptionType, value: string, hostname: string): Fault | undefined {
  switch (type) {
    case 'bool':
      return ['yes', 'true', 'no', 'false'].includes(value)
        ? undefined
        : fault`'${value}' is not a boolean: yes, true, no or false`;
    case 'workers':
      return /^\d{1,9}$/.test(value) || /^(?:100|[1-9]?\d)%$/.test(value)
        ? undefined
        : fault`'${value}' is not a number of workers: write an integer, or a share of the processors such as '50%'`;
    case 'inputUrl':
      return wrongUrl(value, ['stdin', 'file', 'fd'], hostname);
    case 'outputUrl':
      return wrongUrl(value, ['stdout', 'stderr', 'file', 'fd'], hostname);
    case 'reportUrl':
      return wrongUrl(value, ['stdout', 'stderr', 'file', 'fd', 'syslog'], hostname);
    case 'text':
    case 'path':
    case 'e2fsAttributes':
    case 'attributes':
    case 'checksums':
      return undefined;
    default:
      return type.includes(value) ? undefined : fault`'${value}' is not one of ${plain(type.join(', '))}`;
  }
}

function wrongUrl(value: string, allowed: readonly string[], hostname: string): Fault | undefined {
  const scheme = value.split(':', 1)[0] ?? '';
  if (!['stdin', 'stdout', 'stderr', 'file', 'fd', 'syslog', 'http', 'https', 'ftp'].includes(scheme)) {
    return fault`'${value}' is not a URL that AIDE supports`;
  }
  if (!allowed.includes(scheme))
    return fault`'${scheme}' cannot be used here, only ${plain(allowed.join(', '))}`;
  const host = /^file:\/\/([^/]*)(\/?)/.exec(value);
  if (host !== null) {
    if (host[2] === '') return fault`'${value}' has no path`;
    if (host[1] !== '' && host[1] !== 'localhost' && host[1] !== hostname) {
      return fault`'${value}' is a file on another host`;
    }
  }
  return undefined;
}
