/**
 * What upkeep counts, for Prometheus. Its queues are among the readings of `createControllerMetrics`.
 *
 * @module
 */
import type { Metrics } from '../../observe/metrics.ts';
import type { Upkeep, UpkeepCounts } from './upkeep.ts';

/**
 * Registers `rampart_apiserver_upkeep_*`.
 *
 * @throws when the registry has them already.
 */
export function registerUpkeepMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'>,
  upkeep: Pick<Upkeep, 'counts'>,
): void {
  const read = (name: keyof UpkeepCounts) => (): number => upkeep.counts[name];
  const counter = (name: string, help: string, count: keyof UpkeepCounts): void =>
    metrics.counter({ name: `rampart_apiserver_upkeep_${name}_total`, help }, read(count));
  const gauge = (name: string, help: string, count: keyof UpkeepCounts): void =>
    metrics.gauge({ name: `rampart_apiserver_upkeep_${name}`, help }, read(count));
  gauge('dependents', 'Objects with owner references, which are kept in memory.', 'dependents');
  gauge('namespaces_terminating', 'Namespaces that are being deleted.', 'namespacesTerminating');
  gauge('events', 'Events that are kept until they expire.', 'eventsKept');
  counter('dependents_deleted', 'Objects deleted because their owners are gone.', 'dependentsDeleted');
  counter('references_removed', 'Objects that lost references to owners.', 'referencesRemoved');
  counter('namespaces_finalized', 'Namespaces whose content was deleted.', 'namespacesFinalized');
  counter('events_expired', 'Events deleted because of their age.', 'eventsExpired');
  counter('failures', 'Lists, watches and deletions of events that failed and were tried again.', 'failures');
}
