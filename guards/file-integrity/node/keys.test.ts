// The key that baselines are signed with is replaced while the agent runs.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { NodeResult } from '../results/node-result.ts';
import type { InitOptions, InitResult, IntegrityJob } from '../provider/provider.ts';
import { NativeProvider } from './native-provider.ts';
import { TestCluster } from './node.fixture.ts';

const isSuccess = ({ outcome }: NodeResult): boolean => outcome.kind === 'succeeded';
const isError = ({ outcome }: NodeResult): boolean => outcome.kind === 'errored';
const first = Buffer.alloc(32, 3);
const second = Buffer.alloc(32, 4);

/** Calls `onInit` when a baseline is about to be made. */
class Provider extends NativeProvider {
  readonly keys: unknown[] = [];
  onInit: () => Promise<void> = async () => undefined;

  override async init(job: IntegrityJob, options: InitOptions): Promise<InitResult> {
    const { signingKey } = job;
    this.keys.push(signingKey.scheme === 'hmac-sha256' ? signingKey.secret[0] : signingKey.scheme);
    await this.onInit();
    return await super.init(job, options);
  }
}

/** A clock with which it asks for the key only on request, after the first time. */
class AskingClock implements Clock {
  readonly wallMs = systemClock.wallMs;
  readonly monotonicMs = systemClock.monotonicMs;
  #ask: (() => void) | undefined;
  #asked = Promise.withResolvers<void>();

  readonly schedule: Clock['schedule'] = (delayMs, callBack) => {
    if (delayMs !== 10 * 60_000) return systemClock.schedule(delayMs, callBack);
    this.#ask = callBack;
    this.#asked.resolve();
    return () => undefined;
  };

  /** Resolves when it is known what the key is now. */
  async ask(): Promise<void> {
    await this.#asked.promise;
    this.#asked = Promise.withResolvers();
    this.#ask?.();
    await this.#asked.promise;
  }
}

suite('keys of baselines', { timeout: 300_000 }, () => {
  test('a new baseline is signed with the key at the time of its request', async () => {
    await using cluster = await TestCluster.start();
    const provider = new Provider({ version: '0' });
    await cluster.startAgent('n1', { providers: { native: () => provider } });
    await cluster.createIntegrity('fi');
    const made = await cluster.takeResult('fi');
    await cluster.replaceKey(second);
    await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
    const again = await cluster.resultWhen('fi', isSuccess, made.sequence);
    assert.deepEqual(again.doneRequests, ['a1']);
    assert.deepEqual(provider.keys, [first[0], second[0]]);
  });

  deepTest('a key that is replaced while a baseline is made: it is made again', async () => {
    await using cluster = await TestCluster.start();
    const provider = new Provider({ version: '0' });
    const clock = new AskingClock();
    provider.onInit = async () => {
      if (provider.keys.length > 1) return;
      await cluster.replaceKey(second);
      await clock.ask();
    };
    await cluster.startAgent('n1', { providers: { native: () => provider }, clock });
    await cluster.createIntegrity('fi', { config: { gracePeriod: 10, initialDelay: 1 } });
    const made = await cluster.resultWhen('fi', isSuccess);
    cluster.write('passwd', 'other');
    // The scan's result depends on the baseline.
    await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed', made.sequence);
    assert.deepEqual(provider.keys, [first[0], second[0]]);
  });

  deepTest('the one before is put back: the baseline is right again with the next look', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi');
    const made = await cluster.takeResult('fi');
    await agent.stop();
    await cluster.replaceKey(second);
    await cluster.startAgent();
    const refused = await cluster.resultWhen('fi', isError, made.sequence);
    await cluster.replaceKey(first);
    await cluster.resultWhen('fi', isSuccess, refused.sequence);
  });
});
