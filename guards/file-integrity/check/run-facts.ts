import type { AideConf } from '../aide-conf/conf.ts';
import type { RunFacts } from '../model/report.ts';

/** Facts about a run that has just ended. */
export function runFacts(
  conf: AideConf,
  facts: Pick<RunFacts, 'action' | 'program' | 'startedMs' | 'written'>,
): RunFacts {
  return { ...facts, endedMs: Date.now(), configVersion: conf.options.get('config_version')?.value };
}
