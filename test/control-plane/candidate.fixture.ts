/**
 * One candidate of an election, `node candidate.fixture.ts KUBECONFIG IDENTITY`. While it leads it writes lines to stdout:
 * `lead NS`, `tick NS`..., `end NS`, each with the machine's monotonic clock, which all processes share.
 */
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { runElection } from '../../lib/kube/leader-election/leader-election.ts';
import { leaseStore } from '../../lib/kube/leader-election/lease-store.ts';

const [kubeconfig = '', identity = ''] = process.argv.slice(2);
const say = (what: string, time = process.hrtime.bigint()): void => void writeSync(1, `${what} ${time}\n`);
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
using client = new KubeClient(findClusterAccess({ path: kubeconfig }), { maxRetries: 0 });
await runElection({
  lock: leaseStore(client, { namespace: 'kube-system', name: 'agents' }),
  identity,
  leaseDurationSeconds: 3,
  renewDeadlineMs: 2000,
  retryPeriodMs: 300,
  signal: stop.signal,
  async lead(signal, term) {
    say('lead');
    while (!signal.aborted) {
      // The time first: a process that is stopped between the request and the clock would record a time after
      // its term.
      const now = process.hrtime.bigint();
      if (term.isCurrent()) say('tick', now);
      await delay(10, undefined, { signal }).catch(() => undefined);
    }
    say('end');
  },
});
