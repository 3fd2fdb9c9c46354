import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { anonymous } from '../lib/kube/access/credentials.ts';
import { KubeClient } from '../lib/kube/client/client.ts';
import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { createLogger } from '../lib/telemetry/log.ts';
import { aborted } from '../lib/time/abort.ts';
import type { Admission, GuardAdmissions } from './admission.ts';
import { type ClusterPart, defineGuard, type Guard } from './guard.ts';
import { runClusterGuards } from './part.fixture.ts';

const guardOf = (name: string, part: ClusterPart): Guard =>
  defineGuard({
    ...{ name, summary: '', resources: [], rights: {}, admits: true },
    parse: () => undefined,
    cluster: () => Promise.resolve(part),
  });

suite('guards that object to writes', () => {
  test('are asked by their names, and not waited for where they are not available', async () => {
    const stop = new AbortController();
    const reported: unknown[] = [];
    const admissions: GuardAdmissions = {
      use: (guard, admission) => {
        reported.push([guard, admission]);
        return { [Symbol.dispose]: () => reported.push(`${guard} is gone`) };
      },
      giveUp: (guard) => {
        reported.push(`${guard} will not come`);
        stop.abort();
      },
    };
    const own: Admission = {};
    const joined = Promise.withResolvers<void>();
    const objecting = guardOf('objecting', async ({ admission, signal }) => {
      using _asked = admission?.use(own);
      joined.resolve();
      await aborted(signal);
    });
    const broken = guardOf('broken', async () => {
      await joined.promise;
      throw new RampartError(errorCodes.UNSUPPORTED, { what: 'there are no policies here' });
    });
    // Nothing is asked of it: the guards bring no resources, and hold no lease.
    using client = new KubeClient({
      server: new URL('http://127.0.0.1:1'),
      credentials: anonymous,
      namespace: 'default',
    });
    const logger = createLogger({ level: 'silent' });
    await runClusterGuards([objecting, broken], { client, logger, signal: stop.signal, admissions });
    assert.deepEqual(reported, [['objecting', own], 'broken will not come', 'objecting is gone']);
  });

  test('are reported if the API server is in another process', async () => {
    const stop = new AbortController();
    let seen: unknown = 'nothing';
    const guard = guardOf('objecting', async ({ admission }) => {
      seen = admission;
      stop.abort();
      await Promise.resolve();
    });
    using client = new KubeClient({
      server: new URL('http://127.0.0.1:1'),
      credentials: anonymous,
      namespace: 'default',
    });
    const logger = createLogger({ level: 'silent' });
    await runClusterGuards([guard], { client, logger, signal: stop.signal });
    assert.equal(seen, undefined);
  });
});
