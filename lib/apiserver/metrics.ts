/** The counts of the server's inside as Prometheus metrics; those of HTTP are in `http/traffic.ts`. */
import type { Metrics, Reading } from '../telemetry/metrics.ts';
import type { CustomResources } from './custom/custom-resources.ts';
import type { Store } from './store/store.ts';
import type { Upkeep, UpkeepCounts } from './upkeep/upkeep.ts';

export interface Counted {
  readonly store: Store;
  readonly custom: CustomResources;
  readonly upkeep: Upkeep;
}

/** @throws when the registry has them already. */
export function registerServer(metrics: Metrics, { store, custom, upkeep }: Counted): void {
  const counter = (name: string, help: string, read: () => Reading): void =>
    metrics.counter({ name: `rampart_apiserver_${name}_total`, help }, read);
  const gauge = (name: string, help: string, read: () => Reading): void =>
    metrics.gauge({ name: `rampart_apiserver_${name}`, help }, read);

  gauge('store_version', 'Version of the last write.', () => store.version);
  gauge(
    'store_compacted_version',
    'Oldest version that can be listed or watched from.',
    () => store.compactedVersion,
  );
  counter('store_writes', 'Writes committed to disk.', () => store.counters.writes);
  counter('store_commits', 'Transactions of these writes.', () => store.counters.commits);
  counter(
    'store_compaction_failures',
    'Failed compactions of the history; they are retried.',
    () => store.counters.compactionFailures,
  );
  gauge('custom_resources', 'CustomResourceDefinitions whose kinds are served.', () => custom.served);

  const kept = (name: string, help: string, read: (counts: UpkeepCounts) => number): void =>
    gauge(name, help, () => read(upkeep.counts));
  const done = (name: string, help: string, read: (counts: UpkeepCounts) => number): void =>
    counter(name, help, () => read(upkeep.counts));
  kept('dependents', 'Objects whose owners are tracked.', (counts) => counts.dependents);
  kept(
    'namespaces_terminating',
    'Namespaces that are being deleted.',
    (counts) => counts.namespacesTerminating,
  );
  kept('events', 'Events kept until they expire.', (counts) => counts.eventsKept);
  done(
    'dependents_deleted',
    'Objects deleted because their owners are gone.',
    (counts) => counts.dependentsDeleted,
  );
  done('references_removed', 'Owner references removed from orphans.', (counts) => counts.referencesRemoved);
  done('namespaces_deleted', 'Namespaces whose content was deleted.', (counts) => counts.namespacesFinalized);
  done('events_expired', 'Events deleted because they expired.', (counts) => counts.eventsExpired);
  done(
    'upkeep_failures',
    'Failed lists, watches and deletions of the garbage collection; they are retried.',
    (counts) => counts.failures,
  );
}
