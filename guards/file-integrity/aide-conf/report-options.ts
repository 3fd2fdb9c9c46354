/** Converts the `report_*` options of a configuration to those of reports. */
import { e2fsOfLetters } from '../model/e2fs-attributes.ts';
import type { AideConf } from './conf.ts';
import { defaultReportOptions, reportLevels, type ReportOptions } from '../model/report.ts';

/** Unset options have AIDE's defaults. */
export function reportOptionsOf(conf: Pick<AideConf, 'options' | 'attributeOptions'>): ReportOptions {
  const { options, attributeOptions } = conf;
  const truth = (name: string, byDefault: boolean): boolean => {
    const value = options.get(name)?.value;
    return value === undefined ? byDefault : value === 'yes' || value === 'true';
  };
  const set = (name: string): number => attributeOptions.get(name) ?? 0;
  const level = reportLevels.find((each) => each === options.get('report_level')?.value);
  const { base16, grouped, summarizeChanges, quiet } = defaultReportOptions;
  return {
    level: level ?? defaultReportOptions.level,
    base16: truth('report_base16', base16),
    grouped: truth('report_grouped', grouped),
    summarizeChanges: truth('report_summarize_changes', summarizeChanges),
    quiet: truth('report_quiet', quiet),
    ignoredAdded: set('report_ignore_added_attrs'),
    ignoredRemoved: set('report_ignore_removed_attrs'),
    ignoredChanged: set('report_ignore_changed_attrs'),
    forced: set('report_force_attrs'),
    ignoredE2fs: e2fsOfLetters(options.get('report_ignore_e2fsattrs')?.value ?? '') ?? 0,
  };
}
